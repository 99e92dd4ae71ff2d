"""Two-level preconditioner for very large symmetric positive definite matrices: coarse-grid factors and smoothing.

It is used where reading the factors of all nodes would dominate the cost. Smooth errors are removed on a grid twice as
coarse as the nodes, with the matrix P^T A P. The remaining errors are smoothed at the nodes by the same Chebyshev
polynomial before and after, which keeps the inverse symmetric. Brandt, *Multi-level adaptive solutions to
boundary-value problems* (1977); Adams, Brezina, Hu, Tuminaro, *Parallel multigrid smoothing: polynomial versus
Gauss-Seidel* (2003).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix, identity, kron

from ..arrays import Array, Index, Single
from ..native.blocks import Blocks
from ..native.library import library
from .multifrontal import Multifrontal, Symbolic
from .single import in_single

# Size of the grid cells in lengths of couplings between nodes.
_COARSE = 1.75
# Grid nodes with a smaller sum of weights are left out, because they would hardly be constrained.
_LEAST = 0.3
# Smoothing covers eigenvalues above this fraction of the largest one, which is estimated by this many products and
# multiplied by a safety factor.
_SMOOTHED, _PRODUCTS, _SAFE = 0.2, 12, 1.05
# The solve is accepted if conjugate gradients reach this relative residual in this many steps.
_STEPS, _NEAR = 6, 1e-3


class TwoLevel:
    """Approximate inverse of a matrix, symmetric and positive definite.

    In single precision, after scaling the diagonal blocks to identity.
    """

    def __init__(
        self, scaled: csr_matrix, inverse: Single, spread: csr_matrix, coarse: Multifrontal, blocks: Blocks | None
    ) -> None:
        """Create the preconditioner from its parts, and estimate the largest eigenvalue.

        scaled: (3n, 3n), L^-1 A L^-T with the Cholesky factors L of A's diagonal blocks.
        inverse: (n, 3, 3), L^-1.  prolongation: (3n, 3c), L^T P.  coarse: a solve with P^T A P.  blocks: scaled,
            compiled.
        """
        self._scaled, self._inverse, self._coarse, self._blocks = scaled, inverse, coarse, blocks
        self._spread, self._gathered = spread, spread.T.tocsr()
        top = _largest(scaled)
        # Two-step Chebyshev iteration from zero on [_SMOOTHED_FRACTION largest, largest].
        middle, half = 0.5 * top * (1.0 + _SMOOTHED), 0.5 * top * (1.0 - _SMOOTHED)
        ratio = half / middle
        second = ratio / (2.0 - ratio**2)
        again = 2.0 * second / half
        self._once, self._twice = np.float32((1.0 + second * ratio) / middle + again), np.float32(again / middle)

    @staticmethod
    def of(matrix: csr_matrix, places: Array) -> TwoLevel | None:
        """Return the preconditioner of a matrix (3n, 3n), or None if it is not positive definite.

        places: (n, 3), node positions.
        """
        count = len(places)
        blocks = matrix.tobsr((3, 3))
        rows = np.repeat(np.arange(count), np.diff(blocks.indptr))
        own = np.zeros((count, 3, 3))
        own[rows[rows == blocks.indices]] = blocks.data[rows == blocks.indices]
        try:
            lower = np.linalg.cholesky(own)
        except np.linalg.LinAlgError:
            return None
        inverse = np.linalg.inv(lower)
        data = inverse[rows] @ blocks.data @ inverse[blocks.indices].transpose(0, 2, 1)
        kernel = library()
        compiled = None if kernel is None else Blocks(kernel, count, rows, blocks.indices, data)
        scaled = bsr_matrix((data.astype(np.float32), blocks.indices, blocks.indptr), shape=matrix.shape).tocsr()
        ways = places[rows] - places[blocks.indices]
        length = np.sqrt(np.einsum("ki,ki->k", ways, ways))
        spread, corners = _grid(places, _COARSE * float(np.median(length[length > 0.0])))
        threefold = kron(spread, identity(3), format="csr")
        small = (threefold.T @ (matrix @ threefold)).tocsr()
        coarse = Symbolic.of(small, corners).factorised(small, np.float32)
        if coarse is None:
            return None
        node = np.repeat(np.arange(count), np.diff(spread.indptr))
        wide = (spread.data[:, None, None] * lower.transpose(0, 2, 1)[node]).astype(np.float32)
        carried = bsr_matrix((wide, spread.indices, spread.indptr), shape=threefold.shape).tocsr()
        return TwoLevel(scaled, inverse.astype(np.float32), carried, coarse, compiled)

    def __call__(self, right: Array) -> Array:
        """Return the inverse times right (3n,) or (3n, k)."""
        return in_single(self._turned, right)

    def _turned(self, right: Single) -> Single:
        """Return the inverse times right in single precision."""
        shape = (len(self._inverse), 3, -1)
        b = np.einsum("nij,njk->nik", self._inverse, right.reshape(shape))
        x = self._solved(b.reshape(right.shape)).reshape(shape)
        return np.asarray(np.einsum("nji,njk->nik", self._inverse, x).reshape(right.shape))

    def _solved(self, b: Single) -> Single:
        """Return the scaled inverse times b by smoothing, coarse correction and smoothing."""
        x = self._smoothed(b)
        left = b - self._times(x)
        more = self._spread @ self._coarse.columns(self._gathered @ left)
        left -= self._times(more)
        x += more
        x += self._smoothed(left)
        return x

    def _times(self, x: Single) -> Single:
        compiled = self._blocks if x.ndim == 1 else None
        product: Single = self._scaled @ x if compiled is None else compiled @ x
        return product

    def _smoothed(self, b: Single) -> Single:
        """Return the smoothing polynomial of the scaled matrix times b."""
        found = self._times(b)
        found *= -self._twice
        found += self._once * b
        return found


def _grid(places: Array, size: float) -> tuple[csr_matrix, Array]:
    """Return interpolation weights (n, c) from grid corners to places (n, 3), and the corners' positions (c, 3)."""
    where = (places - places.min(axis=0)) / size + 0.5
    cell = np.floor(where).astype(np.int64)
    part = where - cell
    sides = cell.max(axis=0) + 2
    steps = np.array([[k & 1, k >> 1 & 1, k >> 2 & 1] for k in range(8)])
    weights = np.where(steps, part[:, None], 1.0 - part[:, None]).prod(axis=2)
    corners = cell[:, None] + steps
    key = (corners[..., 0] * sides[1] + corners[..., 1]) * sides[2] + corners[..., 2]
    known, number = np.unique(key, return_inverse=True)
    carried = np.bincount(number.ravel(), weights.ravel())
    kept = np.flatnonzero(carried >= _LEAST)
    new = np.full(len(known), -1)
    new[kept] = np.arange(len(kept))
    column: Index = new[number.reshape(key.shape)]
    there = column >= 0
    rows = np.repeat(np.arange(len(places)), 8).reshape(key.shape)
    spread = csr_matrix((weights[there], (rows[there], column[there])), shape=(len(places), len(kept)))
    spread.sum_duplicates()
    at = known[kept]
    return spread, np.stack([at // (sides[1] * sides[2]), at // sides[2] % sides[1], at % sides[2]], axis=1) * 1.0


def _largest(matrix: csr_matrix) -> float:
    """Return an estimate of the largest eigenvalue that is hardly ever too small."""
    v = np.random.default_rng(0).standard_normal(matrix.shape[0]).astype(np.float32)
    for _ in range(_PRODUCTS):
        v = matrix @ (v / np.linalg.norm(v))
    return _SAFE * float(np.linalg.norm(v))


def two_levels(matrix: csr_matrix, places: Array) -> TwoLevel | None:
    """Return a two-level preconditioner of a matrix (3n, 3n), or None if it converges slowly.

    places: (n, 3), node positions.
    """
    found = TwoLevel.of(matrix, places)
    return found if found is not None and serves(found, matrix) else None


def serves(solve: Any, matrix: csr_matrix) -> bool:
    """Return whether conjugate gradients with this preconditioner converge quickly for random noise.

    They do not if the matrix is nearly incompressible, or the body thin or long.
    """
    left = np.random.default_rng(0).standard_normal(matrix.shape[0])
    way = at = solve(left)
    first = before = float(left @ at)
    for _ in range(_STEPS):
        answer = matrix @ way
        left = left - before / float(way @ answer) * answer
        at = solve(left)
        now = float(left @ at)
        if not (np.isfinite(now) and now >= 0.0):
            return False
        if now <= _NEAR**2 * first:
            return True
        way, before = at + now / before * way, now
    return False
