"""Solves in single precision for right sides of any size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, Single


def in_single(solve: Callable[[Single], Single], right: Array) -> Array:
    """What a solve in single precision makes of right, of any shape, scaled so that no power of ten is out of reach."""
    scale = float(np.abs(right).max(initial=0.0))
    if not (np.isfinite(scale) and scale > 0.0):
        return np.full(right.shape, 0.0 if scale == 0.0 else np.nan)
    return np.asarray(solve((right / scale).astype(np.float32)).astype(float) * scale)
