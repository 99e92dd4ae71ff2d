"""PC2 files, and the Mesh Cache modifier that plays them after everything that deforms the mesh."""

from __future__ import annotations

import struct
from typing import Any

import bpy

from ..core.errors import SceneError
from .marks import is_ours
from .modifiers import DEFORMING


def header(vertices: int, first: float, samples: int) -> bytes:
    """Of a file with so many samples, one for each frame from the first on."""
    return struct.pack("<12siiffi", b"POINTCACHE2\0", 1, vertices, first, 1.0, samples)


def check_stack(obj: bpy.types.Object) -> None:
    """Raise SceneError where no place in the modifier stack comes after the deforming and before the other ones."""
    kinds = [m.type in DEFORMING for m in obj.modifiers if m.show_viewport and not is_ours(m.name)]
    last = max((place for place, deforms in enumerate(kinds) if deforms), default=-1)
    if not all(kinds[: last + 1]):
        raise SceneError(
            f"{obj.name}: a modifier that changes the number of vertices stands above a deforming one; "
            "move it down or bake to shape keys."
        )


def attach(obj: bpy.types.Object, name: str, path: str, first: float) -> Any:
    """A Mesh Cache modifier for a file, in its place."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    modifier: Any = obj.modifiers.new(name, "MESH_CACHE")
    modifier.cache_format = "PC2"
    modifier.filepath = path
    modifier.frame_start = first
    modifier.interpolation = "LINEAR"
    place = max((k for k, m in enumerate(obj.modifiers) if m.type in DEFORMING and not is_ours(m.name)), default=-1)
    obj.modifiers.move(len(obj.modifiers) - 1, place + 1)
    if active:
        obj.modifiers.active = obj.modifiers[active]
    return modifier


def detach(obj: bpy.types.Object, modifier: bpy.types.Modifier) -> None:
    """Remove a modifier and leave the active one active, which Blender does not."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    obj.modifiers.remove(modifier)
    if active in obj.modifiers:
        obj.modifiers.active = obj.modifiers[active]
