"""Modifiers that play vertices from a file, their place in the stack, and the files they read."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

import bpy
import numpy as np

from ...core.errors import SceneError
from .marks import is_ours
from .modifiers import DEFORMING


def pc2_header(vertices: int, first: float, samples: int) -> bytes:
    """Of a file with so many samples, one for each frame from the first on; little-endian floats follow."""
    return struct.pack("<12siiffi", b"POINTCACHE2\0", 1, vertices, first, 1.0, samples)


def mdd_header(vertices: int, times: list[float]) -> bytes:
    """Of a file with a sample for each of the times (s); big-endian floats follow."""
    return struct.pack(">ii", len(times), vertices) + np.asarray(times, dtype=">f4").tobytes()


def check_stack(obj: bpy.types.Object, muted: Collection[str] = ()) -> None:
    """Raise SceneError where no place in the modifier stack comes after the deforming and before the other ones.

    muted: names of modifiers that are switched off for a while, and count.
    """
    shown = [m for m in obj.modifiers if (m.show_viewport or m.name in muted) and not is_ours(m.name)]
    kinds = [m.type in DEFORMING for m in shown]
    last = max((place for place, deforms in enumerate(kinds) if deforms), default=-1)
    if not all(kinds[: last + 1]):
        raise SceneError(
            f"{obj.name}: a modifier that changes the number of vertices stands above a deforming one; "
            "move it down or bake to shape keys."
        )


def attach(obj: bpy.types.Object, name: str, kind: str, before: bool = False) -> Any:
    """A modifier of a kind, before all others or after those that deform."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    modifier: Any = obj.modifiers.new(name, kind)
    last = max((k for k, m in enumerate(obj.modifiers) if m.type in DEFORMING and not is_ours(m.name)), default=-1)
    place = 0 if before else last + 1
    obj.modifiers.move(len(obj.modifiers) - 1, place)
    if obj.modifiers.find(name) != place:
        obj.modifiers.remove(modifier)
        raise SceneError(
            f"{obj.name}: its modifiers come from another file and leave no place for a cache; bake it there."
        )
    if active:
        obj.modifiers.active = obj.modifiers[active]
    return modifier


def play(modifier: Any, form: str, path: str, first: float) -> None:
    """Let a Mesh Cache modifier play a PC2 or MDD file from a frame on."""
    modifier.cache_format, modifier.filepath = form, path
    modifier.frame_start, modifier.interpolation = first, "LINEAR"


def detach(obj: bpy.types.Object, modifier: bpy.types.Modifier) -> None:
    """Remove a modifier and leave the active one active, which Blender does not."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    obj.modifiers.remove(modifier)
    if active in obj.modifiers:
        obj.modifiers.active = obj.modifiers[active]
