"""Compiled products with a symmetric matrix of 3x3 blocks, and the multifrontal solve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Array, Index, SinglePrecisionArray
from .library import KernelLibrary, pointers, require_indices, require_row_count, require_shape


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


class CompiledFronts:
    """Compiled equivalent of solvers.multifrontal.MultifrontalSolve for one right-hand side.

    It sums in another order.
    """

    def __init__(
        self,
        library: KernelLibrary,
        bounds: Sequence[tuple[int, int]],
        ancestor_rows: Sequence[Index],
        columns: Sequence[SinglePrecisionArray],
        order: Index,
    ) -> None:
        """Take the factors of fronts, without a copy if they follow each other in one buffer.

        bounds: first own row of each front and one past its last.  ancestor_rows: later rows that each front updates.
        columns: (own + ancestor rows, own) each.  order: (n,) rows in elimination order.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        count = len(order)
        require_row_count(count, "rows")
        require_indices(order, (count,), count, "rows in elimination order")
        if np.any(np.bincount(order, minlength=count) != 1):
            raise ValueError("rows in elimination order are repeated")
        if not bounds or not len(bounds) == len(ancestor_rows) == len(columns):
            raise ValueError(f"{len(bounds)} fronts have {len(ancestor_rows)} ancestors and {len(columns)} matrices")
        limits, ancestors = np.array(bounds), np.concatenate(ancestor_rows)
        require_indices(limits, (len(bounds), 2), count + 1, "bounds of fronts")
        require_indices(ancestors, (len(ancestors),), count, "ancestors of fronts")
        own_counts = (limits[:, 1] - limits[:, 0]).tolist()
        shapes = [(own + len(rows), own) for own, rows in zip(own_counts, ancestor_rows, strict=True)]
        if min(own_counts) < 0 or [one.shape for one in columns] != shapes:
            raise ValueError("the matrices of fronts do not match their rows")
        self._function, self._row_count, self._front_count = library.solve, len(order), len(bounds)
        counts, sizes = np.array([len(one) for one in ancestor_rows]), np.array([one.size for one in columns])
        starts, size_starts = np.cumsum(counts) - counts, np.cumsum(sizes) - sizes
        fronts = np.column_stack([limits, starts, counts, size_starts]).astype(np.int64)
        buffer = _shared_buffer(columns)
        if buffer is None:
            buffer = np.concatenate([one.ravel(order="F") for one in columns]).astype(np.float32)
        self._workspace_size = max(one.shape[0] for one in columns)
        self._buffers = fronts, ancestors.astype(np.int32), buffer, order.astype(np.int32)
        self._pointers = pointers(*self._buffers)

    def solve(self, right: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the inverse times right (n,).

        Raises ValueError if the right-hand side has another shape.
        """
        right_side, answer = np.ascontiguousarray(right, dtype=np.float32), np.empty(self._row_count, dtype=np.float32)
        if right_side.shape != answer.shape:
            raise ValueError(f"the right-hand side has shape {right_side.shape}; expected {self._row_count} rows")
        # Allocate workspaces per call, because several threads may solve at once.
        solution, front_workspace = np.empty_like(answer), np.empty(self._workspace_size, dtype=np.float32)
        given = pointers(right_side, answer, solution, front_workspace)
        self._function(self._row_count, self._front_count, *self._pointers, *given)
        return answer


def _shared_buffer(columns: Sequence[SinglePrecisionArray]) -> SinglePrecisionArray | None:
    """Return the single-precision array that column-major matrices fill one after the other, or None."""
    base = columns[0].base
    if not isinstance(base, np.ndarray) or base.ndim != 1 or base.dtype != np.float32 or not base.flags.c_contiguous:
        return None
    at = base.ctypes.data
    for one in columns:
        if one.dtype != np.float32 or not one.flags.f_contiguous or (one.size and one.ctypes.data != at):
            return None
        at += one.nbytes
    return base if at == base.ctypes.data + base.nbytes else None
