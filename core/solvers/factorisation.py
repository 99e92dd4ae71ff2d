"""Sparse factorisation of symmetric positive definite matrices, and low-rank updates by Woodbury's formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import SuperLU, splu

from ..base.arrays import Array, Index, SinglePrecisionArray

Solve = Callable[[Array], Array]

# Largest relative error accepted of a single-precision solve.
_MAX_ERROR = 0.05


def factorise(matrix: csr_matrix) -> Solve:
    """Return a solve with a symmetric matrix. SuperLU's symmetric mode is several times faster than its default."""
    solve: Solve = _superlu(matrix).solve
    return solve


def factorise_single_precision(matrix: csr_matrix) -> Solve:
    """Return a single-precision solve with a positive definite matrix, for preconditioners.

    Fall back to double precision if single precision does not resolve the softest shapes.
    """
    try:
        with np.errstate(over="ignore"):
            single = _superlu(matrix.astype(np.float32))
    except RuntimeError:
        # Singular in single precision.
        return factorise(matrix)

    def solve(right: Array) -> Array:
        return solve_single_precision(single.solve, right)

    # A uniform force excites the softest shape, or yields an answer that fails the test.
    softest = solve(np.ones(matrix.shape[0]))
    difference = np.linalg.norm(solve(matrix @ softest) - softest)
    return solve if difference <= _MAX_ERROR * np.linalg.norm(softest) else factorise(matrix)


def factorise_positive(matrix: csr_matrix) -> Solve | None:
    """Return a solve with a symmetric matrix, or None if it is not positive definite."""
    try:
        factors = _superlu(matrix)
    except RuntimeError:
        # Exactly singular.
        return None
    # Pivots on the diagonal have the signs of the eigenvalues.
    if not (factors.perm_r == factors.perm_c).all() or not (factors.U.diagonal() > 0.0).all():
        return None
    solve: Solve = factors.solve
    return solve


def symmetric_pivots(matrix: csr_matrix) -> Array | None:
    """Return the pivots (n,) of a symmetric matrix, or None if they are not on its diagonal.

    Raises RuntimeError if the matrix is singular.
    """
    factors = _superlu(matrix)
    return np.asarray(factors.U.diagonal()) if (factors.perm_r == factors.perm_c).all() else None


def _superlu(matrix: csr_matrix) -> SuperLU:
    options = {"SymmetricMode": True}
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


@dataclass(frozen=True)
class LowRank:
    """Low-rank matrix Y diag(signs) Y^T of independent blocks.

    Blocks share no rows, and the matrix they are added to does not couple them.
    columns: (n, k), each block's columns on its own rows; zero if it has fewer than k.
    signs: (r, k) of +1 or -1, for each block.
    block: (n,) of each row.
    """

    columns: Array
    signs: Array
    block: Index

    @staticmethod
    def of(count: int, places: Sequence[Index], columns_and_signs: Sequence[tuple[Array, Array]]) -> LowRank:
        """Return the low-rank matrix of blocks.

        count: number of nodes.  places: (f,) nodes of each block.  columns_and_signs: (f, 3, k) and (k,) of each block.
        """
        max_columns = max((len(signs) for _, signs in columns_and_signs), default=0)
        all_columns, all_signs = np.zeros((count, 3, max_columns)), np.ones((len(columns_and_signs), max_columns))
        block = np.zeros(count, dtype=np.int64)
        for number, (place, (columns, signs)) in enumerate(zip(places, columns_and_signs, strict=True)):
            block[place] = number
            if len(signs):
                all_columns[place, :, : len(signs)] = columns
                all_signs[number, : len(signs)] = signs
        return LowRank(all_columns.reshape(3 * count, max_columns), all_signs, block.repeat(3))

    @cached_property
    def _block_sums(self) -> csr_matrix:
        """Matrix (r, n) that sums the rows of each block."""
        order = np.argsort(self.block, kind="stable")
        starts = np.searchsorted(self.block[order], np.arange(len(self.signs) + 1))
        return csr_matrix((np.ones(len(order)), order, starts), shape=(len(self.signs), len(order)))

    @property
    def is_empty(self) -> bool:
        return self.columns.shape[1] == 0 or len(self.signs) == 0

    def project(self, vector: Array) -> Array:
        """Return Y^T v (r, k) for a vector v (n,)."""
        if len(self.signs) == 1:
            return (self.columns.T @ vector)[None]
        return np.asarray(self._block_sums @ (self.columns * vector[:, None]))

    def gram(self, others: Array) -> Array:
        """Return Y^T Z (r, k, k) of each block, for columns Z (n, k) of the same layout."""
        if len(self.signs) == 1:
            return np.asarray((self.columns.T @ others)[None])
        k = self.columns.shape[1]
        products = (self.columns[:, :, None] * others[:, None, :]).reshape(-1, k * k)
        return np.asarray(self._block_sums @ products).reshape(-1, k, k)

    def as_single_block(self) -> LowRank:
        """Return the same matrix as one block, for matrices that couple the blocks."""
        count, k = self.columns.shape
        columns = np.zeros((count, len(self.signs) * k))
        rows = np.arange(count)
        for column in range(k):
            columns[rows, self.block * k + column] = self.columns[:, column]
        return LowRank(columns, self.signs.reshape(1, -1), np.zeros(count, dtype=np.int64))

    def combine(self, columns: Array, amounts: Array) -> Array:
        """Return the sum (n,) of columns (n, k), weighted with each block's amounts (r, k)."""
        if len(self.signs) == 1:
            return np.asarray(columns @ amounts[0])
        return np.asarray((columns * amounts[self.block]).sum(axis=1))


class LowRankUpdate:
    """(A + Y S Y^T)^-1 from a solve with A by Woodbury's formula, with one small inverse per block.

    A must not couple the blocks: then one solve serves the same column of all of them.
    """

    def __init__(self, solve: Solve, update: LowRank) -> None:
        self._solve, self._update = solve, update
        if not update.is_empty:
            self._solved_columns = solve(update.columns)
            # Missing columns are zero, so that their sign is irrelevant.
            unit = np.eye(update.signs.shape[1]) * update.signs[:, None, :]
            self._inner_inverse = np.linalg.inv(unit + update.gram(self._solved_columns))

    def correction_at(self, slots: Index) -> Array:
        """Return the part (3a, 3a) that the update subtracts from A^-1 among nodes slots (a,).

        Node k has the rows 3k to 3k+2.
        """
        dof = (3 * slots[:, None] + np.arange(3)).ravel()
        if self._update.is_empty:
            return np.zeros((len(dof), len(dof)))
        columns, block = self._solved_columns[dof], self._update.block[dof]
        if (block == block[0]).all():
            return np.asarray(columns @ self._inner_inverse[block[0]] @ columns.T)
        total = np.zeros((len(dof), len(dof)))
        for number in np.unique(block):
            selected = np.flatnonzero(block == number)
            total[np.ix_(selected, selected)] = columns[selected] @ self._inner_inverse[number] @ columns[selected].T
        return total

    def __call__(self, right: Array) -> Array:
        answer = self._solve(right)
        if self._update.is_empty:
            return answer
        amounts = self._inner_inverse @ self._update.project(answer)[:, :, None]
        return answer - self._update.combine(self._solved_columns, amounts[:, :, 0])

    def solve_by_node(self, right: Array) -> Array:
        """Return the inverse times a right-hand side (f, 3)."""
        return np.asarray(self(right.ravel()).reshape(right.shape))


def solve_single_precision(solve: Callable[[SinglePrecisionArray], SinglePrecisionArray], right: Array) -> Array:
    """Return a single-precision solve for a right-hand side of any shape, scaled to avoid overflow and underflow."""
    scale = float(np.abs(right).max(initial=0.0))
    if not (np.isfinite(scale) and scale > 0.0):
        return np.full(right.shape, 0.0 if scale == 0.0 else np.nan)
    return np.asarray(solve((right / scale).astype(np.float32)).astype(float) * scale)
