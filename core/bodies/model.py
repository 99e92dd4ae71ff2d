"""What a kind builds of a body: its block, and the ways between its nodes and the artist's surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..system.block import Block
from .followers import Followers


class Skin(Protocol):
    """The artist's surface as its nodes carry it."""

    def __call__(self, nodes: Array, animated: Array) -> Array:
        """The simulated surface (v, 3) for node positions (n, 3) and the animated surface (v, 3)."""
        ...

    def carried(self) -> tuple[csr_matrix, Array]:
        """The vertices as means of the nodes, (v, n), less what of each stays on the animation, and that, (v,)."""
        ...

    def attached(self, points: Array) -> tuple[Index, Array]:
        """Nodes (l, k) and weights (l, k) whose means go with points (l, 3) of the rest shape."""
        ...


@dataclass(frozen=True)
class Strands:
    """Threads of a surface, which touch all along.

    edges: (e, 2) its vertices.  areas: (v,) m^2 that each vertex stands for.  thickness: m.
    """

    edges: Index
    areas: Array
    thickness: float


@dataclass(frozen=True)
class Model:
    """block: its nodes, and what pushes them.

    skin: of the artist's surface.
    pins: how the pinned nodes go with the animation.
    nodes: how all nodes do.
    fill: mean part of the elements that lies inside of the surface; 1 where that has no meaning.
    spacing: m, about how far its nodes are from each other, where the surface is carried in between; 0 where its
        vertices are the nodes.
    faces: (t, 3) triangles of the surface that touch others, where fewer than all do.
    strands: of a surface that is woven.
    firm: N/m, how firmly a vertex holds what presses on it, at the modulus that models are made with; 0 where what is
        behind the surface says.
    """

    block: Block
    skin: Skin
    pins: Followers
    nodes: Followers
    fill: float = 1.0
    spacing: float = 0.0
    firm: float = 0.0
    faces: Index | None = None
    strands: Strands | None = None
