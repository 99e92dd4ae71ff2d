"""Newton's method by conjugate gradients, preconditioned by factors of an earlier Hessian.

The factors are renewed when conjugate gradients need too many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array
from .factor import LowRank, LowRankUpdate, Solve
from .inexact import conjugate
from .line_search import halved, search
from .problem import Accepted, Minimum, Outcome, Searched, Tolerance

# Relative residual at which conjugate gradients stop, and their largest number of steps on stale and on fresh factors.
_FORCING, _OLD, _NEW = 3e-2, 24, 60
# Relative rounding error of the potential, as a square of the error estimate: smaller errors cannot be resolved.
_ROUNDED = 1e-14

# Safety factor on the preconditioner's error estimate.
_SAFE = 4.0

Factorise = Callable[[csr_matrix], Solve]


class Curved(Searched, Protocol):
    """An objective whose Hessian is positive definite, apart from low_rank."""

    def motion(self, v: Array) -> float:
        """Return the size of the motion at v in the norm of the error estimate, sqrt(W s)."""
        ...

    @property
    def low_rank(self) -> LowRank:
        """Low-rank part of the Hessian, which sparse_hessian(v) does not contain."""
        ...

    def matrix(self, v: Array) -> csr_matrix:
        """Return the Hessian without low_rank."""
        ...

    def accept(self, v: Array, value: float, gradient: Array) -> Accepted:
        """Accept a point, see PreconditionedObjective.accept()."""
        ...


def minimise_refactored(
    problem: Curved, start: Array, tolerance: Tolerance, factorised: Factorise, most: int = 60
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s. factorise: returns an approximate solve with a matrix."""
    v = start
    value, gradient = problem.value_gradient(v)
    first, error, evaluations = None, np.inf, 1
    outcome, iteration = Outcome.ITERATIONS, 0
    metric: Callable[[Array], Array] | None = None
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, 1, np.inf, np.inf)
    above = np.inf
    for iteration in range(most + 1):
        rounded = float(np.sqrt(_ROUNDED * abs(value)))
        if first is not None and metric is not None:
            # Assume the same ratio of error to preconditioned norm as before the last step.
            error = above * _size(metric, gradient)
            bound = max(tolerance.relative * min(first, problem.motion(v)), tolerance.absolute, rounded)
            if _SAFE * error <= bound:
                outcome = Outcome.CONVERGED
                break
        matrix = problem.matrix(v)
        product = _product(matrix, problem.low_rank)
        count, direction = _OLD + 1, gradient
        if metric is not None:
            direction, count, _ = conjugate(product, metric, gradient, _OLD, _FORCING)
        if count > _OLD:
            metric = _shaped(LowRankUpdate(factorised(matrix), problem.low_rank))
            direction, *_ = conjugate(product, metric, gradient, _NEW, _FORCING)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope) or slope > 0.0:
            outcome = Outcome.NOT_FINITE
            break
        error = float(np.sqrt(-slope))
        first = error if first is None else first
        above = error / max(_size(metric, gradient), 1e-300) if metric is not None else np.inf
        if error <= max(tolerance.relative * min(first, problem.motion(v)), tolerance.absolute, rounded):
            outcome = Outcome.CONVERGED
            break
        if iteration == most:
            break
        tried = search(problem, v, value, direction, slope, halved, 40)
        evaluations += tried.evaluations
        if not tried.found:
            outcome = Outcome.LINE_SEARCH
            break
        accepted = problem.accept(tried.v, tried.value, tried.gradient)
        v, value, gradient = tried.v, accepted.value, accepted.gradient
    residual = float(error / first) if first else 0.0
    return Minimum(v, outcome, iteration, evaluations, residual, float(np.linalg.norm(gradient)), float(first or 0.0))


def _size(metric: Callable[[Array], Array], gradient: Array) -> float:
    """Return the preconditioned norm of a gradient."""
    return float(np.sqrt(max(float(np.vdot(gradient, metric(gradient))), 0.0)))


def _product(matrix: csr_matrix, low: LowRank) -> Callable[[Array], Array]:
    """Return a function that multiplies the Hessian with a vector (f, 3)."""

    def product(way: Array) -> Array:
        flat = way.ravel()
        found = matrix @ flat
        if not low.empty:
            found = found + low.combined(low.columns, low.signs * low.along(flat))
        return np.asarray(found.reshape(way.shape))

    return product


def _shaped(solve: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a solve for right-hand sides of shape (f, 3)."""
    return lambda right: np.asarray(solve(right.ravel()).reshape(right.shape))
