"""Subdivision of a surface: long edges are split at their midpoints, and triangles accordingly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, identity, vstack

from ...base.arrays import Array, Index
from .triangles import Topology

_MAX_PASSES = 12
# Largest number of points; subdivision stops before exceeding it.
_MAX_POINTS = 30_000


@dataclass(frozen=True)
class Subdivision:
    """Subdivided surface. triangles: (t, 3).  operator: (p, v), its points as means of vertices, which come first."""

    triangles: Index
    operator: csr_matrix


def subdivide_to_length(vertices: Array, triangles: Index, length: float) -> Subdivision:
    """Subdivide the surface (v, 3), (t, 3) until no edge is longer than length (m) or the maximum size is reached."""
    operator = identity(len(vertices), format="csr")
    points = vertices
    for _ in range(_MAX_PASSES):
        topology = Topology.from_triangles(triangles)
        is_long = np.linalg.norm(points[topology.edges[:, 0]] - points[topology.edges[:, 1]], axis=1) > length
        if not is_long.any() or len(points) + int(is_long.sum()) > _MAX_POINTS:
            break
        middle = np.full(len(is_long), -1)
        middle[is_long] = len(points) + np.arange(int(is_long.sum()))
        ends = topology.edges[is_long]
        rows = np.arange(len(ends)).repeat(2)
        halves = coo_matrix((np.full(2 * len(ends), 0.5), (rows, ends.ravel())), shape=(len(ends), len(points)))
        operator = vstack([operator, halves.tocsr() @ operator], format="csr")
        points = np.concatenate([points, points[ends].mean(axis=1)])
        triangles = _split_triangles(triangles, middle[topology.triangle_edges], points)
    return Subdivision(triangles, operator)


def _split_triangles(triangles: Index, middles: Index, points: Array) -> Index:
    """Split triangles (t, 3) at the midpoints (t, 3) of their sides; -1 marks sides that are not split."""
    count = (middles >= 0).sum(axis=1)
    parts = [triangles[count == 0]]
    # Rotate the corners so that the only split side, or the only unsplit side, comes first.
    for number, first in ((1, middles >= 0), (2, middles < 0)):
        selected = np.flatnonzero(count == number)
        turn = (first[selected].argmax(axis=1)[:, None] + np.arange(3)) % 3
        a, b, c = triangles[selected[:, None], turn].T
        ab, bc, ca = middles[selected[:, None], turn].T
        if number == 1:
            parts += [np.stack([a, ab, c], axis=1), np.stack([ab, b, c], axis=1)]
            continue
        parts.append(np.stack([bc, c, ca], axis=1))
        # Split the remaining quadrilateral along its shorter diagonal.
        is_first_longer = np.linalg.norm(points[a] - points[bc], axis=1) > np.linalg.norm(
            points[b] - points[ca], axis=1
        )
        parts.append(np.where(is_first_longer[:, None], np.stack([a, b, ca], axis=1), np.stack([a, b, bc], axis=1)))
        parts.append(np.where(is_first_longer[:, None], np.stack([b, bc, ca], axis=1), np.stack([a, bc, ca], axis=1)))
    every = np.flatnonzero(count == 3)
    (a, b, c), (ab, bc, ca) = triangles[every].T, middles[every].T
    for corners in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)):
        parts.append(np.stack(corners, axis=1))
    return np.concatenate(parts)
