"""Triangles of one surface at one time, with lazily computed normals, areas, bounds and topology."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Array, Index, Mask

# Triangles with a height below this, relative to the longest side, are degenerate: their normal is unreliable.
_FLAT = 1e-10


@dataclass(frozen=True)
class Topology:
    """Connectivity of a triangle mesh, which does not change with motion.

    edges: (e, 2) vertices of each edge, the lower first.  triangle_edges: (t, 3) the edge from each corner to the next.
    """

    ends: Index
    sides: Index

    @staticmethod
    def of(triangles: Index) -> Topology:
        """Return the topology of triangles (t, 3)."""
        start, end = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()
        low, high = np.minimum(start, end), np.maximum(start, end)
        count = int(high.max(initial=0)) + 1
        keys, sides = np.unique(low * count + high, return_inverse=True)
        ends = np.stack([keys // count, keys % count], axis=1).reshape(-1, 2)
        return Topology(ends, sides.reshape(-1, 3))


class Triangles:
    """Triangle mesh with cached geometric quantities."""

    def __init__(self, vertices: Array, triangles: Index, topology: Topology | None = None) -> None:
        """vertices: (v, 3) m.  triangles: (t, 3).  topology: that of the same triangles, if already computed."""
        self.vertices = np.asarray(vertices, dtype=np.float64).reshape(-1, 3)
        self.triangles = np.asarray(triangles, dtype=np.int64).reshape(-1, 3)
        self._topology = topology

    def __len__(self) -> int:
        return len(self.triangles)

    @property
    def topology(self) -> Topology:
        """Connectivity of the triangles."""
        if self._topology is None:
            self._topology = Topology.of(self.triangles)
        return self._topology

    @cached_property
    def corners(self) -> Array:
        """Corners (3 corners, 3 coordinates, t) in m, as long rows: numpy is slow along short axes."""
        columns = np.ascontiguousarray(self.vertices.T)
        return np.stack([columns.take(self.triangles[:, k], axis=1) for k in range(3)])

    @cached_property
    def low(self) -> Array:
        """Lower bounds (3, t) of the bounding boxes in m."""
        return np.asarray(self.corners.min(axis=0))

    @cached_property
    def high(self) -> Array:
        """Upper bounds (3, t) of the bounding boxes in m."""
        return np.asarray(self.corners.max(axis=0))

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box in m."""
        if len(self) == 0:
            return 0.0
        return float(np.linalg.norm(self.high.max(axis=1) - self.low.min(axis=1)))

    @cached_property
    def _doubled(self) -> tuple[Array, Array]:
        """Normals (3, t) with the length of twice the area, and those lengths (t,) in m^2."""
        a, b, c = self.corners
        cross = cross_rows(b - a, c - a)
        return cross, np.sqrt((cross * cross).sum(axis=0))

    @cached_property
    def areas(self) -> Array:
        """Areas (t,) in m^2."""
        return np.asarray(0.5 * self._doubled[1])

    @cached_property
    def degenerate(self) -> Mask:
        """Mask (t,) of triangles that are too thin to have a normal."""
        a, b, c = self.corners
        longest = np.maximum(np.maximum(_squares(b - a), _squares(c - b)), _squares(a - c))
        return np.asarray(self._doubled[1] <= _FLAT * longest)

    @cached_property
    def unit_rows(self) -> Array:
        """Unit normals (3, t), zero where degenerate."""
        cross, length = self._doubled
        return np.asarray(np.where(self.degenerate, 0.0, cross / np.where(self.degenerate, 1.0, length)))

    @cached_property
    def normals(self) -> Array:
        """Unit normals (t, 3), zero where degenerate."""
        return np.ascontiguousarray(self.unit_rows.T)

    @cached_property
    def edge_normals(self) -> Array:
        """Unit pseudo-normals (e, 3) of the edges: normalised sums of face normals, zero where they cancel."""
        edges = self.topology.sides.ravel()
        sums = [np.bincount(edges, row.repeat(3), minlength=len(self.topology.ends)) for row in self.unit_rows]
        return unit(np.stack(sums, axis=1))

    @cached_property
    def vertex_normals(self) -> Array:
        """Angle-weighted unit pseudo-normals (v, 3) of the vertices; zero where there is no triangle.

        Unlike unweighted means, they distinguish inside from outside (Baerentzen, Aanaes 2005).
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
        """Masks of edges (e,) and vertices (v,) of degenerate triangles, whose pseudo-normals are incomplete."""
        edges, vertices = np.zeros(len(self.topology.ends), dtype=bool), np.zeros(len(self.vertices), dtype=bool)
        edges[self.topology.sides[self.degenerate]] = True
        vertices[self.triangles[self.degenerate]] = True
        return edges, vertices


def closed(triangles: Index) -> bool:
    """Return whether every edge is in exactly two triangles, which traverse it in opposite directions."""
    if len(triangles) == 0:
        return False
    start, end = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()
    count = int(triangles.max()) + 1
    there, back = np.sort(start * count + end), np.sort(end * count + start)
    return bool((np.diff(there) > 0).all() and (start != end).all() and np.array_equal(there, back))


def unit(vectors: Array) -> Array:
    """Return vectors (k, 3) normalised to unit length; vectors shorter than 1e-12 become zero."""
    length = np.sqrt((vectors * vectors).sum(axis=1))[:, None]
    return np.asarray(np.where(length > 1e-12, vectors / np.maximum(length, 1e-12), 0.0))


def cross_rows(a: Array, b: Array) -> Array:
    """Return cross products (3, k) of vectors stored as rows (3, k)."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _squares(rows: Array) -> Array:
    return np.asarray((rows * rows).sum(axis=0))
