"""Array types of the core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Array of floating-point numbers, in double precision."""
Index = NDArray[np.int64]
"""Array of indices, from 0."""
# Blender's precision: half the memory, for long motions of many vertices.
SinglePrecisionArray = NDArray[np.float32]
Mask = NDArray[np.bool_]


def take_rows(values: Array, indices: Index) -> Array:
    """Return values[indices] of (n, k) or (n,); take() is four times as fast as numpy's indexing."""
    return values.take(indices, axis=0)
