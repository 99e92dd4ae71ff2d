"""Compiled products with a symmetric matrix of 3x3 blocks."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, SinglePrecisionArray
from .arguments import require_indices, require_row_count, require_shape
from .library import KernelLibrary


class CompiledBlocks:
    """A symmetric matrix of blocks (3, 3) with a unit diagonal; only the upper half is stored."""

    def __init__(self, library: KernelLibrary, count: int, rows: Index, columns: Index, blocks: Array) -> None:
        """Store the upper half of a matrix.

        count: number of nodes.  rows, columns: (k,) of each block, sorted by row.  blocks: (k, 3, 3).

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        require_row_count(count, "nodes")
        for indices, name in ((rows, "rows of blocks"), (columns, "columns of blocks")):
            require_indices(indices, (len(rows),), count, name)
        require_shape(blocks, (len(rows), 3, 3), "blocks")
        if np.any(rows[1:] < rows[:-1]):
            raise ValueError("blocks are not sorted by row")
        self._function, self._count = library.blocks, count
        above = np.flatnonzero(columns > rows)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows[above], minlength=count))]).astype(np.int64)
        self._buffers = starts, columns[above].astype(np.int32), blocks[above].astype(np.float32)
        self._pointers = [one.ctypes.data for one in self._buffers]

    def __matmul__(self, vector: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the product with a vector (3n,).

        Raises ValueError if the vector has another shape.
        """
        x, y = np.ascontiguousarray(vector, dtype=np.float32), np.empty(3 * self._count, dtype=np.float32)
        if x.shape != y.shape:
            raise ValueError(f"the vector has shape {x.shape}; expected {3 * self._count} rows")
        self._function(self._count, *self._pointers, x.ctypes.data, y.ctypes.data)
        return y
