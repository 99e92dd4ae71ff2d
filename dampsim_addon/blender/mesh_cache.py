"""Cache modifiers that play vertices from a file: their place in the stack and the headers of their files."""

from __future__ import annotations

import struct
from typing import Any

import bpy
import numpy as np

from ...core import SceneError
from .modifiers import can_change_topology, deform_stack, is_deforming


def pc2_header(vertices: int, first: float, samples: int) -> bytes:
    """Return the header of a PC2 file with one sample per frame from the first on; little-endian floats follow it."""
    return struct.pack("<12siiffi", b"POINTCACHE2\0", 1, vertices, first, 1.0, samples)


def mdd_header(vertices: int, times: list[float]) -> bytes:
    """Return the header of an MDD file with a sample for each of the times (s); big-endian floats follow it."""
    return struct.pack(">ii", len(times), vertices) + np.asarray(times, dtype=">f4").tobytes()


def add_cache_modifier(obj: bpy.types.Object, name: str, modifier_type: str, is_first: bool = False) -> Any:
    """Add a modifier, before all others or after the deform stack. The active modifier stays active.

    Raises SceneError where modifiers from a library leave no place for it.
    """
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    modifier: Any = obj.modifiers.new(name, modifier_type)
    if not place_modifier(obj, modifier, is_first):
        obj.modifiers.remove(modifier)
        raise SceneError(
            f"{obj.name}: its modifiers are linked from another file and leave no place for a cache. Bake it there."
        )
    if active:
        obj.modifiers.active = obj.modifiers[active]
    return modifier


def place_modifier(obj: bpy.types.Object, modifier: bpy.types.Modifier, is_first: bool = False) -> bool:
    """Move a DampSim modifier before all others or after the deform stack. Return whether that was possible."""
    target_index = 0 if is_first else _index_after_deform_stack(obj, modifier)
    current_index = obj.modifiers.find(modifier.name)
    if current_index != target_index:
        obj.modifiers.move(current_index, target_index)
    return bool(obj.modifiers.find(modifier.name) == target_index)


def _index_after_deform_stack(obj: bpy.types.Object, new: bpy.types.Modifier) -> int:
    """Return the index after the deform stack, and after hidden modifiers that deform once they are shown.

    new: modifier to be placed, which does not count.
    """
    stack, simulated = [one for one in obj.modifiers if one != new], deform_stack(obj, new=new)
    index = stack.index(simulated[-1]) + 1 if simulated else 0
    for number, modifier in enumerate(stack[index:], index + 1):
        if can_change_topology(modifier) and (modifier.show_viewport or modifier.show_render):
            break
        if is_deforming(modifier):
            index = number
    return index


def play_file(modifier: Any, file_format: str, path: str, first_frame: float) -> None:
    """Set a Mesh Cache modifier to play a PC2 or MDD file from a frame on."""
    modifier.cache_format, modifier.filepath = file_format, path
    modifier.frame_start, modifier.interpolation = first_frame, "LINEAR"


def remove_modifier(obj: bpy.types.Object, modifier: bpy.types.Modifier) -> None:
    """Remove a modifier and keep the active one active, unlike Blender."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    obj.modifiers.remove(modifier)
    if active in obj.modifiers:
        obj.modifiers.active = obj.modifiers[active]
