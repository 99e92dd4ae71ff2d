"""Backtracking line search with the sufficient-decrease (Armijo) condition.

Where values differ only by rounding, the slope decides instead: the approximate Wolfe condition of Hager, Zhang, *A New
Conjugate Gradient Method with Guaranteed Descent* (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from .objective import Objective, PreconditionedObjective

# Constants of the sufficient-decrease and the curvature condition, and relative rounding error of values.
_SUFFICIENT = 1e-4
_CURVATURE = 0.9
_ROUNDING = 1e-15
# Fraction of the slope that a full step must leave for longer steps to be tried, and limit of their length.
_EXTRAPOLATION_SLOPE, _MAX_LENGTH = 0.7, 20.0

StepReduction = Callable[[float, float, float], float]
"""Function that returns a shorter length, from the length tried, the change of the value, and the initial slope."""


@dataclass(frozen=True)
class LineSearchResult:
    """Result of a line search. evaluations: of the objective.  success: whether v may be accepted."""

    v: Array
    value: float
    gradient: Array
    evaluations: int
    success: bool


def backtrack(length: float, value_change: float, slope: float) -> float:
    """Return half of the length."""
    return 0.5 * length


def interpolate_quadratic(length: float, value_change: float, slope: float) -> float:
    """Return the minimum of the interpolating parabola, clamped to 0.1 to 0.5 times the length."""
    curvature = 2.0 * (value_change - length * slope)
    guess = -slope * length**2 / curvature if np.isfinite(curvature) and curvature > 0.0 else 0.0
    return min(max(guess, 0.1 * length), 0.5 * length)


def line_search(
    objective: Objective,
    v: Array,
    value: float,
    direction: Array,
    slope: float,
    reduce_step: StepReduction,
    max_tries: int,
) -> LineSearchResult:
    """Search from v (f, 3) along a direction (f, 3) with a negative slope, in at most max_tries evaluations.

    value: psi at v.  reduce_step: chooses the next length after a rejected one.
    """
    length = objective.largest_step(v, direction)
    trial, new_value, new_gradient = v, value, direction
    for tries in range(1, max_tries + 1):
        trial = v + length * direction
        new_value, new_gradient = objective.value_gradient(trial)
        value_change = new_value - value
        is_accepted = value_change <= _SUFFICIENT * length * slope
        if not is_accepted and abs(value_change) <= objective.value_noise + _ROUNDING * abs(value):
            is_accepted = abs(float(np.vdot(new_gradient, direction))) <= _CURVATURE * abs(slope)
        if is_accepted:
            return LineSearchResult(trial, new_value, new_gradient, tries, True)
        length = reduce_step(length, value_change, slope)
    return LineSearchResult(trial, new_value, new_gradient, max_tries, False)


def extrapolate(
    objective: PreconditionedObjective, v: Array, direction: Array, slope: float, result: LineSearchResult
) -> LineSearchResult:
    """Return a lower point beyond a full step, or the unchanged result.

    A projected Hessian is far too stiff along folding motions. The slope after a full step is then nearly the initial
    one. The length is doubled while the value decreases.
    """
    if not np.array_equal(result.v, v + direction):
        return result
    length = 1.0
    while length < _MAX_LENGTH and float(np.vdot(result.gradient, direction)) < _EXTRAPOLATION_SLOPE * slope:
        length *= 2.0
        if objective.largest_step(v, length * direction) < 1.0:
            break
        trial = v + length * direction
        value, gradient = objective.value_gradient(trial)
        result = replace(result, evaluations=result.evaluations + 1)
        if not value < result.value:
            break
        result = replace(result, v=trial, value=value, gradient=gradient)
    return result
