"""Multifrontal Cholesky factorisation of large symmetric positive definite matrices, in single precision.

Its accuracy is sufficient for preconditioners. The forward pass up the tree of nested dissection multiplies one dense
matrix per front, the backward pass down a part of it, because it reuses the results of a front's own rows. The inverse
is therefore symmetric, and solves run at memory speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import finalize

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmm, ssyrk, strmm
from scipy.linalg.lapack import dpotrf, dtrtri, spotrf, strtri
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, SinglePrecisionArray
from ..native.library import load_library
from ..native.matrices import CompiledFronts
from .factorisation import solve_single_precision
from .nested_dissection import EliminationBlock, dissect

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
class NeglectedCouplings:
    """Couplings between pairs of nodes that are left out of a matrix whose rows are in elimination order.

    rows, columns: (k, w) rows of the two nodes of each pair; the number of all rows for none.
    """

    rows: Index
    columns: Index

    @staticmethod
    def of(pairs: Index, place: Index, place_of_row: Index) -> NeglectedCouplings:
        """Return the couplings of pairs (k, 2) of nodes. place: (n,) of the nodes.  place_of_row: (r,)."""
        if not len(pairs):
            return NeglectedCouplings(*np.zeros((2, 0, 0), dtype=np.int64))
        sizes = np.bincount(place_of_row, minlength=len(place))
        starts = np.cumsum(sizes) - sizes
        offsets = np.arange(sizes.max())
        rows = np.where(offsets < sizes[:, None], starts[:, None] + offsets, len(place_of_row))[place[pairs]]
        return NeglectedCouplings(rows[:, 0], rows[:, 1])

    def leave_out(self, matrix: csr_matrix) -> csr_matrix:
        """Return a matrix (r, r) without the couplings, stiffer by as much as keeps it positive definite.

        A coupling U S V^T is replaced by U S U^T at its first node and V S V^T at its second: the matrix increases by
        (U, -V) S (U, -V)^T, which vanishes if both nodes move alike and the coupling is symmetric and positive.
        """
        if not self.rows.size:
            return matrix
        size, shape = matrix.shape[0], (*self.rows.shape, self.rows.shape[1])
        first = np.broadcast_to(self.rows[:, :, None], shape)
        second = np.broadcast_to(self.columns[:, None, :], shape)
        is_entry = (first < size) & (second < size)
        coupling = np.zeros(shape)
        coupling[is_entry] = np.asarray(matrix[first[is_entry], second[is_entry]]).ravel()
        u, values, transposed = np.linalg.svd(coupling)
        v = transposed.transpose(0, 2, 1)
        change = csr_matrix(matrix.shape)
        for rows, columns, number in (
            (self.rows, self.rows, (u * values[:, None]) @ u.transpose(0, 2, 1)),
            (self.columns, self.columns, (v * values[:, None]) @ transposed),
            (self.rows, self.columns, -coupling),
            (self.columns, self.rows, -coupling.transpose(0, 2, 1)),
        ):
            row, column = np.broadcast_to(rows[:, :, None], shape), np.broadcast_to(columns[:, None, :], shape)
            used = (row < size) & (column < size)
            change = change + csr_matrix((number[used], (row[used], column[used])), matrix.shape)
        found = csr_matrix(matrix + change)
        # Not even zeros may remain where the factors have no room.
        found.eliminate_zeros()
        return found


@dataclass(frozen=True)
class SymbolicFactorisation:
    """Symbolic factorisation: the rows of each front, which depend only on the matrix's pattern.

    order: (r,) rows in elimination order.  bounds: (f, 2) own rows of each front.  ancestor_rows: later rows it
        updates.
    children: indices of fronts.
    neglected: couplings that the factors leave out.  keeps_memory: whether the next factors reuse the memory of those
        that are no longer used.
    """

    order: Index
    bounds: list[tuple[int, int]]
    ancestor_rows: list[Index]
    children: list[tuple[int, ...]]
    neglected: NeglectedCouplings
    keeps_memory: bool = False
    # Memory of factors that are no longer used: the system takes as long to provide it as its use takes.
    _spare: list[SinglePrecisionArray] = field(default_factory=list, init=False, compare=False, repr=False)

    @staticmethod
    def of(
        matrix: csr_matrix,
        places: Array,
        node_of_row: Index | None = None,
        negligible: Index | None = None,
    ) -> SymbolicFactorisation:
        """Return the symbolic factorisation of a matrix (r, r) with nodes at places (n, 3).

        node_of_row: (r,) node of each row; if None, node k has the rows 3k to 3k+2.  negligible: (k, 2) pairs of nodes
        whose couplings the factors may leave out, for many factorisations of a large matrix.
        """
        count = len(places)
        node_of_row = np.arange(3 * count) // 3 if node_of_row is None else node_of_row
        entries = matrix.tocoo()
        pattern = csr_matrix(
            (np.ones(entries.nnz, dtype=np.int8), (node_of_row[entries.row], node_of_row[entries.col])), (count, count)
        )
        pattern.sum_duplicates()
        pattern.data[:] = 1
        parts = dissect(pattern, places, negligible)
        nodes = np.concatenate([part.nodes for part in parts])
        place = np.empty(count, dtype=np.int64)
        place[nodes] = np.arange(count)
        pairs = _neglected_pairs(pattern, parts) if negligible is not None else np.zeros((0, 2), dtype=np.int64)
        if len(pairs):
            both = np.concatenate([pairs, pairs[:, ::-1]])
            pattern = pattern - csr_matrix((np.ones(len(both), dtype=np.int8), tuple(both.T)), (count, count))
            pattern.eliminate_zeros()
        ordered = pattern[nodes]
        node_bounds, ancestors = list[tuple[int, int]](), list[Index]()
        start = 0
        for part in parts:
            stop = start + len(part.nodes)
            coupled_places = place[ordered.indices[ordered.indptr[start] : ordered.indptr[stop]]]
            later_nodes = np.unique(np.concatenate([coupled_places, *(ancestors[child] for child in part.children)]))
            ancestors.append(later_nodes[later_nodes >= stop])
            node_bounds.append((start, stop))
            start = stop
        place_of_row = place[node_of_row]
        starts = np.concatenate([[0], np.cumsum(np.bincount(place_of_row, minlength=count))])
        return SymbolicFactorisation(
            np.argsort(place_of_row, kind="stable"),
            [(int(starts[first]), int(starts[last])) for first, last in node_bounds],
            [_spans(starts, one) for one in ancestors],
            [part.children for part in parts],
            NeglectedCouplings.of(pairs, place, place_of_row),
            negligible is not None,
        )

    @property
    def entry_count(self) -> int:
        """Number of entries of the factors."""
        fronts = zip(self.bounds, self.ancestor_rows, strict=True)
        return sum((last - first + len(far)) * (last - first) for (first, last), far in fronts)

    @cached_property
    def _chains(self) -> list[tuple[int, int]]:
        """First front and one past the last of each chain: fronts that share their rows, as parts of a separator."""
        found = list[tuple[int, int]]()
        for number, ((start, stop), rows, children) in enumerate(
            zip(self.bounds, self.ancestor_rows, self.children, strict=True)
        ):
            child = number - 1
            if children == (child,) and len(self.ancestor_rows[child]) == stop - start + len(rows):
                found[-1] = found[-1][0], number + 1
            else:
                found.append((number, number + 1))
        return found

    def factorise(self, matrix: csr_matrix, dtype: type[np.floating[Any]]) -> MultifrontalSolve | None:
        """Return the solve, factorised in precision dtype, or None if a pivot is not positive or an entry too large."""
        with np.errstate(over="ignore"):
            ordered = self.neglected.leave_out(matrix.tocsr()[self.order][:, self.order].tocsr()).astype(dtype)
        if not np.isfinite(ordered.data).all():
            return None
        local = np.zeros(len(self.order), dtype=np.int64)
        buffer, used = self._spare.pop() if self._spare else np.empty(self.entry_count, dtype=np.float32), 0
        fronts, updates = list[_Front](), dict[int, Array]()
        for first, last in self._chains:
            (start, _), (_, stop), far = self.bounds[first], self.bounds[last - 1], self.ancestor_rows[last - 1]
            count = stop - start
            local[start:stop], local[far] = np.arange(count), np.arange(count, count + len(far))
            chain = _DenseChain(count, len(far), dtype)
            part = slice(ordered.indptr[start], ordered.indptr[stop])
            column, row = ordered.indices[part], np.repeat(np.arange(count), np.diff(ordered.indptr[start : stop + 1]))
            is_lower = column >= start
            chain.own[local[column[is_lower]], row[is_lower]] = ordered.data[part][is_lower]
            for child in self.children[first]:
                chain.add_child(updates.pop(child), local[self.ancestor_rows[child]])
            for number in range(first, last):
                begin, end = self.bounds[number]
                size = end - begin, stop - begin + len(far)
                columns = buffer[used : used + size[0] * size[1]].reshape(size[::-1], order="F")
                used += columns.size
                if not chain.eliminate(begin - start, end - start, columns):
                    self._keep(buffer)
                    return None
                fronts.append(_Front(begin, end, self.ancestor_rows[number], columns))
            updates[last - 1] = chain.update()
        found = MultifrontalSolve(fronts, self.order)
        if self.keeps_memory:
            finalize(found, self._keep, buffer).atexit = False
        return found

    def _keep(self, buffer: SinglePrecisionArray) -> None:
        """Keep the memory of factors for the next ones."""
        if self.keeps_memory:
            self._spare[:] = [buffer]


def _neglected_pairs(pattern: csr_matrix, parts: Sequence[EliminationBlock]) -> Index:
    """Return the coupled pairs of nodes (k, 2) of which neither is in an ancestor of the other one's block."""
    first = np.arange(len(parts))
    for number, part in enumerate(parts):
        first[number] = min([number, *(first[child] for child in part.children)])
    block = np.empty(pattern.shape[0], dtype=np.int64)
    block[np.concatenate([part.nodes for part in parts])] = np.repeat(
        np.arange(len(parts)), [len(part.nodes) for part in parts]
    )
    links = pattern.tocoo()
    early, late = block[links.row], block[links.col]
    is_neglected = (early < late) & (early < first[late])
    return np.column_stack([links.row[is_neglected], links.col[is_neglected]]).astype(np.int64)


def _spans(starts: Index, nodes: Index) -> Index:
    """Return the rows of nodes (k,) in order. starts: (n + 1,) first row of each node."""
    sizes = starts[nodes + 1] - starts[nodes]
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(int(sizes.sum())) + (starts[nodes] - before).repeat(sizes))


class _DenseChain:
    """Dense lower triangle of a chain of fronts, column-major.

    own: (k + r, k), the columns of the chain's own rows.  rest: (r, r) of its ancestor rows.
    """

    def __init__(self, count: int, ancestor_count: int, dtype: type[np.floating[Any]]) -> None:
        self.own = np.zeros((count + ancestor_count, count), dtype=dtype, order="F")
        self.rest = np.zeros((ancestor_count, ancestor_count), dtype=dtype, order="F")
        self._is_single = dtype is np.float32

    def add_child(self, update: Array, rows: Index) -> None:
        """Add the lower triangle of a child's update matrix (r, r) at rows (r,)."""
        count = self.own.shape[1]
        is_start = np.diff(rows, prepend=-2) != 1
        # A run of columns lies either in the own columns or in the rest.
        is_start[np.searchsorted(rows, count) :][:1] = True
        cuts = np.flatnonzero(is_start)
        runs = [(a, b, int(rows[a])) for a, b in pairwise([*cuts, len(rows)])]
        for number, (a, b, p) in enumerate(runs):
            target, shift = (self.own, 0) if p < count else (self.rest, count)
            columns = slice(p - shift, p - shift + b - a)
            if len(runs) > _RUNS:
                target[rows[a:] - shift, columns] += update[a:, a:b]
                continue
            for c, d, q in runs[number:]:
                target[q - shift : q - shift + d - c, columns] += update[c:d, a:b]

    def eliminate(self, first: int, last: int, columns: SinglePrecisionArray) -> bool:
        """Eliminate own rows and fill the columns of their front, or return False if a pivot is not positive."""
        if first == last:
            return True
        potrf, trtri, trmm = (spotrf, strtri, strmm) if self._is_single else (dpotrf, dtrtri, dtrmm)
        own, count = self.own, last - first
        if first:
            # The previous fronts of the chain update all columns of this one at once.
            own[first:, first:last] -= own[first:, :first] @ own[first:last, :first].T
        factor, info = potrf(own[first:last, first:last], lower=1, clean=1)
        if info:
            return False
        inverse, _ = trtri(factor, lower=1, overwrite_c=1)
        columns[:count] = inverse.T @ inverse
        if last < len(own):
            below = trmm(1.0, inverse, own[last:, first:last], side=1, lower=1, trans_a=1)
            own[last:, first:last] = below
            columns[count:] = trmm(1.0, inverse, below, side=1, lower=1, overwrite_b=1)
        return True

    def update(self) -> Array:
        """Return the update matrix (r, r) of the ancestor rows after the elimination; its lower triangle is valid."""
        count = self.own.shape[1]
        if not count or not len(self.rest):
            return self.rest
        syrk = ssyrk if self._is_single else dsyrk
        return np.asarray(syrk(-1.0, self.own[count:], beta=1.0, c=self.rest, lower=1, overwrite_c=1))
