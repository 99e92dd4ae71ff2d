"""Multifrontal Cholesky factorisation of large symmetric positive definite matrices, in single precision.

Its accuracy is sufficient for preconditioners. The forward pass up the tree of nested dissection multiplies one dense
matrix per front, the backward pass down a part of it, because it reuses the results of a front's own rows. The inverse
is therefore symmetric, and solves run at memory speed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri, spotrf, strtri
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, SinglePrecisionArray
from ..native.library import load_library
from ..native.matrices import CompiledFronts
from .factorisation import solve_single_precision
from .nested_dissection import dissect

# Largest number of contiguous runs of a child's rows for which blocks are added instead of columns.
_RUNS = 20


@dataclass(frozen=True)
class _Front:
    """Factors of a front.

    start, stop: its own rows in elimination order.  ancestor_rows: (r,) later rows that it updates.
    columns: (stop - start + r, stop - start), [A^-1; B A^-1] of its own matrix A and the part B below, column-major.
    """

    start: int
    stop: int
    ancestor_rows: Index
    columns: SinglePrecisionArray


class MultifrontalSolve:
    """A solve with a factorised matrix."""

    def __init__(self, fronts: list[_Front], order: Index) -> None:
        """Create the solve, compiled if the kernel is available.

        order: (n,) the matrix's rows in elimination order.
        """
        self._fronts, self._order = fronts, order
        kernel, self._compiled = load_library(), None
        if kernel is not None and fronts:
            bounds = [(one.start, one.stop) for one in fronts]
            others, ups = [one.ancestor_rows for one in fronts], [one.columns for one in fronts]
            self._compiled = CompiledFronts(kernel, bounds, others, ups, order)
            self._fronts = [replace(one, columns=up) for one, up in zip(fronts, self._compiled.columns, strict=True)]

    @property
    def entry_count(self) -> int:
        """Number of stored entries."""
        return sum(front.columns.size for front in self._fronts)

    def __call__(self, right: Array) -> Array:
        """Return the inverse times right (n,) or (n, k)."""
        return solve_single_precision(self.solve_single_precision, right)

    def solve_single_precision(self, right: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the inverse times right (n,) or (n, k), in single precision."""
        if self._compiled is not None and right.ndim == 1:
            return self._compiled.solve(right)
        x = right[self._order]
        has_columns = x.ndim > 1
        for front in self._fronts:
            own_rows = x[front.start : front.stop]
            if has_columns and not own_rows.any():
                continue
            product = front.columns @ own_rows
            count = front.stop - front.start
            own_rows[...] = product[:count]
            x[front.ancestor_rows] -= product[count:]
        for front in reversed(self._fronts):
            if len(front.ancestor_rows):
                x[front.start : front.stop] -= front.columns[front.stop - front.start :].T @ x[front.ancestor_rows]
        answer = np.empty_like(x)
        answer[self._order] = x
        return answer


def factorise_multifrontal(
    matrix: csr_matrix, places: Array, symbolic: SymbolicFactorisation | None = None
) -> MultifrontalSolve | None:
    """Return a solve with a symmetric matrix (3n, 3n) with nodes at places (n, 3), or None if it is not positive
    definite.

    symbolic: of the matrix's pattern, if known.
    """
    symbolic = symbolic or SymbolicFactorisation.of(matrix, places)
    return symbolic.factorise(matrix, np.float32) or symbolic.factorise(matrix, np.float64)


@dataclass(frozen=True)
class SymbolicFactorisation:
    """Symbolic factorisation: the rows of each front, which depend only on the matrix's pattern.

    order: (3n,) rows in elimination order.  bounds: (f, 2) own rows of each front.  ancestor_rows: later rows it
        updates.
    children: indices of fronts.
    """

    order: Index
    bounds: list[tuple[int, int]]
    ancestor_rows: list[Index]
    children: list[tuple[int, ...]]

    @staticmethod
    def of(matrix: csr_matrix, places: Array) -> SymbolicFactorisation:
        """Return the symbolic factorisation of a matrix (3n, 3n) with nodes at places (n, 3)."""
        count = len(places)
        entries = matrix.tocoo()
        pattern = csr_matrix(
            (np.ones(entries.nnz, dtype=np.int8), (entries.row // 3, entries.col // 3)), (count, count)
        )
        pattern.sum_duplicates()
        parts = dissect(pattern, places)
        nodes = np.concatenate([part.nodes for part in parts])
        place = np.empty(count, dtype=np.int64)
        place[nodes] = np.arange(count)
        ordered = pattern[nodes]
        bounds, ancestor_rows = list[tuple[int, int]](), list[Index]()
        start = 0
        for part in parts:
            stop = start + len(part.nodes)
            coupled_places = place[ordered.indices[ordered.indptr[start] : ordered.indptr[stop]]]
            later_rows = np.unique(np.concatenate([coupled_places, *(ancestor_rows[child] for child in part.children)]))
            ancestor_rows.append(later_rows[later_rows >= stop])
            bounds.append((start, stop))
            start = stop
        rows = (3 * nodes[:, None] + np.arange(3)).ravel()
        return SymbolicFactorisation(
            rows,
            [(3 * first, 3 * last) for first, last in bounds],
            [(3 * one[:, None] + np.arange(3)).ravel() for one in ancestor_rows],
            [part.children for part in parts],
        )

    @property
    def entry_count(self) -> int:
        """Number of entries of the factors."""
        fronts = zip(self.bounds, self.ancestor_rows, strict=True)
        return sum((last - first + len(far)) * (last - first) for (first, last), far in fronts)

    def factorise(self, matrix: csr_matrix, dtype: type[np.floating[Any]]) -> MultifrontalSolve | None:
        """Return the solve, factorised in precision dtype, or None if a pivot is not positive or an entry too large."""
        with np.errstate(over="ignore"):
            ordered = matrix.tocsr()[self.order][:, self.order].tocsr().astype(dtype)
        if not np.isfinite(ordered.data).all():
            return None
        cholesky, invert = (spotrf, strtri) if dtype is np.float32 else (dpotrf, dtrtri)
        local = np.zeros(len(self.order), dtype=np.int64)
        fronts, updates = list[_Front](), dict[int, Array]()
        for number, ((start, stop), ancestor_rows, children) in enumerate(
            zip(self.bounds, self.ancestor_rows, self.children, strict=True)
        ):
            count, size = stop - start, stop - start + len(ancestor_rows)
            local[start:stop], local[ancestor_rows] = np.arange(count), np.arange(count, size)
            front = np.zeros((size, size), dtype=dtype)
            part = slice(ordered.indptr[start], ordered.indptr[stop])
            column, row = ordered.indices[part], np.repeat(np.arange(count), np.diff(ordered.indptr[start : stop + 1]))
            is_lower = column >= start
            front[local[column[is_lower]], row[is_lower]] = ordered.data[part][is_lower]
            for child in children:
                _add_child(front, updates.pop(child), local[self.ancestor_rows[child]])
            if not count:
                updates[number] = front
                fronts.append(_Front(start, stop, ancestor_rows, np.zeros((size, 0), dtype=np.float32)))
                continue
            factor, info = cholesky(np.asfortranarray(front[:count, :count]), lower=1, clean=1, overwrite_a=1)
            if info:
                return None
            inverse, _ = invert(factor, lower=1, overwrite_c=1)
            below = front[count:, :count] @ inverse.T
            updates[number] = front[count:, count:] - below @ below.T
            columns = np.concatenate([inverse.T @ inverse, below @ inverse])
            fronts.append(_Front(start, stop, ancestor_rows, np.asfortranarray(columns, dtype=np.float32)))
        return MultifrontalSolve(fronts, self.order)


def _add_child(front: Array, update: Array, rows: Index) -> None:
    """Add a child's update matrix (r, r) to a front at rows (r,)."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    runs = [(a, b, int(rows[a])) for a, b in pairwise([0, *cuts, len(rows)]) if b > a]
    # Only the lower triangle is used.
    for number, (a, b, p) in enumerate(runs):
        if len(runs) > _RUNS:
            front[rows[a:], p : p + b - a] += update[a:, a:b]
            continue
        for c, d, q in runs[: number + 1]:
            front[p : p + b - a, q : q + d - c] += update[a:b, c:d]
