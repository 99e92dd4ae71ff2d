"""Bending strains of rods ([SRD] (20) to (24)): the angle between two consecutive edges, per length.

Three nodes x0, x1, x2; a = x1 - x0, b = x2 - x1. Above a small angle theta the strain is theta/L. Below it, where the
gradient of theta is singular, it is the vector k/L with k = a x b/(a . b), of length tan theta ~ theta.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Mask
from .strains import differences

SMALL_ANGLE = 0.1
_LEAST = 1e-30


def _edges(corners: Array) -> tuple[Array, Array, Array, Array]:
    """Return the edges a, b (m, 3), a x b (m, 3) and a . b (m,)."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return a, b, np.cross(a, b), (a * b).sum(axis=1)


def _spread(by_a: Array, by_b: Array) -> Array:
    """Return derivatives (m, c, 9) with respect to the three nodes, from those with respect to a and b (m, c, 3)."""
    return np.concatenate([-by_a, by_a - by_b, by_b], axis=2)


def _cross(v: Array) -> Array:
    """Return the cross-product matrices [v]x (m, 3, 3), [v]x w = v x w."""
    return np.cross(np.eye(3)[None], v[:, None, :]).transpose(0, 2, 1) * -1.0


class Angle:
    """Bending strain theta/L, one component; singular gradient at theta = 0."""

    def __init__(self, lengths: Array, elements: Index) -> None:
        self.elements, self.lengths = elements, lengths

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edges(corners)
        return np.asarray((np.arctan2(np.linalg.norm(c, axis=1), d) / self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, _ = _edges(corners)
        axis = c / np.maximum(np.linalg.norm(c, axis=1), _LEAST)[:, None]
        # Rotating b about the axis increases the angle, rotating a decreases it.
        by_a = -np.cross(axis, a) / np.maximum((a * a).sum(axis=1), _LEAST)[:, None]
        by_b = np.cross(axis, b) / np.maximum((b * b).sum(axis=1), _LEAST)[:, None]
        return _spread(by_a[:, None], by_b[:, None]) / self.lengths[:, None, None]

    def bent(self, corners: Array, stress: Array) -> Array:
        return differences(self.gradient, corners, stress)


class Tangent:
    """Bending strain k/L, three components; smooth at theta = 0, singular at pi/2."""

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
    """Return the strain measure for each range of angles, with the mask (m,) of its rods. lengths: (m,) m."""
    _, _, c, d = _edges(corners)
    wide = np.arctan2(np.linalg.norm(c, axis=1), d) > small
    found: list[tuple[Angle | Tangent, Mask]] = []
    for kind, which in ((Angle, wide), (Tangent, ~wide)):
        if which.any():
            found.append((kind(lengths[which], elements[which]), which))
    return found
