"""Newton's method with a direct factorisation: the reference solver and the fallback.

The Hessian is projected to positive definite only where it is indefinite. Projected always, as by [SRD], it is too
stiff where elements are compressed, and the last digits converge slowly (docs/validation/srd.md has the counts).
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .factor import LowRankUpdate, factorise, factorise_positive
from .line_search import halved, search
from .problem import Minimum, Outcome, Problem, Tolerance


def minimise_newton(problem: Problem, start: Array, tolerance: Tolerance, most: int = 60) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by Newton's method."""
    v = start
    value, gradient = problem.value_gradient(v)
    first, error, evaluations = None, np.inf, 1
    outcome = Outcome.ITERATIONS
    iteration = 0
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, 1, np.inf, np.inf)
    for iteration in range(most + 1):
        direction = _direction(problem, v, gradient)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        if slope > 0.0:
            # Only an indefinite Hessian gives an ascent direction; a maximum is not a solution.
            outcome = Outcome.LINE_SEARCH
            break
        error = np.sqrt(-slope)
        first = error if first is None else first
        if error <= max(tolerance.relative * min(first, problem.motion(v)), tolerance.absolute):
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


def _direction(problem: Problem, v: Array, gradient: Array) -> Array:
    """Return Newton's step (f, 3), with a projected Hessian if the exact one is indefinite."""
    positive = factorise_positive(problem.hessian(v, False))
    if positive is not None:
        direction = -LowRankUpdate(positive, problem.low_rank)(gradient.reshape(-1)).reshape(v.shape)
        if float(np.vdot(gradient, direction)) <= 0.0:
            return np.asarray(direction)
    solve = factorise(problem.hessian(v, True))
    return np.asarray(-LowRankUpdate(solve, problem.low_rank)(gradient.reshape(-1)).reshape(v.shape))


def one_newton(problem: Problem, start: Array, tolerance: Tolerance) -> Minimum:
    """Take a single full Newton step, as many solvers do for backward Euler."""
    _, gradient = problem.value_gradient(start)
    solve = LowRankUpdate(factorise(problem.hessian(start, True)), problem.low_rank)
    direction = -solve(gradient.reshape(-1)).reshape(start.shape)
    v = start + problem.largest_step(start, direction) * direction
    outcome = Outcome.CONVERGED if np.isfinite(v).all() else Outcome.NOT_FINITE
    return Minimum(v, outcome, 1, 1, 0.0, float(np.linalg.norm(gradient)))
