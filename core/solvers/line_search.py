"""Backtracking line search with sufficient decrease, or small slopes where rounding hides the decrease.

The approximate Wolfe condition of Hager, Zhang, *A New Conjugate Gradient Method with Guaranteed Descent* (2005),
replaces sufficient decrease where values differ by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array
from .problem import Problem, Searched

_SUFFICIENT = 1e-4
_CURVATURE = 0.9
_ROUNDING = 1e-15
# If a full step leaves more than this fraction of the slope, longer steps are tried; largest length.
_STEEP, _FARTHEST = 0.7, 20.0

Shorten = Callable[[float, float, float], float]
"""Function of the length tried, the change of the value, and the slope at the start, that returns a shorter length."""


@dataclass(frozen=True)
class Found:
    """Result of a line search. evaluations: of the objective.  success: whether v may be accepted."""

    v: Array
    value: float
    gradient: Array
    evaluations: int
    found: bool


def halved(length: float, decrease: float, slope: float) -> float:
    """Return half of the length."""
    return 0.5 * length


def parabola(length: float, decrease: float, slope: float) -> float:
    """Return the minimum of the interpolating parabola, limited to 0.1 to 0.5 times the length."""
    curvature = 2.0 * (decrease - length * slope)
    guess = -slope * length**2 / curvature if np.isfinite(curvature) and curvature > 0.0 else 0.0
    return min(max(guess, 0.1 * length), 0.5 * length)


def search(
    problem: Searched, v: Array, value: float, direction: Array, slope: float, shorten: Shorten, most: int
) -> Found:
    """Search from v (f, 3) along a direction (f, 3) with a negative slope, in at most max_tries evaluations.

    value: psi at v.  reduce_step: chooses the next length after a rejected one.
    """
    length = problem.largest_step(v, direction)
    trial, new_value, new_gradient = v, value, direction
    for tries in range(1, most + 1):
        trial = v + length * direction
        new_value, new_gradient = problem.value_gradient(trial)
        decrease = new_value - value
        found = decrease <= _SUFFICIENT * length * slope
        if not found and abs(decrease) <= problem.value_noise + _ROUNDING * abs(value):
            found = abs(float(np.vdot(new_gradient, direction))) <= _CURVATURE * abs(slope)
        if found:
            return Found(trial, new_value, new_gradient, tries, True)
        length = shorten(length, decrease, slope)
    return Found(trial, new_value, new_gradient, most, False)


def farther(problem: Problem, v: Array, direction: Array, slope: float, tried: Found) -> Found:
    """Return a lower point beyond a full step, or the result as it is.

    A projected Hessian is far too stiff along folding motions: there, full steps end almost as steep as they began.
        Lengths are doubled while the value decreases.
    """
    if not np.array_equal(tried.v, v + direction):
        return tried
    length = 1.0
    while length < _FARTHEST and float(np.vdot(tried.gradient, direction)) < _STEEP * slope:
        length *= 2.0
        if problem.largest_step(v, length * direction) < 1.0:
            break
        trial = v + length * direction
        value, gradient = problem.value_gradient(trial)
        tried = replace(tried, evaluations=tried.evaluations + 1)
        if not value < tried.value:
            break
        tried = replace(tried, v=trial, value=value, gradient=gradient)
    return tried
