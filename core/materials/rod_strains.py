"""Bending strains of rods ([SRD] (20) to (24)): the angle between two consecutive edges, per length.

Three nodes x0, x1, x2; a = x1 - x0, b = x2 - x1. Above a small angle theta the strain is theta/L. Below it, where the
gradient of theta is singular, it is the vector k/L with k = a x b/(a . b), of length tan theta ~ theta.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, Mask
from .strains import RelativeStrain

SMALL_ANGLE = 0.1
_MIN_LENGTH = 1e-30


def _edge_products(corners: Array) -> tuple[Array, Array, Array, Array]:
    """Return the edges a, b (m, 3), a x b (m, 3) and a . b (m,)."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return a, b, np.cross(a, b), (a * b).sum(axis=1)


def _node_derivatives(by_a: Array, by_b: Array) -> Array:
    """Return derivatives (m, c, 9) with respect to the three nodes, from those with respect to a and b (m, c, 3)."""
    return np.concatenate([-by_a, by_a - by_b, by_b], axis=2)


def cross_matrix(a: Array) -> Array:
    """Return the matrices (m, 3, 3) that map a vector v to a x v."""
    zero = np.zeros(len(a))
    x, y, z = a.T
    return np.asarray(np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3))


class AngleStrain(RelativeStrain):
    """Bending strain theta/L, one component; singular gradient at theta = 0."""

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edge_products(corners)
        return np.asarray((np.arctan2(np.linalg.norm(c, axis=1), d) / self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, _ = _edge_products(corners)
        axis = c / np.maximum(np.linalg.norm(c, axis=1), _MIN_LENGTH)[:, None]
        # Rotating b about the axis increases the angle, rotating a decreases it.
        by_a = -np.cross(axis, a) / np.maximum((a * a).sum(axis=1), _MIN_LENGTH)[:, None]
        by_b = np.cross(axis, b) / np.maximum((b * b).sum(axis=1), _MIN_LENGTH)[:, None]
        return _node_derivatives(by_a[:, None], by_b[:, None]) / self.lengths[:, None, None]


class TangentStrain(RelativeStrain):
    """Bending strain k/L, three components; smooth at theta = 0, singular at pi/2."""

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edge_products(corners)
        return np.asarray(c / (d * self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, d = _edge_products(corners)
        k = c / d[:, None]
        by_a = (-cross_matrix(b) - k[:, :, None] * b[:, None, :]) / d[:, None, None]
        by_b = (cross_matrix(a) - k[:, :, None] * a[:, None, :]) / d[:, None, None]
        return _node_derivatives(by_a, by_b) / self.lengths[:, None, None]


def rod_bending_strains(
    corners: Array, lengths: Array, elements: Index
) -> list[tuple[AngleStrain | TangentStrain, Mask]]:
    """Return the strain measure for each range of angles, with the mask (m,) of its rods. lengths: (m,) m."""
    _, _, c, d = _edge_products(corners)
    is_wide = np.arctan2(np.linalg.norm(c, axis=1), d) > SMALL_ANGLE
    kinds = ((AngleStrain, is_wide), (TangentStrain, ~is_wide))
    return [(kind(lengths[mask], elements[mask]), mask) for kind, mask in kinds if mask.any()]
