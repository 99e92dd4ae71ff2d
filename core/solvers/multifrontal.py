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

from ..arrays import Array, Index, Single
from ..native.fronts import Fronts
from ..native.library import library
from .dissection import dissect
from .single import in_single

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
    others: Index
    up: Single


class Multifrontal:
    """A solve with a factorised matrix."""

    def __init__(self, fronts: list[_Front], order: Index) -> None:
        """Create the solve, compiled if the kernel is available.

        order: (n,) the matrix's rows in elimination order.
        """
        self._fronts, self._order = fronts, order
        kernel, self._compiled = library(), None
        if kernel is not None and fronts:
            bounds = [(one.start, one.stop) for one in fronts]
            others, ups = [one.others for one in fronts], [one.up for one in fronts]
            self._compiled = Fronts(kernel, bounds, others, ups, order)
            self._fronts = [replace(one, up=up) for one, up in zip(fronts, self._compiled.ups, strict=True)]

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return sum(front.up.size for front in self._fronts)

    def __call__(self, right: Array) -> Array:
        """Return the inverse times right (n,) or (n, k)."""
        return in_single(self.columns, right)

    def columns(self, right: Single) -> Single:
        """Return the inverse times right (n,) or (n, k), in single precision."""
        if self._compiled is not None and right.ndim == 1:
            return self._compiled.solve(right)
        x = right[self._order]
        several = x.ndim > 1
        for front in self._fronts:
            own = x[front.start : front.stop]
            if several and not own.any():
                continue
            pushed = front.up @ own
            count = front.stop - front.start
            own[...] = pushed[:count]
            x[front.others] -= pushed[count:]
        for front in reversed(self._fronts):
            if len(front.others):
                x[front.start : front.stop] -= front.up[front.stop - front.start :].T @ x[front.others]
        answer = np.empty_like(x)
        answer[self._order] = x
        return answer


def multifrontal(matrix: csr_matrix, places: Array, symbolic: Symbolic | None = None) -> Multifrontal | None:
    """Return a solve with a symmetric matrix (3n, 3n) with nodes at places (n, 3), or None if it is not positive
    definite.

    symbolic: of the matrix's pattern, if known.
    """
    symbolic = symbolic or Symbolic.of(matrix, places)
    return symbolic.factorised(matrix, np.float32) or symbolic.factorised(matrix, np.float64)


@dataclass(frozen=True)
class Symbolic:
    """Symbolic factorisation: the rows of each front, which depend only on the matrix's pattern.

    order: (3n,) rows in elimination order.  bounds: (f, 2) own rows of each front.  ancestor_rows: later rows it
        updates.
    children: indices of fronts.
    """

    order: Index
    bounds: list[tuple[int, int]]
    others: list[Index]
    children: list[tuple[int, ...]]

    @staticmethod
    def of(matrix: csr_matrix, places: Array) -> Symbolic:
        """Return the symbolic factorisation of a matrix (3n, 3n) with nodes at places (n, 3)."""
        count = len(places)
        coupled = matrix.tocoo()
        pattern = csr_matrix(
            (np.ones(coupled.nnz, dtype=np.int8), (coupled.row // 3, coupled.col // 3)), (count, count)
        )
        pattern.sum_duplicates()
        parts = dissect(pattern, places)
        nodes = np.concatenate([part.nodes for part in parts])
        place = np.empty(count, dtype=np.int64)
        place[nodes] = np.arange(count)
        turned = pattern[nodes]
        bounds, others = list[tuple[int, int]](), list[Index]()
        start = 0
        for part in parts:
            stop = start + len(part.nodes)
            near = place[turned.indices[turned.indptr[start] : turned.indptr[stop]]]
            below = np.unique(np.concatenate([near, *(others[child] for child in part.children)]))
            others.append(below[below >= stop])
            bounds.append((start, stop))
            start = stop
        rows = (3 * nodes[:, None] + np.arange(3)).ravel()
        return Symbolic(
            rows,
            [(3 * first, 3 * last) for first, last in bounds],
            [(3 * one[:, None] + np.arange(3)).ravel() for one in others],
            [part.children for part in parts],
        )

    @property
    def entries(self) -> int:
        """Number of entries of the factors."""
        fronts = zip(self.bounds, self.others, strict=True)
        return sum((last - first + len(far)) * (last - first) for (first, last), far in fronts)

    def factorised(self, matrix: csr_matrix, kind: type[np.floating[Any]]) -> Multifrontal | None:
        """Return the solve, factorised in precision dtype, or None if a pivot is not positive."""
        ordered = matrix.tocsr()[self.order][:, self.order].tocsr().astype(kind)
        cholesky, inverted = (spotrf, strtri) if kind is np.float32 else (dpotrf, dtrtri)
        local = np.zeros(len(self.order), dtype=np.int64)
        fronts, left = list[_Front](), dict[int, Array]()
        for number, ((start, stop), others, children) in enumerate(
            zip(self.bounds, self.others, self.children, strict=True)
        ):
            count, size = stop - start, stop - start + len(others)
            local[start:stop], local[others] = np.arange(count), np.arange(count, size)
            front = np.zeros((size, size), dtype=kind)
            part = slice(ordered.indptr[start], ordered.indptr[stop])
            column, row = ordered.indices[part], np.repeat(np.arange(count), np.diff(ordered.indptr[start : stop + 1]))
            later = column >= start
            front[local[column[later]], row[later]] = ordered.data[part][later]
            for child in children:
                _add(front, left.pop(child), local[self.others[child]])
            if not count:
                left[number] = front
                fronts.append(_Front(start, stop, others, np.zeros((size, 0), dtype=np.float32)))
                continue
            factor, wrong = cholesky(np.asfortranarray(front[:count, :count]), lower=1, clean=1, overwrite_a=1)
            if wrong:
                return None
            inverse, _ = inverted(factor, lower=1, overwrite_c=1)
            below = front[count:, :count] @ inverse.T
            left[number] = front[count:, count:] - below @ below.T
            up = np.concatenate([inverse.T @ inverse, below @ inverse])
            fronts.append(_Front(start, stop, others, np.asfortranarray(up, dtype=np.float32)))
        return Multifrontal(fronts, self.order)


def _add(front: Array, child: Array, rows: Index) -> None:
    """Add a child's update matrix (r, r) to a front at rows (r,)."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    runs = [(a, b, int(rows[a])) for a, b in pairwise([0, *cuts, len(rows)]) if b > a]
    # Only the lower triangle is used.
    for number, (a, b, p) in enumerate(runs):
        if len(runs) > _RUNS:
            front[rows[a:], p : p + b - a] += child[a:, a:b]
            continue
        for c, d, q in runs[: number + 1]:
            front[p : p + b - a, q : q + d - c] += child[a:b, c:d]
