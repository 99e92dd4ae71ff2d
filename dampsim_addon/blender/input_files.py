"""Files that the current .blend file depends on."""

from __future__ import annotations

from pathlib import Path

import bpy

from .dampsim_names import is_dampsim_name


def input_paths() -> list[Path]:
    """Return the existing input files: the .blend, its libraries (also indirect ones) and caches of other programs."""
    found = [bpy.data.filepath]
    found += [bpy.path.abspath(library.filepath, library=library.parent) for library in bpy.data.libraries]
    found += [
        bpy.path.abspath(file.filepath, library=file.library)
        for file in bpy.data.cache_files
        # DampSim's own caches are results of a bake, never its input.
        if not is_dampsim_name(file.name)
    ]
    found += [
        bpy.path.abspath(modifier.filepath, library=obj.library)
        for obj in bpy.data.objects
        for modifier in obj.modifiers
        if modifier.type == "MESH_CACHE" and not is_dampsim_name(modifier.name)
    ]
    return [path for path in (Path(name) for name in dict.fromkeys(found) if name) if path.is_file()]
