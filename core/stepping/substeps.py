"""How many substeps a dialled law needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from .first_mode import FirstModeLaw
from .waveform import WaveformLaw, settle_law

# Angle in rad that the first mode turns in one substep: up to the first one its peaks are met within 5%. The kappa of
# FirstModeLaw grows with the angle, and what is softer than at rest (a bend that gives way) then swings up instead of
# down: at the second angle kappa is 1.6, at pi/3 it has no bound.
GOOD_PHASE = math.pi / 6.0
MAX_PHASE = math.pi / 5.0
# No overshoot is so strong that it asks for more substeps per frame than this: it is limited instead.
MAX_SUBSTEPS = 20

DialledLaw = WaveformLaw | FirstModeLaw
"""A law that Settle and Bounce are for."""
Dialled = Callable[[float, float, float], DialledLaw]
"""A law from settle time in s, overshoot and eigenvalue in 1/s^2."""


@dataclass(frozen=True)
class Substeps:
    """count: substeps per frame.  overshoot: the one that they can carry.  limited: whether that is less than asked."""

    count: int
    overshoot: float
    limited: bool


@lru_cache(maxsize=256)
def choose_substeps(
    settle: float, overshoot: float, frame_time: float, least: int, dialled: Dialled = settle_law
) -> Substeps:
    """Enough substeps for the overshoot's swings to be resolved, or less overshoot if that asks too much.

    settle: s.  frame_time: s.  least: the artist's own number of substeps.
    """

    def needed(o: float, phase: float) -> int:
        return max(least, math.ceil(dialled(settle, o, 1.0).frequency * frame_time / phase - 1e-9))

    cap = max(least, MAX_SUBSTEPS)
    if needed(overshoot, MAX_PHASE) <= cap:
        return Substeps(min(needed(overshoot, GOOD_PHASE), cap), overshoot, False)
    low, high = 0.0, overshoot
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if needed(middle, MAX_PHASE) <= cap else (low, middle)
    return Substeps(cap, low, True)
