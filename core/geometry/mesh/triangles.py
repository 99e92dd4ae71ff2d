"""Triangles of one surface at one time, with lazily computed normals, areas, bounds and topology; nearest vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index, Mask
from ...native.box_tree import TriangleTree
from ...native.library import load_library
from ...native.surfaces import triangle_normals

# Triangles with a height below this, relative to the longest side, are degenerate: their normal is unreliable.
_DEGENERATE_HEIGHT = 1e-10


@dataclass(frozen=True)
class Topology:
    """Connectivity of a triangle mesh, which does not change with motion.

    edges: (e, 2) vertices of each edge, the lower first.  triangle_edges: (t, 3) the edge from each corner to the next.
    """

    edges: Index
    triangle_edges: Index

    @staticmethod
    def from_triangles(triangles: Index) -> Topology:
        """Return the topology of triangles (t, 3)."""
        start, end = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()
        low, high = np.minimum(start, end), np.maximum(start, end)
        count = int(high.max(initial=0)) + 1
        keys, triangle_edges = np.unique(low * count + high, return_inverse=True)
        edges = np.stack([keys // count, keys % count], axis=1).reshape(-1, 2)
        return Topology(edges, triangle_edges.reshape(-1, 3))


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
            self._topology = Topology.from_triangles(self.triangles)
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
    def box_tree(self) -> TriangleTree | None:
        """Compiled tree of the bounding boxes; None without a kernel, or without triangles."""
        library = load_library()
        if library is None or not len(self):
            return None
        return TriangleTree(library, self.vertices, self.triangles)

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box in m."""
        if len(self) == 0:
            return 0.0
        return float(np.linalg.norm(self.high.max(axis=1) - self.low.min(axis=1)))

    @cached_property
    def max_coordinate(self) -> float:
        """Largest absolute coordinate of the corners in m."""
        return max(float(np.abs(one).max(initial=0.0)) for one in (self.low, self.high))

    @cached_property
    def _all_normals(self) -> tuple[Array, Array, Array, Array, Mask]:
        """Doubled area normals (3, t), their lengths (t,) in m^2, unit normals (t, 3) and (3, t), and is_degenerate."""
        library = load_library()
        if library is not None:
            return triangle_normals(library, self.vertices, self.triangles, _DEGENERATE_HEIGHT)
        a, b, c = self.corners
        doubled = cross_rows(b - a, c - a)
        lengths = np.sqrt((doubled * doubled).sum(axis=0))
        longest = np.maximum(np.maximum(_squared_lengths(b - a), _squared_lengths(c - b)), _squared_lengths(a - c))
        is_degenerate = lengths <= _DEGENERATE_HEIGHT * longest
        rows = np.where(is_degenerate, 0.0, doubled / np.where(is_degenerate, 1.0, lengths))
        return doubled, lengths, np.ascontiguousarray(rows.T), rows, is_degenerate

    @cached_property
    def areas(self) -> Array:
        """Areas (t,) in m^2."""
        return np.asarray(0.5 * self._all_normals[1])

    @property
    def is_degenerate(self) -> Mask:
        """Mask (t,) of triangles that are too thin to have a normal."""
        return self._all_normals[4]

    @property
    def normal_rows(self) -> Array:
        """Unit normals (3, t), zero where degenerate."""
        return self._all_normals[3]

    @property
    def normals(self) -> Array:
        """Unit normals (t, 3), zero where degenerate."""
        return self._all_normals[2]

    @cached_property
    def edge_normals(self) -> Array:
        """Unit pseudo-normals (e, 3) of the edges: normalised sums of face normals, zero where they cancel."""
        edges = self.topology.triangle_edges.ravel()
        sums = [np.bincount(edges, row.repeat(3), minlength=len(self.topology.edges)) for row in self.normal_rows]
        return unit_vectors(np.stack(sums, axis=1))

    @cached_property
    def vertex_normals(self) -> Array:
        """Angle-weighted unit pseudo-normals (v, 3) of the vertices; zero where there is no triangle.

        Unlike unweighted means, they distinguish inside from outside (Baerentzen, Aanaes 2005).
        """
        sums = np.zeros((3, len(self.vertices)))
        for k in range(3):
            here = self.corners[k]
            u, v = self.corners[(k + 1) % 3] - here, self.corners[(k + 2) % 3] - here
            angle = np.arctan2(self._all_normals[1], (u * v).sum(axis=0))
            for axis in range(3):
                part = angle * self.normal_rows[axis]
                sums[axis] += np.bincount(self.triangles[:, k], part, minlength=len(self.vertices))
        return unit_vectors(sums.T)

    @cached_property
    def has_degenerate_triangle(self) -> tuple[Mask, Mask]:
        """Masks of edges (e,) and vertices (v,) of degenerate triangles, whose pseudo-normals are incomplete."""
        edges, vertices = np.zeros(len(self.topology.edges), dtype=bool), np.zeros(len(self.vertices), dtype=bool)
        edges[self.topology.triangle_edges[self.is_degenerate]] = True
        vertices[self.triangles[self.is_degenerate]] = True
        return edges, vertices


def is_closed(triangles: Index) -> bool:
    """Return whether every edge is in exactly two triangles, which traverse it in opposite directions."""
    if len(triangles) == 0:
        return False
    start, end = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()
    count = int(triangles.max()) + 1
    there, back = np.sort(start * count + end), np.sort(end * count + start)
    return bool((np.diff(there) > 0).all() and (start != end).all() and np.array_equal(there, back))


def unit_vectors(vectors: Array) -> Array:
    """Return vectors (k, 3) normalised to unit length; vectors shorter than 1e-12 become zero."""
    length = np.sqrt((vectors * vectors).sum(axis=1))[:, None]
    return np.asarray(np.where(length > 1e-12, vectors / np.maximum(length, 1e-12), 0.0))


def cross_rows(a: Array, b: Array) -> Array:
    """Return cross products (3, k) of vectors stored as rows (3, k)."""
    x, y, z = a
    u, v, w = b
    first = y * w - z * v
    # Several times as fast as np.stack() for short arrays.
    found = np.empty((3, *first.shape), dtype=first.dtype)
    found[0], found[1], found[2] = first, z * u - x * w, x * v - y * u
    return found


def dot_rows(a: Array | Sequence[Array], b: Array | Sequence[Array]) -> Array:
    """Return dot products (k,) of vectors stored as rows (3, k)."""
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def _squared_lengths(rows: Array) -> Array:
    return np.asarray((rows * rows).sum(axis=0))


def nearest_source(vertices: Array, edges: Index, is_source: Mask) -> Index:
    """Return the nearest source (v,) of each vertex along the edges, or in space where no edge leads to one.

    vertices: (v, 3) m.  edges: (e, 2).  is_source: (v,), at least one.
    """
    count, sources = len(vertices), np.flatnonzero(is_source)
    lengths = np.maximum(np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1), 1e-12)
    graph = coo_matrix((lengths, (edges[:, 0], edges[:, 1])), shape=(count, count)).tocsr()
    _, _, found = dijkstra(graph, directed=False, indices=sources, min_only=True, return_predecessors=True)
    apart = np.flatnonzero(found < 0)
    if len(apart):
        found[apart] = sources[cKDTree(vertices[sources]).query(vertices[apart])[1]]
    return np.asarray(found, dtype=np.int64)
