"""Waveform law: every mode of a region follows the dialled motion (docs/physics.md section 2).

After its reference motion stops, a region at rest moves, with overshoot o = e^{-pi a/w} > 0 or 0, as

    x(t) ~ e^{-a t} sin w t              x(t) ~ e^{-a t} - e^{-2 a t}

and stays below 1% of its largest swing from the settle time on. This holds for elastic deflections in all directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array
from .law import Coefficients

# The deformation counts as at rest below this fraction of its largest swing.
REST_FRACTION = 0.01
# Relative distance of all peaks from REST_FRACTION: above it for the first mode, below it for the first and the
# stiffest modes. A peak at the threshold would shift the rest time by a swing if a direction loses slightly more or
# less. The overshoot is moved by at most 1.4 percentage points.
_CLEARANCE = (0.15, 0.05)
# Ratio of the second root's decay to the first one's, without overshoot.
SECOND = 2.0
# The stiffest modes are faster than the first at least by this ratio, which keeps the M-share of the inertia positive.
_LEAST_SPREAD = 1.0001
# Default ratio of the stiffest modes' frequency to that of the first.
LEAST_WHIP = 1.05
# Phase in rad of the first mode in one substep above which a fallback step discards the velocity history.
_CALM_PHASE = math.pi / 5.0

# Largest decay of the first mode in one step: it leaves 5e-5, and more would change nothing but rounding.
_MOST_DECAY = 10.0

Shape = Callable[[float], float | Array]
"""Deflection as a function of the time in s."""


@dataclass(frozen=True)
class WaveformLaw:
    """Law of all modes of a region, with the poles of the dialled waveform.

    decay: a in 1/s.  frequency: w in rad/s, 0 for no overshoot.  eigenvalue: lambda_1 in 1/s^2.
    settle_scale: (f,) painted factors on the settle time at the free nodes.
    high_mode_frequency_ratio: ratio of the stiffest modes' frequency to that of the first mode.
    """

    decay: float
    frequency: float
    eigenvalue: float
    pace: Array | None = None
    whip: float = LEAST_WHIP
    waveform: ClassVar[bool] = True

    def coefficients(self, h: float) -> Coefficients:
        """Return the coefficients whose first and stiffest modes have the law's sampled roots; exact at any h."""
        if self.pace is not None:
            return self._coefficients(h)
        # Regions differ in their eigenvalues only, so the rest is cached.
        unit = _of_unit_eigenvalue(self.decay, self.frequency, self.whip, h)
        return replace(unit, s=unit.s / self.eigenvalue, throw=unit.throw * self.eigenvalue)

    def _coefficients(self, h: float) -> Coefficients:
        time = self._time(h)
        (A, B), (A_stiff, B_stiff) = self._ends(time)
        theta = 1.0 / B_stiff
        q = B / (1.0 - B / B_stiff)
        sigma = theta * A_stiff
        kappa = A * (1.0 + theta * q) - sigma * q
        throw = self.eigenvalue * h * (h / time) * self._kicked(time) / B
        fresh = (1.0 + kappa / (sigma * q)) * (1.0 - self.released(-time))
        return Coefficients(kappa, q / (h * self.eigenvalue), theta, sigma, throw, q, fresh, self._decay, waveform=True)

    def _time(self, h: float) -> float | Array:
        """Return the step in s over the settle scale."""
        most = _MOST_DECAY / self.decay
        return min(h, most) if self.pace is None else np.minimum(h / self.pace, most)

    def _ends(self, time: float | Array) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Return (A, B) of z^2 - (1 + A - B) z + A for the first and the stiffest mode.

        time: s, at a settle scale of 1.
        """
        phase = self.decay * time
        z = np.exp(-phase)
        if self.frequency == 0.0:
            second, last = SECOND * phase, SECOND * self.whip**2 * phase
            gone = -np.expm1(-phase)
            return (
                (z * np.exp(-second), -gone * np.expm1(-second)),
                (z * np.exp(-last), -gone * np.expm1(-last)),
            )
        # 1 + z^2 - 2 z cos t without cancellation at short steps.
        half = 0.5 * self.frequency * time
        first = np.expm1(-phase) ** 2 + 4.0 * z * np.sin(half) ** 2
        stiff = np.expm1(-phase) ** 2 + 4.0 * z * np.sin(np.minimum(self.whip * half, 0.5 * np.pi)) ** 2
        return (z**2, first), (z**2, np.maximum(stiff, _LEAST_SPREAD * first))

    def _kicked(self, time: float | Array) -> float | Array:
        """Return the deflection in s at a time in s after an initial velocity of 1."""
        a, w = self.decay, self.frequency
        if w == 0.0:
            return (np.exp(-a * time) - np.exp(-SECOND * a * time)) / ((SECOND - 1.0) * a)  # type: ignore[no-any-return]
        return np.exp(-a * time) * np.sin(w * time) / w  # type: ignore[no-any-return]

    def calmer(self, h: float) -> Coefficients:
        """Return coefficients as in [You]: no force history, and the velocity history of the first mode alone."""
        time = self._time(h)
        throw = self.coefficients(h).throw
        d = np.exp(-2.0 * self.decay * time)
        if self.frequency == 0.0 or np.max(self.frequency * time) > _CALM_PHASE:
            q, kappa = np.expm1(self.decay * time), np.zeros_like(d)
        else:
            q = 1.0 / (2.0 * np.exp(-self.decay * time) * np.cos(self.frequency * time) - d) - 1.0
            kappa = np.minimum(d * (1.0 + q), 1.0)
        return Coefficients(kappa, q / (h * self.eigenvalue), throw=throw, q=q, decay=self._decay, waveform=True)

    @property
    def _decay(self) -> float | Array:
        """Decay rate in 1/s, at each free node where the settle scale is painted."""
        return self.decay if self.pace is None else self.decay / self.pace

    def released(self, times: float | Array) -> float | Array:
        """Return x(t) at times (k,) in s after a release from 1, at rest; at t < 0, its continuation backwards."""
        a, w = self.decay, self.frequency
        if w == 0.0:
            return (SECOND * np.exp(-a * times) - np.exp(-SECOND * a * times)) / (SECOND - 1.0)  # type: ignore[no-any-return]
        return np.exp(-a * times) * (np.cos(w * times) + a / w * np.sin(w * times))  # type: ignore[no-any-return]

    @property
    def lead(self) -> float:
        """Time in s from a stop, at which the settle time begins, to the largest swing.

        From there on a stop is like a release: x(t) ~ release_response(t - time_to_peak).
        """
        if self.frequency == 0.0:
            return math.log(SECOND) / ((SECOND - 1.0) * self.decay)
        return math.atan2(self.frequency, self.decay) / self.frequency


@lru_cache(maxsize=64)
def _of_unit_eigenvalue(decay: float, frequency: float, whip: float, h: float) -> Coefficients:
    return WaveformLaw(decay, frequency, 1.0, whip=whip)._coefficients(h)


def settle_law(settle: float, overshoot: float, eigenvalue: float, whip: float = LEAST_WHIP) -> WaveformLaw:
    """Return the law for a settle time and an overshoot.

    settle: time from a stop to rest in s, > 0.  overshoot: in [0, 1).  eigenvalue: lambda_1 in 1/s^2.
    """
    if overshoot <= 0.0:
        unit = WaveformLaw(1.0, 0.0, 1.0)
        rest = _last_above(unit.released, 0.0, 20.0) + unit.lead
        return WaveformLaw(rest / settle, 0.0, eigenvalue, whip=whip)
    ratio = -math.pi / math.log(clear_of_threshold(overshoot, _CLEARANCE, LEAST_WHIP))
    unit = WaveformLaw(1.0, ratio, 1.0)
    # After a stop, a release begins at the largest swing.
    decay = (last_crossing(unit.released, visible_swings(overshoot), ratio) + unit.lead) / settle
    return WaveformLaw(decay, ratio * decay, eigenvalue, whip=whip)


def visible_swings(overshoot: float) -> int:
    """Return how many times the released mode swings past rest by more than REST_FRACTION."""
    if overshoot <= 0.0:
        return 0
    return max(math.ceil(math.log(REST_FRACTION) / math.log(overshoot)) - 1, 0)


def clear_of_threshold(overshoot: float, clearance: tuple[float, float], spread: float = 1.0) -> float:
    """Return the nearest overshoot with as many visible swings whose peaks o^k all keep clear of REST_FRACTION.

    clearance: relative distance above and below it.  frequency_ratio: r, to the first mode, of the fastest mode that
    may have no more swings; with the same decay its overshoot is o^(1/r).
    """
    swings = visible_swings(overshoot)
    above, below = REST_FRACTION * (1.0 + clearance[0]), (REST_FRACTION * (1.0 - clearance[1])) ** spread
    if swings and overshoot**swings < above:
        return float(above ** (1.0 / swings))
    return min(overshoot, float(below ** (1.0 / (swings + 1))))


def last_crossing(released: Shape, swings: int, frequency: float) -> float:
    """Return the last time in s at which a release with so many visible swings is at REST_FRACTION.

    frequency: rad/s.
    """
    # Extrema lie at k pi/w; between the last visible one and the next zero, |x| falls through REST_FRACTION once.
    low, high = swings * math.pi / frequency, (swings + 1) * math.pi / frequency
    sign = 1.0 if swings % 2 == 0 else -1.0
    return _last_above(lambda times: sign * released(times), low, high)


def _last_above(shape: Shape, low: float, high: float) -> float:
    """Return the time between two times in s at which a falling response crosses REST_FRACTION."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if float(shape(middle)) > REST_FRACTION:
            low = middle
        else:
            high = middle
    return high
