"""Stiffness from Sag: the distance by which a body hangs down under its own weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Relative tolerance of the sag, and the maximum number of static solves.
_RELATIVE_TOLERANCE = 2e-3
_MAX_SOLVES = 14
# If the sag is below half this fraction of the target, jump to half the target. Stiffen by the second factor beyond the
# predicted stiffness.
_JUMP_RATIO, _OVERSTIFFENING = 0.5, 1.05
# Largest ratio between a trial and the nearest known factor.
_MAX_STEP_RATIO = 1e6
# Stiffening ratio while every known factor sags too much.
_STIFFENING_RATIO = 20.0
# From this fraction of the target on, take full secant steps.
_FULL_STEP_RATIO = 0.8


def stiffness_for_sag(sag_at: Callable[[float], float], target_sag: float, guess: float) -> float:
    """Return the stiffness factor with which a body sags by the target.

    sag_at: static sag for a factor; decreases roughly in inverse proportion.
    target_sag: in the same unit.
    guess: initial factor.

    If the target cannot be reached, return the best factor tried. A rope, for example, hangs no lower than its length.
    Callers measure and display the resulting sag.
    """
    factor, sags = guess, dict[float, float]()
    for _ in range(_MAX_SOLVES):
        sags[factor] = sag_at(factor)
        if abs(sags[factor] - target_sag) <= _RELATIVE_TOLERANCE * target_sag:
            break
        softest_bound = max((f for f, sag in sags.items() if sag > target_sag), default=0.0)
        stiff_bound = min((f for f, sag in sags.items() if sag <= target_sag), default=0.0)
        nearest_factors = sorted(sags, key=lambda f: abs(np.log(max(sags[f], 1e-300) / target_sag)))[:2]
        slope = 0.0
        if (
            len(nearest_factors) == 2
            and min(sags[f] for f in nearest_factors) > 0.0
            and sags[nearest_factors[0]] != sags[nearest_factors[1]]
        ):
            # In logarithms, sag over stiffness is nearly a straight line. It is steeper towards collapse.
            slope = float(
                np.log(nearest_factors[0] / nearest_factors[1])
                / np.log(sags[nearest_factors[0]] / sags[nearest_factors[1]])
            )
        best = nearest_factors[0]
        # Where sag hardly depends on stiffness, the extrapolation overflows.
        with np.errstate(over="ignore"):
            step = np.power(target_sag / max(sags[best], 1e-300), slope if slope < 0.0 else -1.0)
        factor = best * float(np.clip(step, 1.0 / _MAX_STEP_RATIO, _MAX_STEP_RATIO))
        if not softest_bound:
            # Collapsing bodies converge slowly, so approach from the stiff side. Small sags are exactly linear.
            half_target_ratio = 2.0 * sags[stiff_bound] / target_sag
            if half_target_ratio < _JUMP_RATIO:
                factor = stiff_bound * half_target_ratio
            elif sags[stiff_bound] < _FULL_STEP_RATIO * target_sag:
                factor = float(np.sqrt(factor * best))
        elif not stiff_bound:
            # Where all known sags are equal, the secant step returns to its start.
            factor = (
                min(factor * _OVERSTIFFENING, softest_bound * _STIFFENING_RATIO)
                if factor > softest_bound
                else softest_bound * _STIFFENING_RATIO
            )
        elif not softest_bound < factor < stiff_bound:
            factor = float(np.sqrt(softest_bound * stiff_bound))
        if factor in sags:
            break
    return min(sags, key=lambda f: abs(sags[f] - target_sag))
