"""Colliders: surfaces that only their animation moves, and that bodies collide with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.arrays import Array, Index
from .body import Motion, animated_vertices
from .parameters import ColliderSettings


@dataclass(frozen=True)
class Collider:
    """Surface that bodies collide with. Simulation raises MeshError or SceneError if it is not valid.

    name: unique among the colliders of the scene.
    vertices: (v, 3) m at the first frame.
    triangles: (t, 3), in any orientation; empty for an infinite plane.
    motion: animated positions of the vertices, whose number is constant.
    settings_by_frame: its settings at a frame, which must be that of the last call of motion; None for the defaults.
    is_plane: whether it is an infinite plane. Its three vertices are then a point of the plane, and that point moved
        along the two axes of the plane. The cross product of these axes points to the upper side.
    cache_id: identifier in caches, '' to use the name.
    """

    name: str
    vertices: Array
    triangles: Index
    motion: Motion
    settings_by_frame: Callable[[float], ColliderSettings] | None = None
    is_plane: bool = False
    cache_id: str = ""

    @property
    def identity(self) -> str:
        """Identifier of the collider in caches."""
        return self.cache_id or self.name

    def vertices_at(self, frame: float) -> Array:
        """Return the animated vertices (v, 3) m at a frame. Raises SceneError, see animated_vertices()."""
        return animated_vertices(self.name, self.motion, len(self.vertices), frame)

    def settings_at(self, frame: float) -> ColliderSettings:
        """Return the settings at a frame, which must be that of the last call of motion."""
        return _DEFAULT_SETTINGS if self.settings_by_frame is None else self.settings_by_frame(frame)


_DEFAULT_SETTINGS = ColliderSettings()
