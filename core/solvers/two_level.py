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

from ..base.arrays import Array, Index, SinglePrecisionArray
from ..native.library import load_library
from ..native.matrices import CompiledBlocks
from .factorisation import solve_single_precision
from .multifrontal import MultifrontalSolve, SymbolicFactorisation

# Size of the grid cells in lengths of couplings between nodes.
_CELL_SIZE = 1.75
# Grid nodes with a smaller sum of weights are left out, because they would hardly be constrained.
_MIN_WEIGHT = 0.3
# Smoothing covers eigenvalues above this fraction of the largest one, which is estimated by this many products and
# multiplied by a safety factor.
_SMOOTHED_FRACTION, _POWER_STEPS, _EIGENVALUE_MARGIN = 0.2, 12, 1.05
# The solve is accepted if conjugate gradients reach this relative residual in this many steps.
_TEST_STEPS, _TEST_RESIDUAL = 6, 1e-3


class TwoLevelPreconditioner:
    """Approximate inverse of a matrix, symmetric and positive definite.

    In single precision, after scaling the diagonal blocks to identity.
    """

    def __init__(
        self,
        scaled: csr_matrix,
        inverse: SinglePrecisionArray,
        prolongation: csr_matrix,
        coarse: MultifrontalSolve,
        blocks: CompiledBlocks | None,
    ) -> None:
        """Create the preconditioner from its parts, and estimate the largest eigenvalue.

        scaled: (3n, 3n), L^-1 A L^-T with the Cholesky factors L of A's diagonal blocks.
        inverse: (n, 3, 3), L^-1.  prolongation: (3n, 3c), L^T P.  coarse: a solve with P^T A P.  blocks: scaled,
            compiled.
        """
        self._scaled, self._inverse, self._coarse, self._blocks = scaled, inverse, coarse, blocks
        self._prolongation, self._restriction = prolongation, prolongation.T.tocsr()
        largest = _largest_eigenvalue_bound(scaled)
        # Two-step Chebyshev iteration from zero on [_SMOOTHED_FRACTION largest, largest].
        middle, half = 0.5 * largest * (1.0 + _SMOOTHED_FRACTION), 0.5 * largest * (1.0 - _SMOOTHED_FRACTION)
        ratio = half / middle
        second = ratio / (2.0 - ratio**2)
        second_weight = 2.0 * second / half
        self._first_coefficient = np.float32((1.0 + second * ratio) / middle + second_weight)
        self._second_coefficient = np.float32(second_weight / middle)

    @staticmethod
    def of(matrix: csr_matrix, places: Array) -> TwoLevelPreconditioner | None:
        """Return the preconditioner of a matrix (3n, 3n), or None if it is not positive definite.

        places: (n, 3), node positions.
        """
        count = len(places)
        blocks = matrix.tobsr((3, 3))
        rows = np.repeat(np.arange(count), np.diff(blocks.indptr))
        diagonal = np.zeros((count, 3, 3))
        diagonal[rows[rows == blocks.indices]] = blocks.data[rows == blocks.indices]
        try:
            lower = np.linalg.cholesky(diagonal)
        except np.linalg.LinAlgError:
            return None
        inverse = np.linalg.inv(lower)
        data = inverse[rows] @ blocks.data @ inverse[blocks.indices].transpose(0, 2, 1)
        kernel = load_library()
        compiled = None if kernel is None else CompiledBlocks(kernel, count, rows, blocks.indices, data)
        scaled = bsr_matrix((data.astype(np.float32), blocks.indices, blocks.indptr), shape=matrix.shape).tocsr()
        offsets = places[rows] - places[blocks.indices]
        length = np.sqrt(np.einsum("ki,ki->k", offsets, offsets))
        interpolation, corners = _grid_interpolation(places, _CELL_SIZE * float(np.median(length[length > 0.0])))
        threefold = kron(interpolation, identity(3), format="csr")
        coarse_matrix = (threefold.T @ (matrix @ threefold)).tocsr()
        coarse = SymbolicFactorisation.of(coarse_matrix, corners).factorise(coarse_matrix, np.float32)
        if coarse is None:
            return None
        node = np.repeat(np.arange(count), np.diff(interpolation.indptr))
        entries = (interpolation.data[:, None, None] * lower.transpose(0, 2, 1)[node]).astype(np.float32)
        prolongation = bsr_matrix((entries, interpolation.indices, interpolation.indptr), shape=threefold.shape).tocsr()
        return TwoLevelPreconditioner(scaled, inverse.astype(np.float32), prolongation, coarse, compiled)

    def __call__(self, right: Array) -> Array:
        """Return the inverse times right (3n,) or (3n, k)."""
        return solve_single_precision(self._solve_unscaled, right)

    def _solve_unscaled(self, right: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the inverse times right in single precision."""
        shape = (len(self._inverse), 3, -1)
        b = np.einsum("nij,njk->nik", self._inverse, right.reshape(shape))
        x = self._v_cycle(b.reshape(right.shape)).reshape(shape)
        return np.asarray(np.einsum("nji,njk->nik", self._inverse, x).reshape(right.shape))

    def _v_cycle(self, b: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the scaled inverse times b by smoothing, coarse correction and smoothing."""
        x = self._smooth(b)
        residual = b - self._product(x)
        correction = self._prolongation @ self._coarse.solve_single_precision(self._restriction @ residual)
        residual -= self._product(correction)
        x += correction
        x += self._smooth(residual)
        return x

    def _product(self, x: SinglePrecisionArray) -> SinglePrecisionArray:
        compiled = self._blocks if x.ndim == 1 else None
        product: SinglePrecisionArray = self._scaled @ x if compiled is None else compiled @ x
        return product

    def _smooth(self, b: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the smoothing polynomial of the scaled matrix times b."""
        found = self._product(b)
        found *= -self._second_coefficient
        found += self._first_coefficient * b
        return found


def _grid_interpolation(places: Array, size: float) -> tuple[csr_matrix, Array]:
    """Return interpolation weights (n, c) from grid corners to places (n, 3), and the corners' positions (c, 3)."""
    coordinates = (places - places.min(axis=0)) / size + 0.5
    cell = np.floor(coordinates).astype(np.int64)
    fraction = coordinates - cell
    counts = cell.max(axis=0) + 2
    offsets = np.array([[k & 1, k >> 1 & 1, k >> 2 & 1] for k in range(8)])
    weights = np.where(offsets, fraction[:, None], 1.0 - fraction[:, None]).prod(axis=2)
    corners = cell[:, None] + offsets
    key = (corners[..., 0] * counts[1] + corners[..., 1]) * counts[2] + corners[..., 2]
    known, number = np.unique(key, return_inverse=True)
    node_weights = np.bincount(number.ravel(), weights.ravel())
    kept = np.flatnonzero(node_weights >= _MIN_WEIGHT)
    new = np.full(len(known), -1)
    new[kept] = np.arange(len(kept))
    column: Index = new[number.reshape(key.shape)]
    is_kept = column >= 0
    rows = np.repeat(np.arange(len(places)), 8).reshape(key.shape)
    interpolation = csr_matrix((weights[is_kept], (rows[is_kept], column[is_kept])), shape=(len(places), len(kept)))
    interpolation.sum_duplicates()
    corner_keys = known[kept]
    return interpolation, np.stack(
        [corner_keys // (counts[1] * counts[2]), corner_keys // counts[2] % counts[1], corner_keys % counts[2]], axis=1
    ) * 1.0


def _largest_eigenvalue_bound(matrix: csr_matrix) -> float:
    """Return an estimate of the largest eigenvalue that is hardly ever too small."""
    v = np.random.default_rng(0).standard_normal(matrix.shape[0]).astype(np.float32)
    for _ in range(_POWER_STEPS):
        v = matrix @ (v / np.linalg.norm(v))
    return _EIGENVALUE_MARGIN * float(np.linalg.norm(v))


def build_two_level(matrix: csr_matrix, places: Array) -> TwoLevelPreconditioner | None:
    """Return a two-level preconditioner of a matrix (3n, 3n), or None if it converges slowly.

    places: (n, 3), node positions.
    """
    found = TwoLevelPreconditioner.of(matrix, places)
    return found if found is not None and converges_quickly(found, matrix) else None


def converges_quickly(solve: Any, matrix: csr_matrix) -> bool:
    """Return whether conjugate gradients with this preconditioner converge quickly for random noise.

    They do not if the matrix is nearly incompressible, or the body thin or long.
    """
    residual = np.random.default_rng(0).standard_normal(matrix.shape[0])
    direction = preconditioned = solve(residual)
    first_square = last_square = float(residual @ preconditioned)
    for _ in range(_TEST_STEPS):
        product = matrix @ direction
        residual = residual - last_square / float(direction @ product) * product
        preconditioned = solve(residual)
        square = float(residual @ preconditioned)
        if not (np.isfinite(square) and square >= 0.0):
            return False
        if square <= _TEST_RESIDUAL**2 * first_square:
            return True
        direction, last_square = preconditioned + square / last_square * direction, square
    return False
