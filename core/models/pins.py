"""How the lattice nodes follow the animated surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import spsolve
from scipy.spatial import cKDTree

from ..arrays import Array, Index
from ..geometry.embedding import Embedding
from ..rigid import rigid_motion

# From this weight on a pin is hard; below the other one it is none.
HARD = 0.999
_NONE = 1e-3
# A node without surface vertices goes with its neighbours when they nearly all are pinned.
_FILLED = 0.9
_NEIGHBOURS = 12
# How much the whole body's turn steadies a node's own where its neighbours leave an axis open.
_STEADY = 1e-3


def node_weights(embedding: Embedding, tets: Index, nodes: int, vertex_weights: Array) -> Array:
    """Pin weights (n,) of the nodes from those of the embedded vertices (v,).

    Nodes with vertices around them take the mean. The inside of a body whose surface is pinned all around is pinned too.
    """
    share = np.maximum(embedding.weights, 0.0)
    corners = tets[embedding.tets]

    def mean(importance: Array) -> tuple[Array, Array]:
        total = np.bincount(corners.ravel(), (share * importance[:, None]).ravel(), minlength=nodes)
        part = share * (importance * vertex_weights)[:, None]
        return total, np.bincount(corners.ravel(), part.ravel(), minlength=nodes)

    total, part = mean(np.ones(len(vertex_weights)))
    known = total > 1e-9
    weights = np.where(known, part / np.maximum(total, 1e-9), 0.0)
    if vertex_weights.max(initial=0.0) >= HARD > weights.max(initial=0.0):
        # Pins finer than the lattice: every node near one is held, else the mean would let go of them all.
        total, part = mean(vertex_weights)
        weights = np.where(total > 1e-9, part / np.maximum(total, 1e-9), 0.0)
    inner = np.flatnonzero(~known)
    if len(inner) and weights.max(initial=0.0) > 0.0:
        filled = _harmonic(tets, weights, inner)
        weights[inner] = np.where(filled >= _FILLED, 1.0, 0.0)
    weights[weights >= HARD] = 1.0
    weights[weights < _NONE] = 0.0
    return weights


def _harmonic(tets: Index, values: Array, unknown: Index) -> Array:
    """Values at the unknown nodes that are the mean of their neighbours'."""
    n = len(values)
    a, b = np.array([(i, j) for i in range(4) for j in range(4) if i != j]).T
    graph = coo_matrix((np.ones(12 * len(tets)), (tets[:, a].ravel(), tets[:, b].ravel())), shape=(n, n)).tocsr()
    graph.data[:] = 1.0
    laplacian = (diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsr()
    known = np.setdiff1d(np.arange(n), unknown)
    right = -(laplacian[unknown][:, known] @ values[known])
    return np.atleast_1d(spsolve(laplacian[unknown][:, unknown].tocsc(), right))


@dataclass(frozen=True)
class Followers:
    """Points that go with the nearest vertices of an animated surface, as if rigidly tied to each one's neighbours."""

    rest: Array
    near: Index
    weights: Array
    points: Array

    @staticmethod
    def tie(points: Array, surface: Array, vertices: Index) -> Followers:
        """points: (p, 3) at rest.  surface: (v, 3) at rest.  vertices: which of them may lead."""
        count = min(_NEIGHBOURS, len(vertices))
        distance, near = cKDTree(surface[vertices]).query(points, k=count)
        distance, near = distance.reshape(len(points), count), vertices[near.reshape(len(points), count)]
        reach = distance[:, -1:] + 1e-12
        weights = (1.0 - 0.9 * (distance / reach) ** 2) if count > 1 else np.ones_like(distance)
        return Followers(surface, near, weights / weights.sum(axis=1, keepdims=True), points)

    def __call__(self, surface: Array) -> Array:
        """Positions (p, 3) for the animated surface (v, 3)."""
        if len(self.points) == 0:
            return self.points.copy()
        old, new = self.rest[self.near], surface[self.near]
        a0 = np.einsum("pk,pki->pi", self.weights, old)
        b0 = np.einsum("pk,pki->pi", self.weights, new)
        a, b = old - a0[:, None], new - b0[:, None]
        leaders = np.unique(self.near)
        whole, _ = rigid_motion(self.rest[leaders], surface[leaders])
        scatter = np.einsum("pk,pki,pkj->pij", self.weights, b, a)
        spread = np.einsum("pk,pki,pki->p", self.weights, a, a) + 1e-12
        scatter += (_STEADY * spread)[:, None, None] * whole
        left, _, right = np.linalg.svd(scatter)
        flip = np.sign(np.linalg.det(left @ right))
        left[:, :, 2] *= flip[:, None]
        turned = np.einsum("pij,pj->pi", left @ right, self.points - a0)
        return np.asarray(turned + b0)
