"""Newton's method with a direct factorisation: the reference solver and the fallback.

The Hessian is projected to positive definite only where it is indefinite. Projected always, as by [SRD], it is too
stiff where elements are compressed, and the last digits converge slowly (docs/validation/srd.md has the counts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..base.arrays import Array
from .factorisation import LowRankUpdate, factorise, factorise_positive
from .line_search import backtrack, line_search
from .objective import Minimum, Outcome, PreconditionedObjective, Tolerance

NewtonStep = Callable[[Array, Array], Array]
"""Function that returns Newton's step (f, 3) at velocities (f, 3) for the gradient (f, 3) there."""


class CompiledObjective(PreconditionedObjective, Protocol):
    """An objective whose Newton steps may be compiled."""

    def compiled_newton(self) -> NewtonStep | None:
        """Return compiled steps for a search with the current contacts; None without a kernel."""
        ...


def minimise_compiled_newton(
    objective: CompiledObjective, start: Array, tolerance: Tolerance, max_iterations: int = 60
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by Newton's method, with compiled steps if there is a kernel."""
    return minimise_newton(objective, start, tolerance, max_iterations, objective.compiled_newton())


def minimise_newton(
    objective: PreconditionedObjective,
    start: Array,
    tolerance: Tolerance,
    max_iterations: int = 60,
    newton_step: NewtonStep | None = None,
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by Newton's method.

    newton_step: by default, a step by factorisation of the objective's Hessian.
    """
    v = start
    value, gradient = objective.value_gradient(v)
    first_error, error, evaluations = None, np.inf, 1
    outcome = Outcome.ITERATIONS
    iteration = 0
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, 1, np.inf, np.inf)
    for iteration in range(max_iterations + 1):
        direction = _direction(objective, v, gradient) if newton_step is None else newton_step(v, gradient)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        if slope > 0.0:
            # Only an indefinite Hessian gives an ascent direction; a maximum is not a solution.
            outcome = Outcome.LINE_SEARCH
            break
        error = np.sqrt(-slope)
        first_error = error if first_error is None else first_error
        if error <= max(tolerance.relative * min(first_error, objective.motion_norm(v)), tolerance.absolute):
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
    residual = float(error / first_error) if first_error else 0.0
    return Minimum(
        v, outcome, iteration, evaluations, residual, float(np.linalg.norm(gradient)), float(first_error or 0.0)
    )


def _direction(objective: PreconditionedObjective, v: Array, gradient: Array) -> Array:
    """Return Newton's step (f, 3), with a projected Hessian if the exact one is indefinite."""
    positive = factorise_positive(objective.hessian(v, False))
    if positive is not None:
        direction = -LowRankUpdate(positive, objective.low_rank)(gradient.reshape(-1)).reshape(v.shape)
        if float(np.vdot(gradient, direction)) <= 0.0:
            return np.asarray(direction)
    solve = factorise(objective.hessian(v, True))
    return np.asarray(-LowRankUpdate(solve, objective.low_rank)(gradient.reshape(-1)).reshape(v.shape))


def take_newton_step(objective: PreconditionedObjective, start: Array, tolerance: Tolerance) -> Minimum:
    """Take a single full Newton step, as many solvers do for backward Euler."""
    _, gradient = objective.value_gradient(start)
    solve = LowRankUpdate(factorise(objective.hessian(start, True)), objective.low_rank)
    direction = -solve(gradient.reshape(-1)).reshape(start.shape)
    v = start + objective.largest_step(start, direction) * direction
    outcome = Outcome.CONVERGED if np.isfinite(v).all() else Outcome.NOT_FINITE
    return Minimum(v, outcome, 1, 1, 0.0, float(np.linalg.norm(gradient)))
