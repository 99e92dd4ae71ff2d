"""Barycentric embedding of points in tetrahedra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ...base.arrays import Array, Index
from ..mesh.triangles import cross_rows

# Corners of the face opposite each corner of a tet.
FACES = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])


@dataclass(frozen=True)
class Embedding:
    """Barycentric embedding of v points in a tetrahedral mesh of n nodes.

    tets: (v,) the tet of each point.  weights: (v, 4) barycentric coordinates.  operator: (v, n) interpolation matrix.
    """

    tets: Index
    weights: Array
    operator: csr_matrix

    def __call__(self, nodes: Array) -> Array:
        """Return the positions (v, 3) of the points for node positions (n, 3)."""
        return np.asarray(self.operator @ nodes)


def embed(points: Array, nodes: Array, tets: Index, guess: Index) -> Embedding:
    """Embed points (v, 3) in the tets that contain them, searching from an initial guess (v,)."""
    found, weights = locate_in_tets(points, nodes, tets, guess)
    rows = np.arange(len(points)).repeat(4)
    operator = csr_matrix((weights.ravel(), (rows, tets[found].ravel())), shape=(len(points), len(nodes)))
    return Embedding(found, weights, operator)


def barycentric_coordinates(points: Array, corners: Array) -> Array:
    """Return barycentric coordinates (p, 4) of points (p, 3) in tets (p, 4, 3)."""
    a, b, c = (np.ascontiguousarray((corners[:, k] - corners[:, 0]).T) for k in (1, 2, 3))
    offset = np.ascontiguousarray((points - corners[:, 0]).T)
    bc = cross_rows(b, c)
    weights = np.empty((len(points), 4))
    weights[:, 1] = (offset * bc).sum(axis=0)
    weights[:, 2] = (offset * cross_rows(c, a)).sum(axis=0)
    weights[:, 3] = (offset * cross_rows(a, b)).sum(axis=0)
    weights[:, 1:] /= (a * bc).sum(axis=0)[:, None]
    weights[:, 0] = 1.0 - weights[:, 1:].sum(axis=1)
    return weights


def locate_in_tets(
    points: Array, nodes: Array, tets: Index, guess: Index, min_weight: float = -1e-9, max_steps: int = 12
) -> tuple[Index, Array]:
    """Return the tet (p,) that contains each point (p, 3), and barycentric coordinates (p, 4) in it.

    Walks from the guess (p,) through the face with the most negative coordinate. A point for which the walk leaves the
    mesh gets the tet with the largest minimum coordinate among those sharing a node with its last tet.
    min_weight: coordinates above it count as inside.  max_steps: of the walk.
    """
    best = guess.copy()
    weights = barycentric_coordinates(points, nodes[tets[best]])
    walking = np.flatnonzero(weights.min(axis=1) < min_weight)
    stuck: list[Index] = []
    if len(walking):
        adjacent = adjacent_tets(tets)
        for _ in range(max_steps):
            next_tet = adjacent[best[walking], weights[walking].argmin(axis=1)]
            stuck.append(walking[next_tet < 0])
            walking, next_tet = walking[next_tet >= 0], next_tet[next_tet >= 0]
            best[walking] = next_tet
            weights[walking] = barycentric_coordinates(points[walking], nodes[tets[next_tet]])
            walking = walking[weights[walking].min(axis=1) < min_weight]
            if len(walking) == 0:
                break
        stuck.append(walking)
    outside = np.sort(np.concatenate([*stuck, np.zeros(0, dtype=np.int64)]))
    if len(outside):
        table = _tets_at_nodes(tets, len(nodes))
        for chunk in np.array_split(outside, max(len(outside) // 20_000, 1)):
            near = table[tets[best[chunk]]].reshape(len(chunk), -1)
            point = np.arange(len(chunk)).repeat(near.shape[1])[near.ravel() >= 0]
            tet = near.ravel()[near.ravel() >= 0]
            candidate_weights = barycentric_coordinates(points[chunk][point], nodes[tets[tet]])
            depth = candidate_weights.min(axis=1)
            order = np.lexsort((depth, point))
            deepest = order[np.append(np.flatnonzero(np.diff(point[order])), len(order) - 1)]
            better = depth[deepest] > weights[chunk].min(axis=1)
            best[chunk[better]] = tet[deepest[better]]
            weights[chunk[better]] = candidate_weights[deepest[better]]
    return best, weights


def adjacent_tets(tets: Index) -> Index:
    """Return the neighbouring tet across the face opposite each corner, (m, 4); -1 at the boundary."""
    faces = np.sort(tets[:, FACES].reshape(-1, 3), axis=1)
    size = int(tets.max(initial=0)) + 1
    keys = (faces[:, 0] * size + faces[:, 1]) * size + faces[:, 2]
    order = np.argsort(keys, kind="stable")
    pair = np.flatnonzero(np.diff(keys[order]) == 0)
    adjacent = np.full(len(keys), -1)
    adjacent[order[pair]] = order[pair + 1] // 4
    adjacent[order[pair + 1]] = order[pair] // 4
    return adjacent.reshape(-1, 4)


def _tets_at_nodes(tets: Index, nodes: int) -> Index:
    """Return the tets at each node, (n, k), padded with -1."""
    flat = tets.ravel()
    order = np.argsort(flat, kind="stable")
    counts = np.bincount(flat, minlength=nodes)
    table = np.full((nodes, int(counts.max())), -1)
    place = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[flat[order], place] = order // 4
    return table
