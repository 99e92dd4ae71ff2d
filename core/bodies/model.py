"""Model of a body: its discretization, and the mappings between its nodes and the object's surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..system.discretization import BodyDiscretization
from .surface_binding import BoundPoints


class Skin(Protocol):
    """Deformation of the object's surface (v vertices) by the nodes (n)."""

    def __call__(self, nodes: Array, animated: Array) -> Array:
        """Return the simulated surface (v, 3) m for node positions (n, 3) m and the animated surface (v, 3) m."""
        ...

    def node_operator(self) -> tuple[csr_matrix, Array]:
        """Return the operator (v, n) from nodes to vertices, and the animation weight (v,) of each vertex.

        A row of the operator sums to 1 minus the animation weight.
        """
        ...

    def weights_for_points(self, points: Array) -> tuple[Index, Array]:
        """Return nodes (l, k) and weights (l, k) whose weighted means follow points (l, 3) m of the rest shape."""
        ...


@dataclass(frozen=True)
class Strands:
    """Threads of a surface, which are in contact along their whole length.

    edges: (e, 2) vertices of the threads.  areas: (v,) m^2 represented by each vertex.  thickness: m.
    """

    edges: Index
    areas: Array
    thickness: float


@dataclass(frozen=True)
class Model:
    """Simulation model of a body.

    block: its nodes, elements and force terms.
    skin: deformation of the object's surface by the nodes.
    pins: animated positions of the pinned nodes.
    nodes: animated positions of all nodes.
    fill: mean fraction of the element volume inside the surface; 1 if there is no such volume.
    spacing: m, typical distance of nodes, if the surface is embedded between them; 0 if vertices are the nodes.
    faces: (t, 3) triangles of the surface that take part in contact; None for all.
    strands: threads of a woven surface.
    pieces: (v,) piece of each vertex, if pieces keep their shape and only touch each other; -1 for none.
    surface_stiffness: N/m, resistance of a vertex to contact at BASE_YOUNG; 0 if it follows from the volume behind it.
    """

    block: BodyDiscretization
    skin: Skin
    pins: BoundPoints
    nodes: BoundPoints
    fill: float = 1.0
    spacing: float = 0.0
    surface_stiffness: float = 0.0
    faces: Index | None = None
    strands: Strands | None = None
    pieces: Index | None = None
