"""Projected Newton with a direct factorisation: the reference and the fallback."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .factor import LowRankUpdate, factorise
from .problem import Minimum, Outcome, Problem, Tolerance

_SUFFICIENT = 1e-4
_ROUNDING = 1e-15


def minimise_newton(problem: Problem, start: Array, tolerance: Tolerance, most: int = 60) -> Minimum:
    v = start
    value, gradient = problem.value_gradient(v)
    first, error, evaluations = None, np.inf, 1
    outcome = Outcome.ITERATIONS
    iteration = 0
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, 1, np.inf, np.inf)
    for iteration in range(most + 1):
        solve = LowRankUpdate(factorise(problem.hessian(v)), problem.low_rank)
        direction = -solve(gradient.reshape(-1)).reshape(v.shape)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        error = np.sqrt(max(-slope, 0.0))
        first = error if first is None else first
        if error <= max(tolerance.relative * first, tolerance.absolute):
            outcome = Outcome.CONVERGED
            break
        if iteration == most:
            break
        length, found = 1.0, False
        for _ in range(40):
            trial = v + length * direction
            new_value, new_gradient = problem.value_gradient(trial)
            evaluations += 1
            if new_value - value <= _SUFFICIENT * length * slope:
                found = True
            elif abs(new_value - value) <= problem.value_noise + _ROUNDING * abs(value):
                found = abs(float(np.vdot(new_gradient, direction))) <= 0.9 * abs(slope)
            if found:
                break
            length *= 0.5
        if not found:
            outcome = Outcome.LINE_SEARCH
            break
        v, value, gradient = trial, new_value, new_gradient
    residual = float(error / first) if first else 0.0
    return Minimum(v, outcome, iteration, evaluations, residual, float(np.linalg.norm(gradient)))


def one_newton(problem: Problem, start: Array, tolerance: Tolerance) -> Minimum:
    """A single full Newton step, which is all that many solvers take of backward Euler."""
    _, gradient = problem.value_gradient(start)
    solve = LowRankUpdate(factorise(problem.hessian(start)), problem.low_rank)
    v = start - solve(gradient.reshape(-1)).reshape(start.shape)
    outcome = Outcome.CONVERGED if np.isfinite(v).all() else Outcome.NOT_FINITE
    return Minimum(v, outcome, 1, 1, 0.0, float(np.linalg.norm(gradient)))
