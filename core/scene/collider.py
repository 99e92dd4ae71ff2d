"""Colliders: surfaces that only their animation moves, and that bodies collide with."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.arrays import Array, Index


@dataclass(frozen=True)
class Collider:
    """Surface that bodies collide with. Scene.sampler gives its motion and settings.

    Simulation raises MeshError or SceneError if it is not valid.

    name: unique among the colliders of the scene.
    vertices: (v, 3) m at the first frame; samples have the same number.
    triangles: (t, 3), in any orientation; empty for an infinite plane.
    is_plane: whether it is an infinite plane. Its three vertices are then a point of the plane, and that point moved
        along the two axes of the plane. The cross product of these axes points to the upper side.
    cache_id: identifier in caches, '' to use the name.
    roughness_map: (v,) painted factors on the roughness; None if not painted. An infinite plane has none.
    """

    name: str
    vertices: Array
    triangles: Index
    is_plane: bool = False
    cache_id: str = ""
    roughness_map: Array | None = None

    @property
    def identity(self) -> str:
        """Identifier of the collider in caches."""
        return self.cache_id or self.name
