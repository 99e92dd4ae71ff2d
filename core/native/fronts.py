"""Compiled multifrontal solve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Index, SinglePrecisionArray
from .arguments import pointers, require_indices, require_row_count
from .library import KernelLibrary


class CompiledFronts:
    """Compiled equivalent of solvers.multifrontal.MultifrontalSolve for one right-hand side.

    It sums in another order.  columns: the given matrices, as views of one buffer.
    """

    def __init__(
        self,
        library: KernelLibrary,
        bounds: Sequence[tuple[int, int]],
        ancestor_rows: Sequence[Index],
        columns: Sequence[SinglePrecisionArray],
        order: Index,
    ) -> None:
        """Copy the factors of fronts into one buffer.

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
        buffer = np.empty(int(sizes.sum()), dtype=np.float32)
        self.columns = list[SinglePrecisionArray]()
        for start, one in zip(fronts[:, 4], columns, strict=True):
            view = buffer[start : start + one.size].reshape(one.shape, order="F")
            view[...] = one
            self.columns.append(view)
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
