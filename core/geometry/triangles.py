"""The triangles of one surface at one time; what distances and signs need of them is computed when first asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Array, Index, Mask

# A triangle whose height is less than this part of its longest side has no normal that could be trusted.
_FLAT = 1e-10


@dataclass(frozen=True)
class Topology:
    """What hangs together, which motion leaves as it is.

    ends: (e, 2) vertices of each edge, the lower first.  sides: (t, 3) the edge from each corner to the next.
    """

    ends: Index
    sides: Index

    @staticmethod
    def of(triangles: Index) -> Topology:
        start, end = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()
        low, high = np.minimum(start, end), np.maximum(start, end)
        count = int(high.max(initial=0)) + 1
        keys, sides = np.unique(low * count + high, return_inverse=True)
        ends = np.stack([keys // count, keys % count], axis=1).reshape(-1, 2)
        return Topology(ends, sides.reshape(-1, 3))


class Triangles:
    def __init__(self, vertices: Array, triangles: Index, topology: Topology | None = None) -> None:
        """vertices: (v, 3) m.  triangles: (t, 3).  topology: of the same triangles at another time, to save time."""
        self.vertices = np.asarray(vertices, dtype=np.float64).reshape(-1, 3)
        self.triangles = np.asarray(triangles, dtype=np.int64).reshape(-1, 3)
        self._topology = topology

    def __len__(self) -> int:
        return len(self.triangles)

    @property
    def topology(self) -> Topology:
        if self._topology is None:
            self._topology = Topology.of(self.triangles)
        return self._topology

    @cached_property
    def corners(self) -> Array:
        """(3 corners, 3 coordinates, t) m: long rows, since numpy is slow along short ones."""
        columns = np.ascontiguousarray(self.vertices.T)
        return np.stack([columns.take(self.triangles[:, k], axis=1) for k in range(3)])

    @cached_property
    def low(self) -> Array:
        """(3, t) m: the boxes' lower ends."""
        return np.asarray(self.corners.min(axis=0))

    @cached_property
    def high(self) -> Array:
        """(3, t) m."""
        return np.asarray(self.corners.max(axis=0))

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        if len(self) == 0:
            return 0.0
        return float(np.linalg.norm(self.high.max(axis=1) - self.low.min(axis=1)))

    @cached_property
    def _doubled(self) -> tuple[Array, Array]:
        """Normals of twice the area's length (3, t), and those lengths (t,)."""
        a, b, c = self.corners
        cross = cross_rows(b - a, c - a)
        return cross, np.sqrt((cross * cross).sum(axis=0))

    @cached_property
    def areas(self) -> Array:
        """(t,) m^2."""
        return np.asarray(0.5 * self._doubled[1])

    @cached_property
    def degenerate(self) -> Mask:
        """(t,) whether a triangle is too thin to have a normal."""
        a, b, c = self.corners
        longest = np.maximum(np.maximum(_squares(b - a), _squares(c - b)), _squares(a - c))
        return np.asarray(self._doubled[1] <= _FLAT * longest)

    @cached_property
    def unit_rows(self) -> Array:
        """(3, t) unit normals, zero where degenerate."""
        cross, length = self._doubled
        return np.asarray(np.where(self.degenerate, 0.0, cross / np.where(self.degenerate, 1.0, length)))

    @cached_property
    def normals(self) -> Array:
        """(t, 3) unit normals, zero where degenerate."""
        return np.ascontiguousarray(self.unit_rows.T)

    @cached_property
    def edge_normals(self) -> Array:
        """(e, 3) sums of the unit normals at each edge of the topology, made unit length; zero where they cancel."""
        edges = self.topology.sides.ravel()
        sums = [np.bincount(edges, row.repeat(3), minlength=len(self.topology.ends)) for row in self.unit_rows]
        return unit(np.stack(sums, axis=1))

    @cached_property
    def vertex_normals(self) -> Array:
        """(v, 3) angle-weighted normals, unit; zero where there is no triangle.

        Their sign tells inside from outside (Baerentzen, Aanaes 2005), which that of plain means does not.
        """
        sums = np.zeros((3, len(self.vertices)))
        for k in range(3):
            here = self.corners[k]
            u, v = self.corners[(k + 1) % 3] - here, self.corners[(k + 2) % 3] - here
            angle = np.arctan2(self._doubled[1], (u * v).sum(axis=0))
            for axis in range(3):
                part = angle * self.unit_rows[axis]
                sums[axis] += np.bincount(self.triangles[:, k], part, minlength=len(self.vertices))
        return unit(sums.T)

    @cached_property
    def doubtful(self) -> tuple[Mask, Mask]:
        """Edges (e,) and vertices (v,) at degenerate triangles: their pseudo-normals lack a part."""
        edges, vertices = np.zeros(len(self.topology.ends), dtype=bool), np.zeros(len(self.vertices), dtype=bool)
        edges[self.topology.sides[self.degenerate]] = True
        vertices[self.triangles[self.degenerate]] = True
        return edges, vertices


def closed(triangles: Index) -> bool:
    """Whether every edge is in exactly two triangles, which run through it in opposite ways."""
    if len(triangles) == 0:
        return False
    start, end = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()
    count = int(triangles.max()) + 1
    there, back = np.sort(start * count + end), np.sort(end * count + start)
    return bool((np.diff(there) > 0).all() and (start != end).all() and np.array_equal(there, back))


def unit(vectors: Array) -> Array:
    """(k, 3) of unit length; zero stays zero, and what is as good as zero becomes it."""
    length = np.sqrt((vectors * vectors).sum(axis=1))[:, None]
    return np.asarray(np.where(length > 1e-12, vectors / np.maximum(length, 1e-12), 0.0))


def cross_rows(a: Array, b: Array) -> Array:
    """Cross products (3, k) of rows (3, k)."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _squares(rows: Array) -> Array:
    return np.asarray((rows * rows).sum(axis=0))
