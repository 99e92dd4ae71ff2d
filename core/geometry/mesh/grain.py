"""Grain of woven cloth: the directions of warp and weft in the triangles of a mesh, from its edges.

Quads are modelled along the yarns of a garment. A triangulated quad has two sides along the yarns and its diagonal
across. Warp and weft are alike, so that a direction counts modulo a quarter turn. With the angle t of a side in the
plane of a triangle, exp(4 i t) is equal for all sides along the yarns. Their sum gives the grain of a triangle. Sweeps
over neighbours keep it continuous, and provide it where a triangle has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.arrays import Array, Index, Mask

# Number of sweeps over neighbours: triangles without a grain of their own take that of others within as many triangles.
_SWEEPS = 30
# Weight of the longest axis of the mesh relative to a triangle's own sides, for meshes of equilateral triangles.
_AXIS_WEIGHT = 0.02
# A side is the diagonal of a quad if it is this much longer than the other sides of both of its triangles.
_DIAGONAL_RATIO = 1.001


def plane_axes(points: Array, triangles: Index) -> tuple[Array, Array]:
    """Return unit axes (m, 3), (m, 3) of the planes of triangles; the first is along the first side."""
    a, b = (points[triangles[:, k]] - points[triangles[:, 0]] for k in (1, 2))
    first = a / np.linalg.norm(a, axis=1)[:, None]
    second = b - (b * first).sum(axis=1)[:, None] * first
    return first, second / np.linalg.norm(second, axis=1)[:, None]


def warp_directions(points: Array, triangles: Index) -> Array:
    """Return unit directions (m, 3) of the warp in triangles (m, 3) of points (n, 3) m.

    They depend on the order of vertices and triangles by quarter turns only.
    """
    first, second = plane_axes(points, triangles)
    sides = np.stack([points[triangles[:, (k + 1) % 3]] - points[triangles[:, k]] for k in range(3)], axis=1)
    angles = np.arctan2((sides * second[:, None]).sum(axis=2), (sides * first[:, None]).sum(axis=2))
    joints = _Joints.of(triangles, len(points))
    own = np.where(joints.diagonals(np.linalg.norm(sides, axis=2)), 0.0, np.exp(4j * angles)).sum(axis=1)
    axis = np.linalg.eigh(np.cov(points[np.unique(triangles)].T))[1][:, 2]
    own += _AXIS_WEIGHT * ((first @ axis) + 1j * (second @ axis)) ** 4
    turn = np.angle(_smoothed(own, joints, angles)) / 4.0
    return np.asarray(np.cos(turn)[:, None] * first + np.sin(turn)[:, None] * second)


@dataclass(frozen=True)
class _Joints:
    """Sides that two triangles share: the triangles (j, 2), and the number of the side (j, 2) in each.

    is_flipped: (j,) whether both run through the side in the same direction, so that one of them is turned over.
    """

    faces: Index
    sides: Index
    is_flipped: Mask

    @staticmethod
    def of(triangles: Index, count: int) -> _Joints:
        starts, ends = triangles.ravel(), np.roll(triangles, -1, axis=1).ravel()
        keys = np.minimum(starts, ends) * count + np.maximum(starts, ends)
        order = np.argsort(keys, kind="stable")
        pairs = np.flatnonzero(np.diff(keys[order]) == 0)
        places = np.stack([order[pairs], order[pairs + 1]], axis=1)
        return _Joints(places // 3, places % 3, starts[places[:, 0]] == starts[places[:, 1]])

    def diagonals(self, lengths: Array) -> Mask:
        """Return whether the sides (m, 3), of lengths (m, 3) m, are diagonals of quads."""
        is_longest = lengths > _DIAGONAL_RATIO * np.sort(lengths, axis=1)[:, 1, None]
        both = is_longest[self.faces, self.sides].all(axis=1)
        found = np.zeros_like(is_longest)
        found[self.faces[both], self.sides[both]] = True
        return found


def _smoothed(own: Array, joints: _Joints, angles: Array) -> Array:
    """Return the field (m,) after sweeps in which each triangle takes the sum of its own and its neighbours' values."""
    (a, b), (i, j) = joints.faces.T, joints.sides.T
    one, other = 4.0 * angles[a, i], 4.0 * angles[b, j]
    flipped = joints.is_flipped
    # A side runs in the opposite direction in a neighbour of equal orientation, which is a half turn.
    to_first, to_second = (np.exp(1j * np.where(flipped, one + other, way)) for way in (one - other, other - one))
    field = own
    for _ in range(_SWEEPS):
        field = field / np.maximum(np.abs(field), 1e-300)
        from_b, from_a = (
            turn * np.where(flipped, field[face].conj(), field[face]) for turn, face in ((to_first, b), (to_second, a))
        )
        total = own.copy()
        for face, value in ((a, from_b), (b, from_a)):
            total += np.bincount(face, value.real, len(own)) + 1j * np.bincount(face, value.imag, len(own))
        field = total
    return field
