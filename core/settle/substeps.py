"""Number of substeps that a settle law needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from .first_mode import FirstModeLaw
from .waveform import WaveformLaw, settle_law

# Phase in rad of the first mode in one substep: up to the first value its peaks are met within 5%. The kappa of
# FirstModeLaw grows with the phase, and motion softer than at rest (a buckling bend) then gains amplitude: at the
# second value kappa is 1.6, at pi/3 it has no bound.
TARGET_PHASE = math.pi / 6.0
MAX_PHASE = math.pi / 5.0
# Largest number of substeps per frame; a stronger overshoot is limited instead.
MAX_SUBSTEPS = 20

SettleLaw = WaveformLaw | FirstModeLaw
"""Law that Settle and Bounce control."""
SettleLawFactory = Callable[[float, float, float], SettleLaw]
"""Function that returns a law for settle time in s, overshoot and eigenvalue in 1/s^2."""


@dataclass(frozen=True)
class Substeps:
    """Substeps per frame, and the overshoot they can resolve.

    count: substeps per frame.  overshoot: resolved overshoot.  is_limited: whether it is less than requested.
    """

    count: int
    overshoot: float
    is_limited: bool


@lru_cache(maxsize=256)
def choose_substeps(
    settle: float, overshoot: float, frame_time: float, min_count: int, make_law: SettleLawFactory = settle_law
) -> Substeps:
    """Return enough substeps to resolve the overshoot, or a smaller overshoot if that takes too many.

    settle: s.  frame_time: s.  min_count: number of substeps set by the user.
    """

    def required_count(o: float, phase: float) -> int:
        return max(min_count, math.ceil(make_law(settle, o, 1.0).frequency * frame_time / phase - 1e-9))

    max_count = max(min_count, MAX_SUBSTEPS)
    if required_count(overshoot, MAX_PHASE) <= max_count:
        return Substeps(min(required_count(overshoot, TARGET_PHASE), max_count), overshoot, False)
    low, high = 0.0, overshoot
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if required_count(middle, MAX_PHASE) <= max_count else (low, middle)
    return Substeps(max_count, low, True)
