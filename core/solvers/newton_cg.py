"""Newton's method by conjugate gradients, preconditioned by factors of an earlier Hessian.

The factors are renewed when conjugate gradients need too many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from .factorisation import LowRank, LowRankUpdate, Solve
from .inexact_newton import Product, conjugate_gradients, norm_of
from .line_search import backtrack, line_search
from .objective import Minimum, Objective, Outcome, Tolerance

# Relative residual at which conjugate gradients stop, and their largest number of steps on stale and on fresh factors.
_FORCING, _MAX_STEPS_STALE, _MAX_STEPS_FRESH = 3e-2, 24, 60
# The first of them in a rough search, relative to its tolerance, and its largest value: directions may be rough, too.
_ROUGH_FORCING_RATIO, _MAX_FORCING = 3.0, 0.3
# Time of a factorisation, in steps of conjugate gradients.
_FACTORISATION_COST = 40.0
# Relative rounding error of the potential, as a square of the error estimate: smaller errors cannot be resolved.
_ROUNDED = 1e-14

# Safety factor on the preconditioner's error estimate.
_ESTIMATE_MARGIN = 4.0

Factorise = Callable[[csr_matrix], Solve]


def rough_forcing(tolerance: float) -> float:
    """Return the relative residual of Newton steps that suffices for a search with a relative tolerance."""
    return min(max(_FORCING, _ROUGH_FORCING_RATIO * tolerance), _MAX_FORCING)


class KeptFactors:
    """Factors of a Hessian that several searches share, as those of a frame: the Hessian changes little between them.

    solve: with the last factorised Hessian; None before the first one, and once new factors are worthwhile.
    """

    def __init__(self, factorise: Factorise) -> None:
        """factorise: returns an approximate solve with a matrix."""
        self._factorise = factorise
        self.solve: Solve | None = None
        self._searches, self._steps = 0, 0.0

    def renew(self, matrix: csr_matrix) -> Solve:
        """Return and keep an approximate solve with a matrix."""
        # Free the memory of the old factors first.
        self.solve = None
        self.solve = self._factorise(matrix)
        self._searches, self._steps = 0, _FACTORISATION_COST
        return self.solve

    def end_search(self, steps: int) -> None:
        """Drop the factors if a search took more steps than the mean of all with them, including their own cost.

        steps: of conjugate gradients.  From then on, the mean would increase.
        """
        self._searches += 1
        self._steps += steps
        if steps * self._searches > self._steps:
            self.solve = None


class SymmetricMatrix(Protocol):
    """A symmetric matrix (d, d) that is multiplied more often than factorised."""

    def __matmul__(self, vector: Array) -> Array:
        """Return the product with a vector (d,)."""
        ...

    def full(self) -> csr_matrix:
        """Return the matrix with both triangles."""
        ...


class NewtonObjective(Objective, Protocol):
    """An objective whose Hessian is positive definite, apart from low_rank."""

    def sparse_hessian(self, v: Array) -> SymmetricMatrix:
        """Return the Hessian without low_rank."""
        ...


def minimise_newton_cg(
    objective: NewtonObjective,
    start: Array,
    tolerance: Tolerance,
    factors: KeptFactors,
    max_iterations: int = 60,
    *,
    forcing: float = _FORCING,
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s.

    factors: of an earlier search, or none yet; renewed if needed.  forcing: relative residual of the Newton steps.
    """
    v = start
    value, gradient = objective.value_gradient(v)
    first_error, error, evaluations, steps = None, np.inf, 1, 0
    outcome, iteration = Outcome.ITERATIONS, 0
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, 1, np.inf, np.inf)
    preconditioner: Product | None = None
    if factors.solve is not None:
        preconditioner = LowRankUpdate(factors.solve, objective.low_rank).solve_by_node
    estimate_ratio = np.inf

    def bound_at(v: Array, first_error: float) -> float:
        rounding_error = float(np.sqrt(_ROUNDED * abs(value)))
        return max(tolerance.relative * min(first_error, objective.motion_norm(v)), tolerance.absolute, rounding_error)

    for iteration in range(max_iterations + 1):
        preconditioned: Array | None = None
        if first_error is not None and preconditioner is not None:
            # Assume the same ratio of error to preconditioned norm as before the last step.
            preconditioned = preconditioner(gradient)
            error = estimate_ratio * norm_of(gradient, preconditioned)
            if _ESTIMATE_MARGIN * error <= bound_at(v, first_error):
                outcome = Outcome.CONVERGED
                break
        matrix = objective.sparse_hessian(v)
        product = _hessian_product(matrix, objective.low_rank)
        count, direction, norm = _MAX_STEPS_STALE + 1, gradient, 0.0
        if preconditioner is not None:
            direction, count, norm = conjugate_gradients(
                product, preconditioner, gradient, _MAX_STEPS_STALE, forcing, preconditioned
            )
            steps += count
        if count > _MAX_STEPS_STALE:
            preconditioner = LowRankUpdate(factors.renew(matrix.full()), objective.low_rank).solve_by_node
            direction, _, norm = conjugate_gradients(product, preconditioner, gradient, _MAX_STEPS_FRESH, forcing)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope) or slope > 0.0:
            outcome = Outcome.NOT_FINITE
            break
        error = float(np.sqrt(-slope))
        first_error = error if first_error is None else first_error
        estimate_ratio = error / max(norm, 1e-300)
        if error <= bound_at(v, first_error):
            outcome = Outcome.CONVERGED
            break
        if iteration == max_iterations or tolerance.is_exhausted(evaluations):
            break
        trial = line_search(objective, v, value, direction, slope, backtrack, 40)
        evaluations += trial.evaluations
        if not trial.success:
            outcome = Outcome.LINE_SEARCH
            break
        accepted = objective.accept(trial.v, trial.value, trial.gradient)
        v, value, gradient = trial.v, accepted.value, accepted.gradient
    factors.end_search(steps)
    return Minimum.of(outcome, (iteration, evaluations), v, gradient, error, first_error)


def _hessian_product(matrix: SymmetricMatrix, low: LowRank) -> Product:
    """Return a function that multiplies the Hessian with a vector (f, 3)."""

    def product(direction: Array) -> Array:
        flat = direction.ravel()
        found = matrix @ flat
        if not low.is_empty:
            found = found + low.combine(low.columns, low.signs * low.project(flat))
        return np.asarray(found.reshape(direction.shape))

    return product
