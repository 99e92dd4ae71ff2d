"""Waveform law: every mode of a region follows the dialled motion (docs/explanation/physics/02-settle-law.md).

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

from ..base.arrays import Array
from .law import Coefficients

# The deformation counts as at rest below this fraction of its largest swing.
REST_FRACTION = 0.01
# Relative distance of all peaks from REST_FRACTION: above it for the first mode, below it for the first and the
# stiffest modes. A peak at the threshold would shift the rest time by a swing if a direction loses slightly more or
# less. The overshoot is moved by at most 1.4 percentage points.
_PEAK_CLEARANCE = (0.15, 0.05)
# Ratio of the second root's decay to the first one's, without overshoot.
SECOND_ROOT_RATIO = 2.0
# The stiffest modes are faster than the first at least by this ratio, which keeps the M-share of the inertia positive.
_MIN_STIFF_RATIO = 1.0001
# Default ratio of the stiffest modes' frequency to that of the first.
MIN_WHIP = 1.05
# Phase in rad of the first mode in one substep above which a fallback step discards the velocity history.
_MAX_FALLBACK_PHASE = math.pi / 5.0

# Largest exponent by which the first mode decays in one step. It leaves 5e-5; more would change only rounding errors.
_MAX_STEP_DECAY = 10.0

Response = Callable[[float], float | Array]
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
    settle_scale: Array | None = None
    high_mode_frequency_ratio: float = MIN_WHIP
    is_waveform: ClassVar[bool] = True

    def coefficients(self, h: float) -> Coefficients:
        """Return the coefficients that give the first and the stiffest mode the law's roots, exactly at any h."""
        if self.settle_scale is not None:
            return self._coefficients(h)
        # Regions differ in their eigenvalues only, so the rest is cached.
        unit = _unit_eigenvalue_coefficients(self.decay, self.frequency, self.high_mode_frequency_ratio, h)
        return replace(
            unit,
            inertia_time=unit.inertia_time / self.eigenvalue,
            reference_inertia_ratio=unit.reference_inertia_ratio * self.eigenvalue,
        )

    def _coefficients(self, h: float) -> Coefficients:
        time = self._scaled_step(h)
        (A, B), (A_stiff, B_stiff) = self._end_coefficients(time)
        theta = 1.0 / B_stiff
        q = B / (1.0 - B / B_stiff)
        sigma = theta * A_stiff
        kappa = A * (1.0 + theta * q) - sigma * q
        reference_inertia_ratio = self.eigenvalue * h * (h / time) * self._impulse_response(time) / B
        initial_force_change = (1.0 + kappa / (sigma * q)) * (1.0 - self.release_response(-time))
        return Coefficients(
            kappa,
            q / (h * self.eigenvalue),
            theta,
            sigma,
            reference_inertia_ratio,
            q,
            initial_force_change,
            self._nodal_decay,
            is_waveform=True,
        )

    def _scaled_step(self, h: float) -> float | Array:
        """Return the step divided by the settle scale, s; limited by _MAX_STEP_DECAY."""
        max_step = _MAX_STEP_DECAY / self.decay
        return min(h, max_step) if self.settle_scale is None else np.minimum(h / self.settle_scale, max_step)

    def _end_coefficients(self, time: float | Array) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Return (A, B) of z^2 - (1 + A - B) z + A for the first and the stiffest mode.

        time: s, at a settle scale of 1.
        """
        phase = self.decay * time
        z = np.exp(-phase)
        if self.frequency == 0.0:
            second = SECOND_ROOT_RATIO * phase
            stiff_phase = SECOND_ROOT_RATIO * self.high_mode_frequency_ratio**2 * phase
            first_root_loss = -np.expm1(-phase)
            return (
                (z * np.exp(-second), -first_root_loss * np.expm1(-second)),
                (z * np.exp(-stiff_phase), -first_root_loss * np.expm1(-stiff_phase)),
            )
        # 1 + z^2 - 2 z cos t without cancellation at short steps.
        half = 0.5 * self.frequency * time
        first = np.expm1(-phase) ** 2 + 4.0 * z * np.sin(half) ** 2
        stiff = (
            np.expm1(-phase) ** 2
            + 4.0 * z * np.sin(np.minimum(self.high_mode_frequency_ratio * half, 0.5 * np.pi)) ** 2
        )
        return (z**2, first), (z**2, np.maximum(stiff, _MIN_STIFF_RATIO * first))

    def _impulse_response(self, time: float | Array) -> float | Array:
        """Return the deflection in s at a time in s after an initial velocity of 1."""
        a, w = self.decay, self.frequency
        if w == 0.0:
            return (np.exp(-a * time) - np.exp(-SECOND_ROOT_RATIO * a * time)) / ((SECOND_ROOT_RATIO - 1.0) * a)  # type: ignore[no-any-return]
        return np.exp(-a * time) * np.sin(w * time) / w  # type: ignore[no-any-return]

    def last_moves(self, h: float) -> tuple[float | Array, float | Array]:
        time = self._scaled_step(h)
        return 1.0 - self.release_response(-time), -self.natural_frequency * self._impulse_response(-time)

    def fallback_coefficients(self, h: float) -> Coefficients:
        """Return coefficients as in [You]: without force history, and with the first mode's kappa for all modes."""
        time = self._scaled_step(h)
        reference_inertia_ratio = self.coefficients(h).reference_inertia_ratio
        d = np.exp(-2.0 * self.decay * time)
        if self.frequency == 0.0 or np.max(self.frequency * time) > _MAX_FALLBACK_PHASE:
            q, kappa = np.expm1(self.decay * time), np.zeros_like(d)
        else:
            q = 1.0 / (2.0 * np.exp(-self.decay * time) * np.cos(self.frequency * time) - d) - 1.0
            kappa = np.minimum(d * (1.0 + q), 1.0)
        return Coefficients(
            kappa,
            q / (h * self.eigenvalue),
            reference_inertia_ratio=reference_inertia_ratio,
            first_mode_stiffness_ratio=q,
            decay_rate=self._nodal_decay,
            is_waveform=True,
        )

    @property
    def _nodal_decay(self) -> float | Array:
        """Decay rate in 1/s, at each free node where the settle scale is painted."""
        return self.decay if self.settle_scale is None else self.decay / self.settle_scale

    def release_response(self, times: float | Array) -> float | Array:
        """Return x(t) at times (k,) in s after a release at rest from x = 1; at t < 0 the same formula."""
        a, w = self.decay, self.frequency
        if w == 0.0:
            ratio = SECOND_ROOT_RATIO
            return (ratio * np.exp(-a * times) - np.exp(-ratio * a * times)) / (ratio - 1.0)  # type: ignore[no-any-return]
        return np.exp(-a * times) * (np.cos(w * times) + a / w * np.sin(w * times))  # type: ignore[no-any-return]

    @property
    def release_envelope(self) -> float:
        """Envelope at the start of a release from 1.

        Without overshoot, that of the slow part e^{-a t}, over the ratio of the roots.
        """
        return 1.0 if self.frequency == 0.0 else math.hypot(1.0, self.decay / self.frequency)

    @property
    def release_rest_time(self) -> float:
        """Time from a release to rest, s."""
        return _release_rest_phase(self.frequency / self.decay) / self.decay

    @property
    def overshoot(self) -> float:
        """Each swing over the previous one, on the other side."""
        return math.exp(-math.pi * self.decay / self.frequency) if self.frequency > 0.0 else 0.0

    @property
    def rest_phase(self) -> float:
        """Phase a t from a release to rest."""
        return _release_rest_phase(self.frequency / self.decay)

    @property
    def settle_time(self) -> float:
        """Time from a stop to rest, s."""
        return self.release_rest_time + self.time_to_peak

    @property
    def natural_frequency(self) -> float:
        second_root = self.frequency or self.decay * math.sqrt(SECOND_ROOT_RATIO - 1.0)
        return math.hypot(self.decay, second_root)

    @property
    def time_to_peak(self) -> float:
        """Time from a stop to the largest swing, s.

        The settle time counts from the stop. After the peak the motion is that of a release:
        x(t) ~ release_response(t - time_to_peak).
        """
        if self.frequency == 0.0:
            return math.log(SECOND_ROOT_RATIO) / ((SECOND_ROOT_RATIO - 1.0) * self.decay)
        return math.atan2(self.frequency, self.decay) / self.frequency


@lru_cache(maxsize=64)
def _release_rest_phase(ratio: float) -> float:
    """Return the phase a t at which a release rests. ratio: w/a, 0 for no overshoot."""
    unit = WaveformLaw(1.0, ratio, 1.0)
    if ratio == 0.0:
        return _bisect_threshold(unit.release_response, 0.0, 20.0)
    return last_threshold_crossing(unit.release_response, visible_swings(math.exp(-math.pi / ratio)), ratio)


@lru_cache(maxsize=64)
def _unit_eigenvalue_coefficients(
    decay: float, frequency: float, high_mode_frequency_ratio: float, h: float
) -> Coefficients:
    return WaveformLaw(decay, frequency, 1.0, high_mode_frequency_ratio=high_mode_frequency_ratio)._coefficients(h)


def settle_law(
    settle: float, overshoot: float, eigenvalue: float, high_mode_frequency_ratio: float = MIN_WHIP
) -> WaveformLaw:
    """Return the law for a settle time and an overshoot.

    settle: time from a stop to rest in s, > 0.  overshoot: in [0, 1).  eigenvalue: lambda_1 in 1/s^2.
    """
    if overshoot <= 0.0:
        unit = WaveformLaw(1.0, 0.0, 1.0)
        rest_phase = unit.release_rest_time + unit.time_to_peak
        return WaveformLaw(rest_phase / settle, 0.0, eigenvalue, high_mode_frequency_ratio=high_mode_frequency_ratio)
    ratio = -math.pi / math.log(snap_overshoot_off_threshold(overshoot, _PEAK_CLEARANCE, MIN_WHIP))
    unit = WaveformLaw(1.0, ratio, 1.0)
    # After a stop, a release begins at the largest swing.
    decay = (unit.release_rest_time + unit.time_to_peak) / settle
    return WaveformLaw(decay, ratio * decay, eigenvalue, high_mode_frequency_ratio=high_mode_frequency_ratio)


def visible_swings(overshoot: float) -> int:
    """Return how many times a released mode swings past rest by more than REST_FRACTION."""
    if overshoot <= 0.0:
        return 0
    return max(math.ceil(math.log(REST_FRACTION) / math.log(overshoot)) - 1, 0)


def snap_overshoot_off_threshold(
    overshoot: float, clearance: tuple[float, float], frequency_ratio: float = 1.0
) -> float:
    """Return the nearest overshoot o with the same number of visible swings and no peak o^k near REST_FRACTION.

    clearance: minimum relative distance of peaks above and below REST_FRACTION.
    frequency_ratio: r, frequency relative to the first mode of the fastest mode that must not swing more often. With
    the same decay its overshoot is o^(1/r).
    """
    swings = visible_swings(overshoot)
    above, below = REST_FRACTION * (1.0 + clearance[0]), (REST_FRACTION * (1.0 - clearance[1])) ** frequency_ratio
    if swings and overshoot**swings < above:
        return float(above ** (1.0 / swings))
    return min(overshoot, float(below ** (1.0 / (swings + 1))))


def last_threshold_crossing(response: Response, swings: int, frequency: float) -> float:
    """Return the last time at which the magnitude of a release response is REST_FRACTION, s.

    swings: number of visible swings.  frequency: rad/s.
    """
    # Extrema lie at k pi/w; between the last visible one and the next zero, |x| falls through REST_FRACTION once.
    low, high = swings * math.pi / frequency, (swings + 1) * math.pi / frequency
    sign = 1.0 if swings % 2 == 0 else -1.0
    return _bisect_threshold(lambda times: sign * response(times), low, high)


def _bisect_threshold(response: Response, low: float, high: float) -> float:
    """Return the time between low and high, s, at which a falling response crosses REST_FRACTION."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if float(response(middle)) > REST_FRACTION:
            low = middle
        else:
            high = middle
    return high
