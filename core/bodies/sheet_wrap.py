"""Wrap deformer: a fine sheet that follows a coarse one, whose nodes are some of its vertices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, best_fit_rotations
from ..geometry.mesh.primitives import closest_points_on_triangles
from ..geometry.mesh.triangles import Triangles
from .vertex_nodes import VertexSkin

# Approximate number of vertex-triangle pairs processed at once.
_PAIRS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class SheetWrap(VertexSkin):
    """Skin of a fine sheet wrapped to a coarse one; vertices that are neither nodes nor bound stay on the animation.

    triangles: (m, 3) nodes.
    bound: (k,) vertices bound to the nodes corners (k, 3) with weights (k, 3).
    offset: (k, 3, 3) m, from each corner to the vertex at rest.
    """

    triangles: Index
    bound: Index
    corners: Index
    weights: Array
    offset: Array

    def __call__(self, nodes: Array, animated: Array) -> Array:
        surface = super().__call__(nodes, animated)
        turned = np.einsum("kcij,kcj->kci", self._node_rotations(nodes)[self.corners], self.offset)
        surface[self.bound] = np.einsum("kc,kci->ki", self.weights, nodes[self.corners] + turned)
        surface[self.duplicates[:, 0]] = surface[self.duplicates[:, 1]]
        return surface

    def _node_rotations(self, nodes: Array) -> Array:
        """Return the rotation (n, 3, 3) of the surface around each node since rest."""
        edges, normals = self._gradient_operators
        after = _normals(nodes, self.triangles)
        after /= np.maximum(np.linalg.norm(after, axis=1), 1e-300)[:, None]
        F = (edges @ nodes + normals @ after).reshape(3, -1, 3)
        return best_fit_rotations(F.transpose(1, 2, 0))

    @cached_property
    def _gradient_operators(self) -> tuple[csr_matrix, csr_matrix]:
        """Operators (3n, n) and (3n, m) from nodes (n, 3) and unit normals (m, 3) to mean deformation gradients.

        The columns of the gradients are stacked. The gradient of a node is the least-squares fit that maps the rest
        edges of its triangles, and their normals scaled to the length of edges, to the current ones.
        """
        n, m = len(self.rest), len(self.triangles)
        before = _normals(self.rest, self.triangles)
        size = np.sqrt(np.maximum(np.linalg.norm(before, axis=1), 1e-300))[:, None]
        origin, other = (self.triangles[:, part].ravel() for part in ([0, 0, 1, 1, 2, 2], [1, 2, 2, 0, 0, 1]))
        edge_vectors = self.rest[other] - self.rest[origin]
        node, triangle = self.triangles.ravel(), np.arange(m).repeat(3)
        moments = np.zeros((n, 3, 3))
        np.add.at(moments, origin, edge_vectors[:, :, None] * edge_vectors[:, None])
        scaled_normals = (before / size)[triangle]
        np.add.at(moments, node, scaled_normals[:, :, None] * scaled_normals[:, None])
        inverse = np.linalg.pinv(moments, hermitian=True)
        edge_weights = np.einsum("ei,eij->je", edge_vectors, inverse[origin])
        normal_weights = np.einsum("ei,eij->je", before[triangle], inverse[node])
        row = n * np.arange(3)[:, None]
        rows = np.stack([row + origin, row + origin]).ravel()
        columns = np.stack([np.tile(other, (3, 1)), np.tile(origin, (3, 1))]).ravel()
        edges = csr_matrix((np.stack([edge_weights, -edge_weights]).ravel(), (rows, columns)), shape=(3 * n, n))
        return edges, csr_matrix(
            (normal_weights.ravel(), ((row + node).ravel(), np.tile(triangle, 3))), shape=(3 * n, m)
        )

    def node_operator(self) -> tuple[csr_matrix, Array]:
        count = len(self.rest)
        rows = np.concatenate([self.vertices, self.bound.repeat(3)])
        columns = np.concatenate([np.arange(count), self.corners.ravel()])
        values = np.concatenate([np.ones(count), self.weights.ravel()])
        operator = csr_matrix((values, (rows, columns)), shape=(self.count, count))
        if len(self.duplicates):
            source_vertex = np.arange(self.count)
            source_vertex[self.duplicates[:, 0]] = self.duplicates[:, 1]
            operator = operator[source_vertex]
        return operator, (np.diff(operator.indptr) == 0).astype(float)


def _normals(points: Array, triangles: Index) -> Array:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.asarray(np.cross(b - a, c - a))


def bind_sheet(
    points: Array, vertices: Index, triangles: Index, collapsed_into: Index, bound: Index, duplicates: Index
) -> SheetWrap:
    """Bind a fine sheet to a coarse one and return the wrap.

    A vertex is bound to the nearest triangle around its node and the neighbours of that.

    points: (v, 3) m, at rest.  vertices, triangles, bound, duplicates: see SheetWrap.
    collapsed_into: (v,) node into which each vertex was collapsed.
    """
    n, m = len(vertices), len(triangles)
    rest = points[vertices]
    node_triangles = csr_matrix((np.ones(3 * m), (triangles.ravel(), np.arange(m).repeat(3))), shape=(n, m))
    nearby_triangles = (node_triangles @ node_triangles.T @ node_triangles).tocsr()
    counts = np.diff(nearby_triangles.indptr)
    corners, weights = np.empty((len(bound), 3), dtype=np.int64), np.empty((len(bound), 3))
    surface = Triangles(rest, triangles).corners
    size = max(int(_PAIRS / max(float(counts.mean()), 1.0)), 1)
    for start in range(0, len(bound), size):
        chunk = bound[start : start + size]
        chunk_counts = counts[collapsed_into[chunk]]
        row = np.arange(len(chunk)).repeat(chunk_counts)
        first = nearby_triangles.indptr[collapsed_into[chunk]]
        spot = (
            np.arange(len(row))
            - np.repeat(np.cumsum(chunk_counts) - chunk_counts, chunk_counts)
            + first.repeat(chunk_counts)
        )
        triangle = nearby_triangles.indices[spot]
        found, _, square = closest_points_on_triangles(points[chunk][row].T, surface.take(triangle, axis=2))
        order = np.lexsort((square, row))
        best = order[np.concatenate([[0], np.cumsum(chunk_counts)[:-1]])]
        corners[start : start + size] = triangles[triangle[best]]
        weights[start : start + size] = found[:, best].T
    offset = points[bound][:, None] - rest[corners]
    skin = vertices, rest, len(points), duplicates
    return SheetWrap(*skin, triangles=triangles, bound=bound, corners=corners, weights=weights, offset=offset)
