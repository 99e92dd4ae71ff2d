"""Inputs that can change without a depsgraph update: images, files, Python drivers, and handlers of other add-ons.

Live cannot know whether frames that depend on them still match the scene.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable

import bpy

from ..session import has_frame_handlers_of_others
from .dampsim_names import is_bake_cache_file, is_output_modifier
from .geometry_nodes import node_effect

# Names that give the same value at the same frame: of Blender's driver namespace, and of Python.
_FIXED_NAMES = {
    *(name for name in dir(math) if not name.startswith("_")), "frame", "lerp", "clamp", "smoothstep", "abs", "bool",
    "float", "int", "len", "max", "min", "pow", "round", "sum",
}  # fmt: skip
# Types of datablocks whose content is read from files.
_FILE_TYPES = (bpy.types.Image, bpy.types.MovieClip, bpy.types.CacheFile, bpy.types.Volume)


def untracked_inputs(blocks: Iterable[bpy.types.ID]) -> list[str]:
    """Return the untracked inputs among some datablocks, in words."""
    found = []
    for block in sorted(blocks, key=lambda one: str(one.name_full)):
        if isinstance(block, _FILE_TYPES) and not (
            isinstance(block, bpy.types.CacheFile) and is_bake_cache_file(block)
        ):
            found.append(f"{block.bl_rna.name.lower()} {block.name}")
        elif isinstance(block, bpy.types.NodeTree) and block.bl_idname == "GeometryNodeTree":
            if node_effect(block).reads_files:
                found.append(f"a file of {block.name}")
        elif isinstance(block, bpy.types.Object):
            caches = [m for m in block.modifiers if m.type == "MESH_CACHE" and not is_output_modifier(m)]
            found += [f"the file of {modifier.name}" for modifier in caches]
        data = getattr(block, "animation_data", None)
        if data is not None and any(not is_tracked_driver(curve.driver) for curve in data.drivers):
            found.append(f"a Python driver of {block.name}")
    return found


def is_tracked_driver(driver: bpy.types.Driver) -> bool:
    """Return whether a driver depends only on its variables and the frame."""
    if driver.type != "SCRIPTED":
        return True
    try:
        nodes = list(ast.walk(ast.parse(driver.expression.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Blender does not evaluate it.
        return True
    known = _FIXED_NAMES | {variable.name for variable in driver.variables}
    return not any(
        isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id not in known) for node in nodes
    )


def frame_handler_inputs() -> list[str]:
    """Return in words that scripts or other add-ons have handlers of frame changes, which may move anything."""
    return ["a script that runs at each frame"] if has_frame_handlers_of_others() else []
