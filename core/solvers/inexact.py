"""Inexact Newton steps by conjugate gradients, after some of L-BFGS: for sheets, of which no constant metric says much.

Both take the same constant metric, of which the number of conjugate gradients knows no resolution. Made positive, the
Hessian of a sheet that is pressed together is the only one that leads downwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..arrays import Array
from .factor import LowRankUpdate, factorise
from .lbfgs import minimise_lbfgs
from .line_search import halved, search
from .problem import Minimum, Outcome, Problem, Tolerance

Product = Callable[[Array], Array]
"""A matrix times a vector (f, 3)."""

# Iterations of L-BFGS to begin with.
_FIRST = 8
# Conjugate gradients end at this part of the first error.
_FORCING = 0.05
# After so many with the constant metric, as where a sheet is pressed into folds, the Hessian itself is factorised, and
# is the metric of the step's other iterations; after so many with that, it is factorised anew.
_CHEAP, _LAGGED = 120, 25
# How much smaller than the tolerance the error has to be where it is estimated by the metric alone.
_SAFE = 4.0
# What folds may creep for tens of steps: after so many, or where a search finds nothing lower, this many times the
# tolerance will do.
_PATIENCE, _ROUGH = 20, 10.0


class Tangential(Problem, Protocol):
    """A problem whose Hessian can be had as a product."""

    def tangent(self, v: Array) -> Product:
        """The positive semi-definite Hessian at v, all of it."""
        ...


def minimise_inexact(problem: Tangential, start: Array, tolerance: Tolerance, most: int = 60) -> Minimum:
    """The error counts beside the motion alone: the first one of a step is that of a stretch which soon is gone."""
    warm = minimise_lbfgs(problem, start, Tolerance(0.0, tolerance.absolute), most=_FIRST)
    v = warm.velocities if np.isfinite(warm.velocities).all() else start
    value, gradient = problem.value_gradient(v)
    evaluations, error = warm.evaluations + 1, float(np.inf)
    first: float | None = None
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, evaluations, np.inf, np.inf)
    outcome, iteration, above = Outcome.ITERATIONS, 0, np.inf
    metric: Product | None = None
    for iteration in range(most + 1):
        size = float(np.sqrt(max(float(np.vdot(gradient, problem.precondition(gradient))), 0.0)))
        motion = problem.motion(v)
        if first is not None and _SAFE * above * size <= max(tolerance.relative * motion, tolerance.absolute):
            # As large a part of the metric's estimate as before the last step.
            error, outcome = above * size, Outcome.CONVERGED
            break
        direction, metric = _direction(problem, v, gradient, metric)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        error = float(np.sqrt(max(-slope, 0.0)))
        first = error if first is None else first
        above = error / max(size, 1e-300)
        bound = max(tolerance.relative * (motion if np.isfinite(motion) else first), tolerance.absolute)
        if error <= bound * (1.0 if iteration < _PATIENCE else _ROUGH):
            outcome = Outcome.CONVERGED
            break
        if iteration == most:
            break
        tried = search(problem, v, value, direction, slope, halved, 40)
        evaluations += tried.evaluations
        if not tried.found:
            outcome = Outcome.CONVERGED if error <= _ROUGH * bound else Outcome.LINE_SEARCH
            break
        accepted = problem.accept(tried.v, tried.value, tried.gradient)
        v, value, gradient = tried.v, accepted.value, accepted.gradient
    residual = float(error / first) if first else 0.0
    total = warm.iterations + iteration
    return Minimum(v, outcome, total, evaluations, residual, float(np.linalg.norm(gradient)), float(first or 0.0))


def _direction(problem: Tangential, v: Array, gradient: Array, metric: Product | None) -> tuple[Array, Product | None]:
    """Newton's step, about, and the metric for the next one. metric: of a Hessian factorised before, if any."""
    product = problem.tangent(v)
    if metric is None:
        answer, enough = _conjugate(product, problem.precondition, gradient, _CHEAP)
    else:
        answer, enough = _conjugate(product, metric, gradient, _LAGGED)
    if enough:
        return answer, metric
    solve = LowRankUpdate(factorise(problem.hessian(v, True)), problem.low_rank)

    def fresh(right: Array) -> Array:
        return np.asarray(solve(right.ravel()).reshape(right.shape))

    return _conjugate(product, fresh, gradient, _LAGGED)[0], fresh


def _conjugate(product: Product, precondition: Product, gradient: Array, most: int) -> tuple[Array, bool]:
    """Minus the inverse of a matrix times a gradient (f, 3), about, and whether it is as near as it should be."""
    answer, left = np.zeros_like(gradient), -gradient
    spread = precondition(left)
    way, size = spread, float(np.vdot(left, spread))
    last = _FORCING**2 * size
    for _ in range(most):
        if not size > last:
            return answer, True
        pushed = product(way)
        curvature = float(np.vdot(way, pushed))
        if not curvature > 0.0:
            return answer, True
        length = size / curvature
        answer = answer + length * way
        left = left - length * pushed
        spread = precondition(left)
        before, size = size, float(np.vdot(left, spread))
        way = spread + (size / before) * way
    return answer, not size > last
