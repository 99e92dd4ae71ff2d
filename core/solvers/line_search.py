"""How far to go along a direction: far enough down, or where values only differ by rounding, flat enough.

The approximate Wolfe condition of Hager, Zhang, *A New Conjugate Gradient Method with Guaranteed Descent* (2005), takes
over from sufficient decrease where rounding hides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from .problem import Problem

_SUFFICIENT = 1e-4
_CURVATURE = 0.9
_ROUNDING = 1e-15

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
    problem: Problem, v: Array, value: float, direction: Array, slope: float, shorten: Shorten, most: int
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
