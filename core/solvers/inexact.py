"""Inexact Newton steps by conjugate gradients, after some of L-BFGS: for sheets, of which no constant metric says much.

L-BFGS takes the constant metric, conjugate gradients one that also knows how little a sheet resists across itself, with
which they need ten steps or so at any resolution. Made positive, the Hessian of a sheet that is pressed together is the
only one that leads downwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..arrays import Array
from .factor import LowRankUpdate, factorise
from .lbfgs import minimise_lbfgs
from .line_search import farther, halved, search
from .problem import Minimum, Outcome, Problem, Tolerance

Product = Callable[[Array], Array]
"""A matrix times a vector (f, 3)."""

# Iterations of L-BFGS to begin with.
_FIRST = 4
# Conjugate gradients end at this part of the first error.
_FORCING = 0.02
# After more than so many, the metric is made to know the sheet as it lies now.
_SHARP = 12
# After so many with that, as where a sheet is pressed into folds, the Hessian itself is factorised, and
# is the metric of the step's other iterations; after so many with that, it is factorised anew.
_CHEAP, _LAGGED = 120, 25
# How much smaller than the tolerance the error has to be where it is estimated by the metric alone.
_SAFE = 4.0
# What folds may creep for tens of steps: after so many, or where a search finds nothing lower, this many times the
# tolerance will do.
_PATIENCE, _ROUGH = 20, 10.0
# Where slivers leave nothing lower in Newton's way, in however short a step, this part of the motion will do.
_STUCK = 0.05


class Tangential(Problem, Protocol):
    """A problem whose Hessian can be had as a product."""

    def tangent(self, v: Array) -> Product:
        """The positive semi-definite Hessian at v, all of it."""
        ...

    def sharpened(self, v: Array) -> Product:
        """The same; from now on the metric knows more of it, as it is at v."""
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
    directions = _Directions(problem)
    for iteration in range(most + 1):
        motion = problem.motion(v)
        if first is not None:
            # As large a part of the metric's estimate as before the last step.
            near = above * _size(problem, gradient)
            if _SAFE * near <= max(tolerance.relative * motion, tolerance.absolute):
                error, outcome = near, Outcome.CONVERGED
                break
        direction, size = directions.at(v, gradient)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        error = float(np.sqrt(max(-slope, 0.0)))
        first = error if first is None else first
        # By the metric as it is now.
        above = error / max(size, 1e-300)
        bound = max(tolerance.relative * (motion if np.isfinite(motion) else first), tolerance.absolute)
        if error <= bound * (1.0 if iteration < _PATIENCE else _ROUGH):
            outcome = Outcome.CONVERGED
            break
        if iteration == most:
            break
        tried = search(problem, v, value, direction, slope, halved, 40)
        if tried.found:
            tried = farther(problem, v, direction, slope, tried)
        evaluations += tried.evaluations
        if not tried.found:
            rough = max(_ROUGH * bound, _STUCK * motion if np.isfinite(motion) else 0.0)
            outcome = Outcome.CONVERGED if error <= rough else Outcome.LINE_SEARCH
            break
        accepted = problem.accept(tried.v, tried.value, tried.gradient)
        v, value, gradient = tried.v, accepted.value, accepted.gradient
    residual = float(error / first) if first else 0.0
    total = warm.iterations + iteration
    return Minimum(v, outcome, total, evaluations, residual, float(np.linalg.norm(gradient)), float(first or 0.0))


def _size(problem: Tangential, gradient: Array) -> float:
    return float(np.sqrt(max(float(np.vdot(gradient, problem.precondition(gradient))), 0.0)))


class _Directions:
    """Newton's steps, about."""

    def __init__(self, problem: Tangential) -> None:
        self._problem = problem
        self._metric: Product | None = None
        self._sharp = False

    def at(self, v: Array, gradient: Array) -> tuple[Array, float]:
        """Where to go, (f, 3), and how far that is by the problem's metric as it is now, see _size."""
        problem = self._problem
        if self._metric is not None:
            product = problem.tangent(v)
            answer, count, _ = conjugate(product, self._metric, gradient, _LAGGED)
            if count <= _LAGGED:
                return answer, _size(problem, gradient)
        else:
            product = problem.tangent(v) if self._sharp else problem.sharpened(v)
            answer, count, size = conjugate(product, problem.precondition, gradient, _CHEAP)
            self._sharp = count <= _SHARP
            if count <= _CHEAP:
                return answer, size
        solve = LowRankUpdate(factorise(problem.hessian(v, True)), problem.low_rank)

        def fresh(right: Array) -> Array:
            return np.asarray(solve(right.ravel()).reshape(right.shape))

        self._metric = fresh
        return conjugate(product, fresh, gradient, _LAGGED)[0], _size(problem, gradient)


def conjugate(
    product: Product, precondition: Product, gradient: Array, most: int, forcing: float = _FORCING
) -> tuple[Array, int, float]:
    """Minus the inverse of a matrix times a gradient (f, 3), about; its steps, most + 1 if those are too few; and the
    first error, by the metric.

    forcing: at which part of the first error it ends.
    """
    answer, left = np.zeros_like(gradient), -gradient
    spread = precondition(left)
    way, size = spread, float(np.vdot(left, spread))
    last, first = forcing**2 * size, float(np.sqrt(max(size, 0.0)))
    for count in range(most):
        if not size > last:
            return answer, count, first
        pushed = product(way)
        curvature = float(np.vdot(way, pushed))
        if not curvature > 0.0:
            return answer, count, first
        length = size / curvature
        answer = answer + length * way
        left = left - length * pushed
        spread = precondition(left)
        before, size = size, float(np.vdot(left, spread))
        way = spread + (size / before) * way
    return answer, most if not size > last else most + 1, first
