"""Inexact Newton method for sheets: a few L-BFGS iterations, then Newton steps by conjugate gradients.

A constant preconditioner represents sheets badly. L-BFGS uses it, while conjugate gradients use one that also
represents the low bending stiffness, and need about ten steps at any resolution. The Hessian is projected, because the
Hessian of a compressed sheet is indefinite and gives no descent direction.
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
"""Function that multiplies a matrix with a vector (f, 3)."""

# Number of L-BFGS iterations at the start.
_FIRST = 4
# Relative residual at which conjugate gradients stop.
_FORCING = 0.02
# After more steps than this, the preconditioner is refined with the sheet's current shape.
_SHARP = 12
# After this many steps with the refined preconditioner, as for folded sheets, the Hessian is factorised and
# preconditions the remaining iterations. After the second number of steps it is factorised again.
_CHEAP, _LAGGED = 120, 25
# Safety factor where the error is estimated by the preconditioner alone.
_SAFE = 4.0
# Folding sheets may creep for tens of steps. After this many iterations, or if the line search fails, the tolerance is
# multiplied by the second number.
_PATIENCE, _ROUGH = 20, 10.0
# If slivers prevent any decrease along Newton's direction, an error of this fraction of the motion is accepted.
_STUCK = 0.05


class Tangential(Problem, Protocol):
    """An objective whose Hessian is available as a product."""

    def tangent(self, v: Array) -> Product:
        """Return the product with the positive semi-definite Hessian at v, including low-rank parts."""
        ...

    def sharpened(self, v: Array) -> Product:
        """Return the same product, and refine the preconditioner with the Hessian at v."""
        ...


def minimise_inexact(problem: Tangential, start: Array, tolerance: Tolerance, most: int = 60) -> Minimum:
    """Minimise an objective from start (f, 3) m/s.

    The tolerance is relative to the motion alone, because the first error of a step is dominated by a stretch that
    vanishes quickly.
    """
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
            # Assume the same ratio of error to preconditioned norm as before the last step.
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
        # In the norm of the current preconditioner.
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
    """Return the preconditioned norm of a gradient."""
    return float(np.sqrt(max(float(np.vdot(gradient, problem.precondition(gradient))), 0.0)))


class _Directions:
    """Approximate Newton directions, with refinement and factorisation on demand."""

    def __init__(self, problem: Tangential) -> None:
        self._problem = problem
        self._metric: Product | None = None
        self._sharp = False

    def at(self, v: Array, gradient: Array) -> tuple[Array, float]:
        """Return the direction (f, 3) at v, and the preconditioned norm of the gradient."""
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
    """Return minus the inverse of a matrix times a gradient (f, 3), by preconditioned conjugate gradients.

    Also return the number of steps, max_steps + 1 if not converged, and the first preconditioned error norm. forcing:
    relative residual at which to stop.
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
