"""Products with a symmetric matrix of nodes' blocks, compiled."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Single
from .library import Library


class Blocks:
    """A symmetric matrix of blocks (3, 3) with ones on its diagonal, of which one half is kept."""

    def __init__(self, library: Library, count: int, rows: Index, columns: Index, blocks: Array) -> None:
        """Of so many nodes.  rows, columns: (k,) of each block, in order.  blocks: (k, 3, 3)."""
        self._call, self._count = library.blocks, count
        above = np.flatnonzero(columns > rows)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows[above], minlength=count))]).astype(np.int64)
        self._held = starts, columns[above].astype(np.int32), blocks[above].astype(np.float32)
        self._arrays = [one.ctypes.data for one in self._held]

    def __matmul__(self, vector: Single) -> Single:
        """Times a vector (3n,)."""
        x, y = np.ascontiguousarray(vector, dtype=np.float32), np.empty(3 * self._count, dtype=np.float32)
        if x.shape != y.shape:
            raise ValueError(f"the vector has {x.shape} rows instead of {3 * self._count}")
        self._call(self._count, *self._arrays, x.ctypes.data, y.ctypes.data)
        return y
