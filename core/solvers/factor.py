"""Sparse factorisation of symmetric positive definite matrices, and Woodbury's formula for a few added columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import SuperLU, splu

from ..arrays import Array, Index
from .single import in_single

Solve = Callable[[Array], Array]

# So far, in parts of it, may an answer in single precision be from what was asked for.
_NEAR = 0.05


def factorise(matrix: csr_matrix) -> Solve:
    """A solve with the symmetric matrix; SuperLU told of the symmetry is several times faster than by default."""
    solve: Solve = _factors(matrix).solve
    return solve


def factorise_roughly(matrix: csr_matrix) -> Solve:
    """A solve in single precision with a positive definite matrix, for metrics; in double precision where single does
    not know any more what the matrix resists least.
    """
    try:
        with np.errstate(over="ignore"):
            single = _factors(matrix.astype(np.float32))
    except RuntimeError:
        # Singular to as many digits.
        return factorise(matrix)

    def solve(right: Array) -> Array:
        return in_single(single.solve, right)

    # A force alike on all finds what gives way most, or nothing that comes back.
    soft = solve(np.ones(matrix.shape[0]))
    off = np.linalg.norm(solve(matrix @ soft) - soft)
    return solve if off <= _NEAR * np.linalg.norm(soft) else factorise(matrix)


def factorise_positive(matrix: csr_matrix) -> Solve | None:
    """The same, or None where the matrix is not positive definite."""
    try:
        factors = _factors(matrix)
    except RuntimeError:
        # Exactly singular.
        return None
    # Pivots on the diagonal have the signs of the eigenvalues.
    if not (factors.perm_r == factors.perm_c).all() or not (factors.U.diagonal() > 0.0).all():
        return None
    solve: Solve = factors.solve
    return solve


def symmetric_pivots(matrix: csr_matrix) -> Array | None:
    """The pivots (n,) of a symmetric matrix, None where they are not on its diagonal.

    Raises RuntimeError where it is singular.
    """
    factors = _factors(matrix)
    return np.asarray(factors.U.diagonal()) if (factors.perm_r == factors.perm_c).all() else None


def _factors(matrix: csr_matrix) -> SuperLU:
    return splu(
        matrix.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


@dataclass(frozen=True)
class LowRank:
    """Y diag(signs) Y^T, block by block: parts that share no row, nor are coupled by the matrix it is added to.

    columns: (n, k), a part's columns on its own rows; zero where it has fewer than k.
    signs: (r, k) of +1 or -1, for each part.
    part: (n,) of each row.
    """

    columns: Array
    signs: Array
    part: Index

    @staticmethod
    def of(count: int, places: Sequence[Index], found: Sequence[tuple[Array, Array]]) -> LowRank:
        """Of parts at places (f,) among so many nodes: their columns (f, 3, k) and signs (k,)."""
        most = max((len(signs) for _, signs in found), default=0)
        wide, every = np.zeros((count, 3, most)), np.ones((len(found), most))
        part = np.zeros(count, dtype=np.int64)
        for number, (place, (columns, signs)) in enumerate(zip(places, found, strict=True)):
            part[place] = number
            if len(signs):
                wide[place, :, : len(signs)] = columns
                every[number, : len(signs)] = signs
        return LowRank(wide.reshape(3 * count, most), every, part.repeat(3))

    @cached_property
    def _sums(self) -> csr_matrix:
        """(r, n), sums the rows of each part."""
        order = np.argsort(self.part, kind="stable")
        starts = np.searchsorted(self.part[order], np.arange(len(self.signs) + 1))
        return csr_matrix((np.ones(len(order)), order, starts), shape=(len(self.signs), len(order)))

    @property
    def empty(self) -> bool:
        return self.columns.shape[1] == 0 or len(self.signs) == 0

    def along(self, vector: Array) -> Array:
        """Y^T v for a vector (n,), (r, k)."""
        if len(self.signs) == 1:
            return (self.columns.T @ vector)[None]
        return np.asarray(self._sums @ (self.columns * vector[:, None]))

    def gram(self, spread: Array) -> Array:
        """Y^T Z of each part for columns Z (n, k) alike, (r, k, k)."""
        if len(self.signs) == 1:
            return np.asarray((self.columns.T @ spread)[None])
        k = self.columns.shape[1]
        products = (self.columns[:, :, None] * spread[:, None, :]).reshape(-1, k * k)
        return np.asarray(self._sums @ products).reshape(-1, k, k)

    def joined(self) -> LowRank:
        """The same as one part, for matrices that couple the parts."""
        count, k = self.columns.shape
        wide = np.zeros((count, len(self.signs) * k))
        rows = np.arange(count)
        for column in range(k):
            wide[rows, self.part * k + column] = self.columns[:, column]
        return LowRank(wide, self.signs.reshape(1, -1), np.zeros(count, dtype=np.int64))

    def combined(self, columns: Array, amounts: Array) -> Array:
        """Columns (n, k) alike times each part's amounts (r, k), summed: (n,)."""
        if len(self.signs) == 1:
            return np.asarray(columns @ amounts[0])
        return np.asarray((columns * amounts[self.part]).sum(axis=1))


class LowRankUpdate:
    """(A + Y S Y^T)^-1 from a solve with A, by Woodbury's formula; one small inverse for each part.

    A may not couple the parts: then one solve serves the same column of all of them.
    """

    def __init__(self, solve: Solve, update: LowRank) -> None:
        self._solve, self._update = solve, update
        if not update.empty:
            self._spread = solve(update.columns)
            # A column that a part lacks is zero: any sign will do.
            unit = np.eye(update.signs.shape[1]) * update.signs[:, None, :]
            self._small = np.linalg.inv(unit + update.gram(self._spread))

    def given(self, slots: Index) -> Array:
        """What the update takes from A^-1 among nodes (a,), whose coordinates are rows 3k to 3k+2: (3a, 3a)."""
        dof = (3 * slots[:, None] + np.arange(3)).ravel()
        if self._update.empty:
            return np.zeros((len(dof), len(dof)))
        spread, part = self._spread[dof], self._update.part[dof]
        if (part == part[0]).all():
            return np.asarray(spread @ self._small[part[0]] @ spread.T)
        total = np.zeros((len(dof), len(dof)))
        for one in np.unique(part):
            mine = np.flatnonzero(part == one)
            total[np.ix_(mine, mine)] = spread[mine] @ self._small[one] @ spread[mine].T
        return total

    def __call__(self, right: Array) -> Array:
        answer = self._solve(right)
        if self._update.empty:
            return answer
        amounts = self._small @ self._update.along(answer)[:, :, None]
        return answer - self._update.combined(self._spread, amounts[:, :, 0])
