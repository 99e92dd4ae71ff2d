"""Affine maps of point arrays."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array


def transform_points(matrix: Array, points: Array) -> Array:
    """Return points (v, 3) transformed by an affine matrix (4, 4)."""
    return np.asarray(points @ matrix[:3, :3].T + matrix[:3, 3])
