"""Blend between two shapes along arcs, where straight paths would shorten edges that turn on the way.

Each vertex has the rotation that best fits the edges around it. It advances by the weight of the blend, and carries the
edges, whose lengths change linearly. The positions are those whose edges come closest to these, in the least-squares
sense, as in: Sorkine, Alexa, *As-rigid-as-possible surface modeling* (2007), section 3, with interpolated rotations.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial.transform import Rotation

from ..base.arrays import Array, Index
from ..materials.polar_decomposition import best_fit_rotations
from ..solvers.factorisation import factorise

# Part of the trace of the products of edges that favours no rotation: it stops the free spin of edges along one line.
_STILL_SHARE = 1e-3
# Weight of the straight path of a vertex, relative to an edge: it places what no edge does, such as whole pieces.
_PATH_WEIGHT = 1e-7
# Vertices that move by less than this part of the size at all frames stay on their paths: pins.
_STILL_PART = 1e-5
# Weight of the path of such a vertex, relative to an edge.
_PIN_WEIGHT = 1e4
# Length below which a blended edge has no direction, m.
_TINY = 1e-12


class ArcBlend:
    """Blend of a shape into another one at several frames, along arcs.

    plain, simulated: vertices (f, v, 3), m.  pairs: vertices (p, 2) of edges.
    """

    def __init__(self, plain: Array, simulated: Array, pairs: Index) -> None:
        self._plain, self._simulated, self._pairs = plain, simulated, pairs
        count = plain.shape[1]
        rows, signs = np.repeat(np.arange(len(pairs)), 2), np.tile([1.0, -1.0], len(pairs))
        self._edges = csr_matrix((signs, (rows, pairs.ravel())), shape=(len(pairs), count))
        self._around = abs(self._edges).T.tocsr()
        moves = np.linalg.norm(simulated - plain, axis=2).max(axis=0)
        size = float(np.linalg.norm(np.ptp(plain[0], axis=0)))
        self._hold = np.where(moves <= _STILL_PART * size, _PIN_WEIGHT, _PATH_WEIGHT)
        self._solve = factorise((self._edges.T @ self._edges + csr_matrix((self._hold, (range(count),) * 2))).tocsr())
        self._turns: dict[int, Array] = {}

    def shape(self, place: int, weight: float) -> Array:
        """Return the vertices (v, 3), m, of a frame. weight: of the simulation.  place: index of the frame."""
        plain, simulated = self._plain[place], self._simulated[place]
        if weight in (0.0, 1.0):
            return np.asarray(simulated if weight else plain)
        turns, path = self._rotation_vectors(place), plain + weight * (simulated - plain)
        before, after = self._edges @ plain, self._edges @ simulated
        wanted = np.zeros_like(before)
        for side in range(2):
            turn = turns[self._pairs[:, side]]
            unturned = Rotation.from_rotvec(turn).apply(after, inverse=True)
            wanted += 0.5 * Rotation.from_rotvec(weight * turn).apply(before + weight * (unturned - before))
        # Where the rotations of both ends differ, their mean is shorter.
        lengths = [np.linalg.norm(one, axis=1) for one in (before, after, wanted)]
        wanted *= (lengths[0] + weight * (lengths[1] - lengths[0]))[:, None] / np.maximum(lengths[2], _TINY)[:, None]
        return np.asarray(self._solve(self._edges.T @ wanted + self._hold[:, None] * path))

    def _rotation_vectors(self, place: int) -> Array:
        """Return the rotation (v, 3), rad, from the edges around each vertex to those of the simulation."""
        if place not in self._turns:
            before, after = (self._edges @ shape[place] for shape in (self._plain, self._simulated))
            products = (self._around @ (after[:, :, None] * before[:, None]).reshape(-1, 9)).reshape(-1, 3, 3)
            scale = np.einsum("pk,pk->p", before, before)
            still = _STILL_SHARE * (self._around @ scale)
            # A vertex without edges does not turn.
            still[still == 0.0] = 1.0
            rotations = best_fit_rotations(products + still[:, None, None] * np.eye(3))
            self._turns[place] = Rotation.from_matrix(rotations).as_rotvec()
        return self._turns[place]
