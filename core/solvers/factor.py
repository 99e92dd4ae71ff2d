"""Sparse factorisation of symmetric positive definite matrices, and Woodbury's formula for a few added columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import SuperLU, splu

from ..arrays import Array

Solve = Callable[[Array], Array]


def factorise(matrix: csr_matrix) -> Solve:
    """A solve with the symmetric matrix; SuperLU told of the symmetry is several times faster than by default."""
    solve: Solve = _factors(matrix).solve
    return solve


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


def _factors(matrix: csr_matrix) -> SuperLU:
    return splu(
        matrix.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


@dataclass(frozen=True)
class LowRank:
    """Y diag(signs) Y^T with columns Y (n, k) and signs (k,) of +1 or -1."""

    columns: Array
    signs: Array


class LowRankUpdate:
    """(A + Y S Y^T)^-1 from a solve with A, by Woodbury's formula."""

    def __init__(self, solve: Solve, update: LowRank) -> None:
        self._solve = solve
        self._columns = update.columns
        if update.columns.shape[1]:
            self._spread = solve(update.columns)
            self._small = np.linalg.inv(np.diag(update.signs) + update.columns.T @ self._spread)

    def __call__(self, right: Array) -> Array:
        answer = self._solve(right)
        if self._columns.shape[1]:
            answer = answer - self._spread @ (self._small @ (self._columns.T @ answer))
        return answer
