"""How far to go along a direction: far enough down, or where values only differ by rounding, flat enough.

The approximate Wolfe condition of Hager, Zhang, *A New Conjugate Gradient Method with Guaranteed Descent* (2005), takes
over from sufficient decrease where rounding hides it.
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
# Where a whole step leaves more than this part of the slope, more of them are taken at once; at most so many.
_STEEP, _FARTHEST = 0.7, 20.0

Shorten = Callable[[float, float, float], float]
"""A shorter length from the length tried, its decrease of the value, and the slope at the start."""


@dataclass(frozen=True)
class Found:
    """The end of a search. evaluations: of the potential.  found: whether it may be taken."""

    v: Array
    value: float
    gradient: Array
    evaluations: int
    found: bool


def halved(length: float, decrease: float, slope: float) -> float:
    return 0.5 * length


def parabola(length: float, decrease: float, slope: float) -> float:
    """The minimum of the parabola through what is known, kept within bounds."""
    curvature = 2.0 * (decrease - length * slope)
    guess = -slope * length**2 / curvature if np.isfinite(curvature) and curvature > 0.0 else 0.0
    return min(max(guess, 0.1 * length), 0.5 * length)


def search(
    problem: Searched, v: Array, value: float, direction: Array, slope: float, shorten: Shorten, most: int
) -> Found:
    """From v (f, 3) with its value along a direction (f, 3) with a negative slope, in at most so many tries."""
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
    """Beyond a whole step, to where slopes seem to end, if that is lower.

    A Hessian that was made positive is far too stiff along what folds: there each step ends nearly as steep as it
    began. Values as search takes them; tried: what it found.
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
