"""Cache modifiers that play vertices from a file: their place in the stack and the headers of their files."""

from __future__ import annotations

import struct
from typing import Any

import bpy
import numpy as np

from ...core.errors import SceneError
from .modifiers import DEFORMING, base, makes


def pc2_header(vertices: int, first: float, samples: int) -> bytes:
    """Return the header of a PC2 file with one sample per frame from the first on; little-endian floats follow it."""
    return struct.pack("<12siiffi", b"POINTCACHE2\0", 1, vertices, first, 1.0, samples)


def mdd_header(vertices: int, times: list[float]) -> bytes:
    """Return the header of an MDD file with a sample for each of the times (s); big-endian floats follow it."""
    return struct.pack(">ii", len(times), vertices) + np.asarray(times, dtype=">f4").tobytes()


def attach(obj: bpy.types.Object, name: str, kind: str, before: bool = False) -> Any:
    """Add a modifier, before all others or after the deform stack. The active modifier stays active.

    Raises SceneError where modifiers from a library leave no place for it.
    """
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    modifier: Any = obj.modifiers.new(name, kind)
    if not put(obj, modifier, before):
        obj.modifiers.remove(modifier)
        raise SceneError(
            f"{obj.name}: its modifiers are linked from another file and leave no place for a cache. Bake it there."
        )
    if active:
        obj.modifiers.active = obj.modifiers[active]
    return modifier


def put(obj: bpy.types.Object, modifier: bpy.types.Modifier, before: bool = False) -> bool:
    """Move a DampSim modifier before all others or after the deform stack. Return whether that was possible."""
    place = 0 if before else _behind_base(obj, [one for one in obj.modifiers if one != modifier])
    now = obj.modifiers.find(modifier.name)
    if now != place:
        obj.modifiers.move(now, place)
    return bool(obj.modifiers.find(modifier.name) == place)


def _behind_base(obj: bpy.types.Object, stack: list[bpy.types.Modifier]) -> int:
    """Return the index after the deform stack, and after hidden modifiers that deform once they are shown."""
    simulated = base(obj)
    place = stack.index(simulated[-1]) + 1 if simulated else 0
    for number, modifier in enumerate(stack[place:], place + 1):
        if makes(modifier) and (modifier.show_viewport or modifier.show_render):
            break
        if modifier.type in DEFORMING:
            place = number
    return place


def play(modifier: Any, form: str, path: str, first: float) -> None:
    """Set a Mesh Cache modifier to play a PC2 or MDD file from a frame on."""
    modifier.cache_format, modifier.filepath = form, path
    modifier.frame_start, modifier.interpolation = first, "LINEAR"


def detach(obj: bpy.types.Object, modifier: bpy.types.Modifier) -> None:
    """Remove a modifier and keep the active one active, unlike Blender."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    obj.modifiers.remove(modifier)
    if active in obj.modifiers:
        obj.modifiers.active = obj.modifiers[active]
