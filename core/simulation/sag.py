"""Stiffness dialled as sag: how far a body hangs under its own weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# The sag is met to this part of itself.
_CLOSE = 2e-3
_MOST = 14
# Where half of what is wanted is so far, it is gone to at once; and how much firmer is tried than a sag asks for.
_SOFTER, _BEYOND = 0.5, 1.05
# So many times firmer or softer than the nearest known one is a try at most.
_FURTHEST = 1e6
# So many times firmer is tried where all that is known hangs too low.
_FIRMER = 20.0
# From this part of what is wanted on, whole steps are taken.
_CLOSING = 0.8


def stiffness_for_sag(sag_at: Callable[[float], float], wanted: float, guess: float) -> float:
    """The factor on the stiffness with which a body sags as wanted.

    sag_at: the sag for a factor, from a static solve; falls with the factor, nearly as its inverse.  wanted: sag in the
    same unit.  guess: a factor to begin with. Where the wanted sag cannot be had (a rope hangs no lower than its
    length) the last factor is returned; what it gives is to be measured and shown.
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
            # The logarithms nearly lie on a straight line, which is steeper towards what collapses.
            slope = float(np.log(near[0] / near[1]) / np.log(known[near[0]] / known[near[1]]))
        best = near[0]
        # Where the sag hardly knows the stiffness, the line leads to no number.
        with np.errstate(over="ignore"):
            step = np.power(wanted / max(known[best], 1e-300), slope if slope < 0.0 else -1.0)
        factor = best * float(np.clip(step, 1.0 / _FURTHEST, _FURTHEST))
        if not soft:
            # What collapses takes long to hang still: it is come near to from the firm side. Small sags are exact.
            half = 2.0 * known[firm] / wanted
            if half < _SOFTER:
                factor = firm * half
            elif known[firm] < _CLOSING * wanted:
                factor = float(np.sqrt(factor * best))
        elif not firm:
            # From what all hangs as low it leads back to itself.
            factor = min(factor * _BEYOND, soft * _FIRMER) if factor > soft else soft * _FIRMER
        elif not soft < factor < firm:
            factor = float(np.sqrt(soft * firm))
        if factor in known:
            break
    return min(known, key=lambda f: abs(known[f] - wanted))
