"""Stiffness dialled as sag: how far a body hangs under its own weight."""

from __future__ import annotations

from collections.abc import Callable

# The sag is met to this part of itself.
_CLOSE = 2e-3
_MOST = 12


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
        low = max((f for f, sag in known.items() if sag > wanted), default=0.0)
        high = min((f for f, sag in known.items() if sag <= wanted), default=float("inf"))
        # Exact for small sags; the bracket keeps large ones from running away.
        following = factor * min(max(known[factor] / wanted, 0.05), 20.0)
        if not low < following < high:
            following = (low * high) ** 0.5
        factor = following
    return min(known, key=lambda f: abs(known[f] - wanted))
