"""What bodies touch that only its animation moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..arrays import Array, Index
from .body import Motion, animated_vertices
from .parameters import ColliderDials


@dataclass(frozen=True)
class Obstacle:
    """A surface that bodies stop at.

    name: no other obstacle of the scene shares it.
    vertices: (v, 3) m at the first frame.
    triangles: (t, 3); none for an infinite plane.
    motion: of the vertices, which stay as many.
    dials: at a frame for which the motion was just asked; None where they are as by default.
    plane: whether it is an infinite plane: its three vertices are a point of it, and that point moved along its two
        axes. What lies where their cross product points to is above it.
    mark: what it is known by in caches, '' for its name.
    """

    name: str
    vertices: Array
    triangles: Index
    motion: Motion
    dials: Callable[[float], ColliderDials] | None = None
    plane: bool = False
    mark: str = ""

    @property
    def identity(self) -> str:
        """What the obstacle is known by in caches."""
        return self.mark or self.name

    def animated(self, frame: float) -> Array:
        """Vertices (v, 3) m at a frame. Raises SceneError where they are not the mesh's, or nowhere."""
        return animated_vertices(self.name, self.motion, len(self.vertices), frame)

    def at(self, frame: float) -> ColliderDials:
        """Its dials at a frame for which the motion was just asked."""
        return _DEFAULT if self.dials is None else self.dials(frame)


_DEFAULT = ColliderDials()
