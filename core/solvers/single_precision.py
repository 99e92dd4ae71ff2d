"""Single-precision solves for right-hand sides of any magnitude."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.arrays import Array, SinglePrecisionArray


def solve_single_precision(solve: Callable[[SinglePrecisionArray], SinglePrecisionArray], right: Array) -> Array:
    """Return a single-precision solve for a right-hand side of any shape, scaled to avoid overflow and underflow."""
    scale = float(np.abs(right).max(initial=0.0))
    if not (np.isfinite(scale) and scale > 0.0):
        return np.full(right.shape, 0.0 if scale == 0.0 else np.nan)
    return np.asarray(solve((right / scale).astype(np.float32)).astype(float) * scale)
