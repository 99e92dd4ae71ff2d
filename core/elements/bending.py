"""Bending of rods ([SRD] (20) to (24)): the angle between two following edges, per length.

Three nodes x0, x1, x2; a = x1 - x0, b = x2 - x1. Above a small angle theta the strain is theta/L; below it, where the
direction of theta is lost, the vector k/L with k = a x b/(a . b), whose length tan theta is theta to first order.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Mask
from .strains import differences

SMALL_ANGLE = 0.1
_LEAST = 1e-30


def _edges(corners: Array) -> tuple[Array, Array, Array, Array]:
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return a, b, np.cross(a, b), (a * b).sum(axis=1)


def _spread(by_a: Array, by_b: Array) -> Array:
    """Derivatives by the three nodes from those by a and b (m, c, 3): (m, c, 9)."""
    return np.concatenate([-by_a, by_a - by_b, by_b], axis=2)


def _cross(v: Array) -> Array:
    """[v]x with [v]x w = v x w, (m, 3, 3)."""
    return np.cross(np.eye(3)[None], v[:, None, :]).transpose(0, 2, 1) * -1.0


class Angle:
    """theta/L, one component."""

    def __init__(self, lengths: Array, elements: Index) -> None:
        self.elements, self.lengths = elements, lengths

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edges(corners)
        return np.asarray((np.arctan2(np.linalg.norm(c, axis=1), d) / self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, _ = _edges(corners)
        axis = c / np.maximum(np.linalg.norm(c, axis=1), _LEAST)[:, None]
        # Turning b about the axis opens the angle, turning a closes it.
        by_a = -np.cross(axis, a) / np.maximum((a * a).sum(axis=1), _LEAST)[:, None]
        by_b = np.cross(axis, b) / np.maximum((b * b).sum(axis=1), _LEAST)[:, None]
        return _spread(by_a[:, None], by_b[:, None]) / self.lengths[:, None, None]

    def bent(self, corners: Array, stress: Array) -> Array:
        return differences(self.gradient, corners, stress)


class Tangent:
    """k/L, three components."""

    def __init__(self, lengths: Array, elements: Index) -> None:
        self.elements, self.lengths = elements, lengths

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edges(corners)
        return np.asarray(c / (d * self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, d = _edges(corners)
        k = c / d[:, None]
        by_a = (-_cross(b) - k[:, :, None] * b[:, None, :]) / d[:, None, None]
        by_b = (_cross(a) - k[:, :, None] * a[:, None, :]) / d[:, None, None]
        return _spread(by_a, by_b) / self.lengths[:, None, None]

    def bent(self, corners: Array, stress: Array) -> Array:
        return differences(self.gradient, corners, stress)


def bending(
    corners: Array, lengths: Array, elements: Index, small: float = SMALL_ANGLE
) -> list[tuple[Angle | Tangent, Mask]]:
    """The strains in force with the rods (m,) that each holds for. lengths: (m,) m."""
    _, _, c, d = _edges(corners)
    wide = np.arctan2(np.linalg.norm(c, axis=1), d) > small
    found: list[tuple[Angle | Tangent, Mask]] = []
    for kind, which in ((Angle, wide), (Tangent, ~wide)):
        if which.any():
            found.append((kind(lengths[which], elements[which]), which))
    return found
