"""A surface that can touch others: what of it no motion changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..geometry.edge_pairs import sharp_edges
from ..geometry.proximity import Topology, closed
from ..geometry.surface import triangle_areas

# Contact begins at this part of a body's size, where nothing else is dialled.
DISTANCE = 0.005
# An edge is sharp where its two triangles turn by more than this angle in rad.
_SHARP = 0.35


@dataclass(frozen=True)
class Touchable:
    """A surface that can touch others.

    name: for messages.
    rest: (v, 3) m.  triangles: (t, 3).
    operator: (v, n) its vertices as means of the system's nodes, less what stays on the animation; None for obstacles.
    hold: (v,) how much of each vertex stays on the animation; all of an obstacle's.
    animated: (v, a) the vertices as means of those that are animated; None where they are those.
    block: the place of its block in the system; -1 for obstacles.
    young: Pa, of what is behind the surface, for a stiffness factor of 1; none for obstacles.
    plane: whether it is an infinite plane, given by a triangle of it.
    rough: (v,) painted parts of the friction; None where not painted.
    front: (v, 3) the way in which it slides more easily, unit vectors at rest; None where all ways are alike.
    shares: (v,) m^2 that vertices stand for; None for a third of the triangles around each.
    fold: m, edges longer than so may become sharp where it deforms.
    wires: (w, 2) edges of what has no triangles; their ends touch, as wide as the usual contact distance.
    strung: whether the wires touch all along, not by their ends alone.
    least: m, contact begins no nearer than so where no distance is dialled.
    seam: (v,) for each vertex one that is sewn to the nearest of a seam's, and (v,) m how far that one is at rest;
        None where nothing is sewn.
    """

    name: str
    rest: Array
    triangles: Index
    operator: csr_matrix | None
    hold: Array
    animated: csr_matrix | None = None
    block: int = -1
    young: float = 0.0
    plane: bool = False
    rough: Array | None = None
    front: Array | None = None
    shares: Array | None = None
    fold: float = np.inf
    wires: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    strung: bool = False
    least: float = 0.0
    seam: tuple[Index, Array] | None = None

    @property
    def is_obstacle(self) -> bool:
        return self.block < 0

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        return float(np.linalg.norm(np.ptp(self.rest, axis=0)))

    @property
    def distance(self) -> float:
        """m, at which contact begins where nothing else is dialled."""
        return max(DISTANCE * self.size, self.least)

    @cached_property
    def points(self) -> Index:
        """The vertices that count: of several in one place, one."""
        return np.asarray(np.unique(np.concatenate([self.triangles.ravel(), self.wires.ravel()])))

    @cached_property
    def areas(self) -> Array:
        """(v,) m^2 that vertices stand for."""
        if self.shares is not None:
            return self.shares
        thirds = triangle_areas(self.rest, self.triangles).repeat(3) / 3.0
        found = np.bincount(self.triangles.ravel(), thirds, minlength=len(self.rest)).astype(float)
        long = np.linalg.norm(self.rest[self.wires[:, 0]] - self.rest[self.wires[:, 1]], axis=1)
        halves = (0.5 * DISTANCE * self.size * long).repeat(2)
        return np.asarray(found + np.bincount(self.wires.ravel(), halves, minlength=len(self.rest)))

    @cached_property
    def closed(self) -> bool:
        return not self.plane and closed(self.triangles)

    @cached_property
    def thickness(self) -> float:
        """m, half of the mean one of a closed surface: its volume over its area."""
        a, b, c = (self.rest[self.triangles[:, k]] - self.rest.mean(axis=0) for k in range(3))
        area = float(triangle_areas(self.rest, self.triangles).sum())
        return abs(float(np.einsum("ti,ti->", a, np.cross(b, c)))) / 6.0 / max(area, 1e-300)

    @cached_property
    def around(self) -> Index:
        """(v, d) the triangles at each vertex, some of them several times; any for a vertex without."""
        flat = self.triangles.ravel()
        order = np.argsort(flat, kind="stable")
        count = np.bincount(flat, minlength=len(self.rest))
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        place = first[:, None] + np.minimum(np.arange(max(int(count.max()), 1)), np.maximum(count - 1, 0)[:, None])
        return np.asarray(order[np.minimum(place, len(order) - 1)] // 3)

    @cached_property
    def sharp(self) -> Index:
        """Which of the sides are sharp, or may become so: there the surface turns outwards, or ends. Wires are."""
        found, _, _ = sharp_edges(self.rest, self.triangles, _SHARP, self.topology)
        count = len(self.rest)
        ends = self.sides[0]
        now = np.isin(ends @ np.array([count, 1]), np.sort(found, axis=1) @ np.array([count, 1]))
        long = np.linalg.norm(self.rest[ends[:, 0]] - self.rest[ends[:, 1]], axis=1) > self.fold
        wires = np.arange(len(ends)) >= len(ends) - (len(self.wires) if self.strung else 0)
        return np.flatnonzero(now | long | wires)

    @cached_property
    def topology(self) -> Topology:
        return Topology.of(self.triangles)

    @cached_property
    def sides(self) -> tuple[Index, Index]:
        """All edges (e, 2), the lower end first, and their triangles (e, 2), -1 where there is but one.

        Behind them wires that are strung, of no triangle.
        """
        hang = self.topology
        faces = np.full((len(hang.ends), 2), -1)
        flat = hang.sides.ravel()
        order = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[order], np.arange(len(hang.ends)))
        faces[:, 0] = order[first] // 3
        more = np.minimum(first + 1, len(flat) - 1)
        again = (flat[order[more]] == np.arange(len(hang.ends))) & (more > first)
        faces[again, 1] = order[more[again]] // 3
        if self.strung:
            beside = np.full((len(self.wires), 2), -1)
            return np.concatenate([hang.ends, np.sort(self.wires, axis=1)]), np.concatenate([faces, beside])
        return hang.ends, faces

    @cached_property
    def every(self) -> Index:
        """All of the sides."""
        return np.arange(len(self.sides[0]))

    @cached_property
    def smooth(self) -> Index:
        """Which of the sides are not sharp."""
        return np.setdiff1d(self.every, self.sharp, assume_unique=True)

    @cached_property
    def rounded(self) -> Index:
        """The vertices at ends of sides that are not sharp."""
        return np.asarray(np.unique(self.sides[0][self.smooth]))

    @cached_property
    def beside(self) -> Index:
        """(e, 2) the triangles at each side; at a border its one twice, at a wire none, -1."""
        faces = self.sides[1]
        return np.where(faces < 0, faces[:, ::-1], faces)

    @cached_property
    def balls(self) -> tuple[Array, Array]:
        """Around the triangles at rest: centres (t, 3) m, and radii (t,) m."""
        corners = self.rest[self.triangles]
        centres = corners.mean(axis=1)
        return centres, np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)

    def prepare(self) -> None:
        """Find now what is found when first asked for, and would make the frame of the first contact a long one."""
        if self.plane or not len(self.triangles):
            return
        found = [self.beside, self.rounded, self.corners, self.points, self.areas, self.edge_length]
        if self.closed:
            found += [self.thickness, self.around]

    @cached_property
    def corners(self) -> Index:
        """Vertices that stick out."""
        return np.asarray(np.unique(self.sides[0][self.sharp]))

    @cached_property
    def edge_length(self) -> float:
        """Median length of the edges, m."""
        corners = self.rest[self.triangles]
        return float(np.median(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2))) if len(corners) else 0.0
