"""What can touch what: surfaces that nodes carry, and obstacles that only their animation moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ..arrays import Array, Index, Mask
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

    @property
    def is_obstacle(self) -> bool:
        return self.block < 0

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        return float(np.linalg.norm(np.ptp(self.rest, axis=0)))

    @cached_property
    def points(self) -> Index:
        """The vertices that count: of several in one place, one."""
        return np.asarray(np.unique(self.triangles))

    @cached_property
    def areas(self) -> Array:
        """(v,) m^2 that vertices stand for."""
        if self.shares is not None:
            return self.shares
        thirds = triangle_areas(self.rest, self.triangles).repeat(3) / 3.0
        return np.bincount(self.triangles.ravel(), thirds, minlength=len(self.rest)).astype(float)

    @cached_property
    def closed(self) -> bool:
        return not self.plane and closed(self.triangles)

    @cached_property
    def sharp(self) -> Index:
        """Which of the sides are sharp: there the surface turns outwards, or ends."""
        found, _, _ = sharp_edges(self.rest, self.triangles, _SHARP)
        count = len(self.rest)
        keys = self.sides[0] @ np.array([count, 1])
        return np.flatnonzero(np.isin(keys, np.sort(found, axis=1) @ np.array([count, 1])))

    @cached_property
    def sides(self) -> tuple[Index, Index]:
        """All edges (e, 2), the lower end first, and their triangles (e, 2), -1 where there is but one."""
        hang = Topology.of(self.triangles)
        faces = np.full((len(hang.ends), 2), -1)
        flat = hang.sides.ravel()
        order = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[order], np.arange(len(hang.ends)))
        faces[:, 0] = order[first] // 3
        more = np.minimum(first + 1, len(flat) - 1)
        again = (flat[order[more]] == np.arange(len(hang.ends))) & (more > first)
        faces[again, 1] = order[more[again]] // 3
        return hang.ends, faces

    @cached_property
    def corners(self) -> Index:
        """Vertices that stick out."""
        return np.asarray(np.unique(self.sides[0][self.sharp]))

    @cached_property
    def edge_length(self) -> float:
        """Median length of the edges, m."""
        corners = self.rest[self.triangles]
        return float(np.median(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2))) if len(corners) else 0.0


@dataclass(frozen=True)
class ContactModel:
    """All that can touch in one system.

    surfaces: bodies' first, then obstacles', then flesh: what lies behind a body's coarse faces, cut finer.
    obstacles: of each surface, its place among the inputs' obstacles; -1 for bodies.
    facing: (a, b) places of surfaces of which each one's points may touch the other; of which b may be an obstacle.
    own: places of surfaces that may touch themselves.
    flesh: (place, body) of surfaces: what has edges that count is the body's.
    """

    surfaces: tuple[Touchable, ...]
    obstacles: tuple[int, ...]
    facing: tuple[tuple[int, int], ...]
    own: tuple[int, ...] = ()
    flesh: tuple[tuple[int, int], ...] = ()

    @cached_property
    def seen(self) -> Index:
        """(s,) the surface that one sees of each."""
        found = np.arange(len(self.surfaces))
        for place, body in self.flesh:
            found[place] = body
        return found

    @cached_property
    def starts(self) -> Index:
        """Where each surface's points begin in the stack, and its end."""
        return np.cumsum([0, *(len(one.rest) for one in self.surfaces)])

    @cached_property
    def count(self) -> int:
        """Points of all surfaces."""
        return int(self.starts[-1])

    @cached_property
    def operator(self) -> csr_matrix:
        """(N, n) all points as means of the system's nodes."""
        nodes = next(one.operator.shape[1] for one in self.surfaces if one.operator is not None)
        parts, rows, columns, values = self.starts, [], [], []
        for start, one in zip(parts, self.surfaces, strict=False):
            if one.operator is not None:
                own = one.operator.tocoo()
                rows.append(own.row + start)
                columns.append(own.col)
                values.append(own.data)
        return coo_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(self.count, nodes)
        ).tocsr()

    @cached_property
    def rough(self) -> Array:
        """(N,) painted parts of the friction."""
        return np.concatenate([np.ones(len(one.rest)) if one.rough is None else one.rough for one in self.surfaces])

    @cached_property
    def ahead(self) -> Index | None:
        """(N, 2) of each point, those beside it that lie farthest to its front and back; None where no surface has one.

        Without a front both are the point itself ([Ctl]'s forward and backward masses).
        """
        if all(one.front is None for one in self.surfaces):
            return None
        found = np.arange(self.count).repeat(2).reshape(-1, 2)
        for start, one in zip(self.starts, self.surfaces, strict=False):
            if one.front is not None:
                found[start : start + len(one.rest)] = start + _ahead(one, one.front)
        return found

    @cached_property
    def moved(self) -> Mask:
        """(N,) whether nodes move a point at all."""
        return np.asarray(np.diff(self.operator.indptr) > 0)

    @cached_property
    def nodes(self) -> Index:
        """Nodes that carry points."""
        return np.asarray(np.unique(self.operator.indices))

    @cached_property
    def owner(self) -> Index:
        """(N,) the surface of each point."""
        return np.repeat(np.arange(len(self.surfaces)), np.diff(self.starts))

    def points_of(self, surface: int) -> slice:
        return slice(int(self.starts[surface]), int(self.starts[surface + 1]))


def _ahead(surface: Touchable, front: Array) -> Index:
    """(v, 2) vertices beside each one that lie farthest along front (v, 3), and against it; else itself."""
    ends = surface.sides[0]
    own, other = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    along = np.einsum("ei,ei->e", surface.rest[other] - surface.rest[own], front[own])
    found = np.arange(len(front)).repeat(2).reshape(-1, 2)
    for column, sign in enumerate((1.0, -1.0)):
        order = np.lexsort((sign * along, own))
        last = order[np.append(np.flatnonzero(np.diff(own[order])), len(order) - 1)]
        there = last[sign * along[last] > 0.0]
        found[own[there], column] = other[there]
    return found
