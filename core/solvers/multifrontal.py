"""Cholesky factors of a large symmetric positive definite matrix, front by front, in single precision.

For what needs no more: the metric of a search. A product with one dense matrix per front goes up the tree of nested
dissection and one with a part of it down, so that the inverse is symmetric, and so fast as memory is read: on the way
down what a front's own rows have found on the way up is known.
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

# Pieces into which a child's rows may fall in its parent's before they are added by columns.
_RUNS = 20


@dataclass(frozen=True)
class _Front:
    """start, stop: of its own rows, in the order of elimination.  others: (r,) rows of its ancestors that it changes.

    up: (stop - start + r, stop - start), [A^-1; B A^-1] of its own matrix A and what is below, B, column by column.
    """

    start: int
    stop: int
    others: Index
    up: Single


class Multifrontal:
    """A solve with a matrix."""

    def __init__(self, fronts: list[_Front], order: Index) -> None:
        """order: (n,) the matrix's rows as they are eliminated."""
        self._fronts, self._order = fronts, order
        kernel, self._compiled = library(), None
        if kernel is not None and fronts:
            bounds = [(one.start, one.stop) for one in fronts]
            others, ups = [one.others for one in fronts], [one.up for one in fronts]
            self._compiled = Fronts(kernel, bounds, others, ups, order)
            self._fronts = [replace(one, up=up) for one, up in zip(fronts, self._compiled.ups, strict=True)]

    @property
    def entries(self) -> int:
        """Numbers that are kept."""
        return sum(front.up.size for front in self._fronts)

    def __call__(self, right: Array) -> Array:
        """The inverse times right (n,) or (n, k)."""
        return in_single(self.columns, right)

    def columns(self, right: Single) -> Single:
        """The inverse times right (n,) or (n, k), in single precision."""
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
    """Factors of a symmetric (3n, 3n) with nodes at places (n, 3); None where a pivot is not positive.

    symbolic: of its pattern, where that is known.
    """
    symbolic = symbolic or Symbolic.of(matrix, places)
    return symbolic.factorised(matrix, np.float32) or symbolic.factorised(matrix, np.float64)


@dataclass(frozen=True)
class Symbolic:
    """Which rows each front has: what depends on the pattern alone.

    order: (3n,) rows as they are eliminated.  bounds: (f, 2) the rows of each front.  others: those of its ancestors.
    children: fronts by their places.
    """

    order: Index
    bounds: list[tuple[int, int]]
    others: list[Index]
    children: list[tuple[int, ...]]

    @staticmethod
    def of(matrix: csr_matrix, places: Array) -> Symbolic:
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
        """Numbers that factors would have."""
        fronts = zip(self.bounds, self.others, strict=True)
        return sum((last - first + len(far)) * (last - first) for (first, last), far in fronts)

    def factorised(self, matrix: csr_matrix, kind: type[np.floating[Any]]) -> Multifrontal | None:
        """kind: in which precision it is factored. None where a pivot is not positive."""
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
    """What a child leaves, (r, r), at rows (r,) of its parent's."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    runs = [(a, b, int(rows[a])) for a, b in pairwise([0, *cuts, len(rows)]) if b > a]
    # Below the diagonal alone it is read.
    for number, (a, b, p) in enumerate(runs):
        if len(runs) > _RUNS:
            front[rows[a:], p : p + b - a] += child[a:, a:b]
            continue
        for c, d, q in runs[: number + 1]:
            front[p : p + b - a, q : q + d - c] += child[a:b, c:d]
