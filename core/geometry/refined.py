"""A surface cut finer: points are put in the middle of long edges, and every triangle is cut along."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, identity, vstack

from ..arrays import Array, Index
from .triangles import Topology

_ROUNDS = 12
# Points beyond which it is left as coarse as it is.
_MOST = 30_000


@dataclass(frozen=True)
class Refined:
    """triangles: (t, 3).  operator: (p, v) its points as means of the surface's vertices, which come first."""

    triangles: Index
    operator: csr_matrix


def refined(vertices: Array, triangles: Index, length: float) -> Refined:
    """The surface (v, 3), (t, 3) with no edge longer than a length in m, as far as there is room."""
    operator = identity(len(vertices), format="csr")
    points = vertices
    for _ in range(_ROUNDS):
        hang = Topology.of(triangles)
        long = np.linalg.norm(points[hang.ends[:, 0]] - points[hang.ends[:, 1]], axis=1) > length
        if not long.any() or len(points) + int(long.sum()) > _MOST:
            break
        middle = np.full(len(long), -1)
        middle[long] = len(points) + np.arange(int(long.sum()))
        ends = hang.ends[long]
        rows = np.arange(len(ends)).repeat(2)
        halves = coo_matrix((np.full(2 * len(ends), 0.5), (rows, ends.ravel())), shape=(len(ends), len(points)))
        operator = vstack([operator, halves.tocsr() @ operator], format="csr")
        points = np.concatenate([points, points[ends].mean(axis=1)])
        triangles = _cut(triangles, middle[hang.sides], points)
    return Refined(triangles, operator)


def _cut(triangles: Index, middles: Index, points: Array) -> Index:
    """Triangles (t, 3) cut along the points (t, 3) in the middle of their sides, -1 where there is none."""
    count = (middles >= 0).sum(axis=1)
    parts = [triangles[count == 0]]
    # Turned so that the side that is cut, or that is not, is the first.
    for number, first in ((1, middles >= 0), (2, middles < 0)):
        some = np.flatnonzero(count == number)
        turn = (first[some].argmax(axis=1)[:, None] + np.arange(3)) % 3
        a, b, c = triangles[some[:, None], turn].T
        ab, bc, ca = middles[some[:, None], turn].T
        if number == 1:
            parts += [np.stack([a, ab, c], axis=1), np.stack([ab, b, c], axis=1)]
            continue
        parts.append(np.stack([bc, c, ca], axis=1))
        # Along the shorter of the two diagonals of what is left.
        far = np.linalg.norm(points[a] - points[bc], axis=1) > np.linalg.norm(points[b] - points[ca], axis=1)
        parts.append(np.where(far[:, None], np.stack([a, b, ca], axis=1), np.stack([a, b, bc], axis=1)))
        parts.append(np.where(far[:, None], np.stack([b, bc, ca], axis=1), np.stack([a, bc, ca], axis=1)))
    every = np.flatnonzero(count == 3)
    (a, b, c), (ab, bc, ca) = triangles[every].T, middles[every].T
    for corners in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)):
        parts.append(np.stack(corners, axis=1))
    return np.concatenate(parts)
