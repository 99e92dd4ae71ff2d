"""Files that the current .blend file depends on."""

from __future__ import annotations

from pathlib import Path

import bpy

from .dampsim_names import is_bake_cache_file, is_output_modifier


def input_paths() -> list[Path]:
    """Return the existing input files: the .blend, its libraries (also indirect ones) and caches of other programs."""
    found = [bpy.data.filepath]
    found += [bpy.path.abspath(library.filepath, library=library.parent) for library in bpy.data.libraries]
    found += [
        bpy.path.abspath(file.filepath, library=file.library)
        for file in bpy.data.cache_files
        # DampSim's own caches are results of a bake, never its input.
        if not is_bake_cache_file(file)
    ]
    found += [
        bpy.path.abspath(modifier.filepath, library=obj.library)
        for obj in bpy.data.objects
        for modifier in obj.modifiers
        if modifier.type == "MESH_CACHE" and not is_output_modifier(modifier)
    ]
    return [path for path in (Path(name) for name in dict.fromkeys(found) if name) if path.is_file()]
