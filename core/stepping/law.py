"""From the animator's dials to the step's coefficients (physics.md section 2, "From frames to (kappa, s)").

The first deformation mode of a region, with eigenvalue lambda_1, shall follow the continuous law

    x(t) = e^{-a t} (cos w t + a/w sin w t)      released from rest, overshoot o = e^{-pi a/w} > 0
    x(t) = e^{-a t}                              overshoot 0, [You]

and be below 1% of its start from the settle time on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from ..arrays import Array

# The released mode counts as at rest below this part of its start (physics.md section 2).
REST_FRACTION = 0.01
# A last swing as high as REST_FRACTION would make the rest time jump by a swing at the slightest loss. The overshoot is
# moved by a hair (at most 0.3 percentage points) so that no peak comes nearer to it than this part.
_CLEARANCE = 0.05
# Angle in rad that the first mode turns in one substep: up to the first one its peaks are met within 5%. Kappa grows
# with the angle, and what is softer than at rest (a bend that gives way) then swings up instead of down: at the
# second angle kappa is 1.6, at pi/3 it has no bound.
GOOD_PHASE = math.pi / 6.0
MAX_PHASE = math.pi / 5.0
# No overshoot is so strong that it asks for more substeps per frame than this: it is limited instead.
MAX_SUBSTEPS = 20


@dataclass(frozen=True)
class Coefficients:
    """kappa: remembered part of the deformation's velocity.  s: inertia time, s (its inertia is M/s).

    Numbers, or one for each free node of the region (f,), where the settle time is painted.
    """

    kappa: float | Array
    s: float | Array

    def is_backward_euler(self, h: float) -> bool:
        """Whether nothing is left of the split into rigid motion and deformation."""
        return bool(np.all(self.kappa == 1.0) and np.all(self.s == h))


class InertiaLaw(Protocol):
    """How a region's deformation remembers and resists, for a substep of h seconds."""

    def coefficients(self, h: float) -> Coefficients: ...


@dataclass(frozen=True)
class BackwardEulerLaw:
    """No damping but that of backward Euler itself: kappa = 1, s = h."""

    def coefficients(self, h: float) -> Coefficients:
        return Coefficients(1.0, h)


@dataclass(frozen=True)
class FixedLaw:
    """kappa and s = tau by name, for those who know [You]."""

    kappa: float
    tau: float

    def coefficients(self, h: float) -> Coefficients:
        return Coefficients(self.kappa, self.tau)


@dataclass(frozen=True)
class SettleLaw:
    """decay: a in 1/s.  frequency: w in rad/s, 0 for no overshoot.  eigenvalue: lambda_1 in 1/s^2.

    pace: (f,) painted parts of the settle time at the free nodes.
    slack: whether some motions are slower than the first mode, as in a net: they would grow where kappa exceeds 1.
    """

    decay: float
    frequency: float
    eigenvalue: float
    pace: Array | None = None
    slack: bool = False

    def coefficients(self, h: float) -> Coefficients:
        """The (kappa, s) whose discrete roots are e^{(-a +- i w) h}."""
        time = h if self.pace is None else h / self.pace
        kappa: float | Array
        if self.frequency == 0.0:
            q, kappa = np.expm1(self.decay * time), 0.0
        else:
            d = np.exp(-2.0 * self.decay * time)
            p = 2.0 * np.exp(-self.decay * time) * np.cos(self.frequency * time)
            q = 1.0 / (p - d) - 1.0
            kappa = d * (1.0 + q)
            if self.slack:
                kappa = np.minimum(kappa, 1.0)
        return Coefficients(kappa, q / (h * self.eigenvalue))

    def released(self, times: Array) -> Array:
        """x(t) of the law at times (k,) in s, for a start at 1."""
        envelope: Array = np.exp(-self.decay * times)
        if self.frequency == 0.0:
            return envelope
        phase = self.frequency * times
        released: Array = envelope * (np.cos(phase) + self.decay / self.frequency * np.sin(phase))
        return released


@dataclass(frozen=True)
class JoinedLaw:
    """Laws of bodies that links join to one region. parts: each with the number of free nodes that follow it."""

    parts: tuple[tuple[InertiaLaw, int], ...]

    def coefficients(self, h: float) -> Coefficients:
        found = [(law.coefficients(h), count) for law, count in self.parts]
        kappa = np.concatenate([np.broadcast_to(one.kappa, count) for one, count in found])
        return Coefficients(kappa, np.concatenate([np.broadcast_to(one.s, count) for one, count in found]))


def settle_law(settle: float, overshoot: float, eigenvalue: float) -> SettleLaw:
    """settle: rest time in s, > 0.  overshoot: in [0, 1).  eigenvalue: lambda_1 in 1/s^2."""
    if overshoot <= 0.0:
        return SettleLaw(-math.log(REST_FRACTION) / settle, 0.0, eigenvalue)
    ratio = -math.pi / math.log(_clear_of_threshold(overshoot))
    decay = _rest_time_of_unit_decay(visible_swings(overshoot), ratio) / settle
    return SettleLaw(decay, ratio * decay, eigenvalue)


def visible_swings(overshoot: float) -> int:
    """How many times the released mode swings past rest by more than REST_FRACTION."""
    if overshoot <= 0.0:
        return 0
    return max(math.ceil(math.log(REST_FRACTION) / math.log(overshoot)) - 1, 0)


def _clear_of_threshold(overshoot: float) -> float:
    """The nearest overshoot with as many visible swings whose peaks o^k all keep clear of REST_FRACTION."""
    swings = visible_swings(overshoot)
    above, below = REST_FRACTION * (1.0 + _CLEARANCE), REST_FRACTION * (1.0 - _CLEARANCE)
    if swings and overshoot**swings < above:
        return float(above ** (1.0 / swings))
    return min(overshoot, float(below ** (1.0 / (swings + 1))))


def _rest_time_of_unit_decay(last: int, ratio: float) -> float:
    """Last time at which |x| of the law with a = 1, w = ratio and so many visible swings is REST_FRACTION."""
    law = SettleLaw(1.0, ratio, 1.0)
    # Extremes lie at k pi/w; between the last visible one and the next zero |x| falls through REST_FRACTION once.
    low, high = last * math.pi / ratio, (last + 1) * math.pi / ratio
    sign = 1.0 if last % 2 == 0 else -1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if sign * float(law.released(np.array([middle]))[0]) > REST_FRACTION:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class Substeps:
    """count: substeps per frame.  overshoot: the one that they can carry.  limited: whether that is less than asked."""

    count: int
    overshoot: float
    limited: bool


@lru_cache(maxsize=256)
def choose_substeps(settle: float, overshoot: float, frame_time: float, least: int) -> Substeps:
    """Enough substeps for the overshoot's swings to be resolved, or less overshoot if that asks too much.

    settle: s.  frame_time: s.  least: the artist's own number of substeps.
    """

    def needed(o: float, phase: float) -> int:
        frequency = settle_law(settle, o, 1.0).frequency
        return max(least, math.ceil(frequency * frame_time / phase - 1e-9))

    cap = max(least, MAX_SUBSTEPS)
    if needed(overshoot, MAX_PHASE) <= cap:
        return Substeps(min(needed(overshoot, GOOD_PHASE), cap), overshoot, False)
    low, high = 0.0, overshoot
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if needed(middle, MAX_PHASE) <= cap else (low, middle)
    return Substeps(cap, low, True)
