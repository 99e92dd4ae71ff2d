"""Stiffness from Sag: the distance by which a body hangs down under its own weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Relative tolerance of the sag, and the maximum number of static solves.
_CLOSE = 2e-3
_MOST = 14
# If the sag is below half this fraction of the target, jump to half the target. Stiffen by the second factor beyond the
# predicted stiffness.
_SOFTER, _BEYOND = 0.5, 1.05
# Largest ratio between a trial and the nearest known factor.
_FURTHEST = 1e6
# Stiffening ratio while every known factor sags too much.
_FIRMER = 20.0
# From this fraction of the target on, take full secant steps.
_CLOSING = 0.8


def stiffness_for_sag(sag_at: Callable[[float], float], wanted: float, guess: float) -> float:
    """Return the stiffness factor with which a body sags by the target.

    sag_at: static sag for a factor; decreases roughly in inverse proportion.
    target_sag: in the same unit.
    guess: initial factor.

    If the target cannot be reached, return the best factor tried. A rope, for example, hangs no lower than its length.
    Callers measure and display the resulting sag.
    """
    factor, known = guess, dict[float, float]()
    for _ in range(_MOST):
        known[factor] = sag_at(factor)
        if abs(known[factor] - wanted) <= _CLOSE * wanted:
            break
        soft = max((f for f, sag in known.items() if sag > wanted), default=0.0)
        firm = min((f for f, sag in known.items() if sag <= wanted), default=0.0)
        near = sorted(known, key=lambda f: abs(np.log(max(known[f], 1e-300) / wanted)))[:2]
        slope = 0.0
        if len(near) == 2 and min(known[f] for f in near) > 0.0 and known[near[0]] != known[near[1]]:
            # In logarithms, sag over stiffness is nearly a straight line. It is steeper towards collapse.
            slope = float(np.log(near[0] / near[1]) / np.log(known[near[0]] / known[near[1]]))
        best = near[0]
        # Where sag hardly depends on stiffness, the extrapolation overflows.
        with np.errstate(over="ignore"):
            step = np.power(wanted / max(known[best], 1e-300), slope if slope < 0.0 else -1.0)
        factor = best * float(np.clip(step, 1.0 / _FURTHEST, _FURTHEST))
        if not soft:
            # Collapsing bodies converge slowly, so approach from the stiff side. Small sags are exactly linear.
            half = 2.0 * known[firm] / wanted
            if half < _SOFTER:
                factor = firm * half
            elif known[firm] < _CLOSING * wanted:
                factor = float(np.sqrt(factor * best))
        elif not firm:
            # Where all known sags are equal, the secant step returns to its start.
            factor = min(factor * _BEYOND, soft * _FIRMER) if factor > soft else soft * _FIRMER
        elif not soft < factor < firm:
            factor = float(np.sqrt(soft * firm))
        if factor in known:
            break
    return min(known, key=lambda f: abs(known[f] - wanted))
