"""First law, for comparison and for nets: the first mode follows the dials, all other modes settle earlier.

x(t) = e^{-a t} (cos w t + a/w sin w t)      released from rest, overshoot o = e^{-pi a/w} > 0
x(t) = e^{-a t}                              overshoot 0, [You]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..base.arrays import Array
from .law import Coefficients
from .waveform import REST_FRACTION, last_threshold_crossing, snap_overshoot_off_threshold, visible_swings

# As for the waveform law, but only the numerical damping of the first mode needs an allowance.
_CLEARANCE = (0.05, 0.05)
# Duration in s of the substeps as which shorter ones damp slack sheets and nets.
_DAMPING_TIME = 1.0 / 24.0
# In cloth, ropes and nets, the peaks of several modes may add up, as in natural_bounce.py.
_SLACK_CLEARANCE = (0.3, 0.25)


@dataclass(frozen=True)
class FirstModeLaw:
    """Law whose first mode follows the dials.

    decay: a in 1/s.  frequency: w in rad/s, 0 for no overshoot.  eigenvalue: lambda_1 in 1/s^2.
    settle_scale: (f,) painted factors on the settle time at the free nodes.
    has_slack_modes: whether some motions are slower than the first mode, as in a net. They would grow if kappa exceeded
        1.
    counts_from_stop: whether the settle time counts from a stop of the pins instead of a release.
    can_snap_taut: whether it is a net, or a slack sheet, whose weight keeps its shape. Their stress may vanish within a
        step, and a retained force would then push them.
    """

    decay: float
    frequency: float
    eigenvalue: float
    settle_scale: Array | None = None
    has_slack_modes: bool = False
    counts_from_stop: bool = False
    can_snap_taut: bool = False
    is_waveform: ClassVar[bool] = False

    def fallback_coefficients(self, h: float) -> Coefficients:
        """Return the (kappa, s) whose discrete roots are e^{(-a +- i w) h}."""
        scaled_time = h if self.settle_scale is None else h / self.settle_scale
        kappa: float | Array
        if self.frequency == 0.0:
            q, kappa = np.expm1(self.decay * scaled_time), 0.0
        else:
            d = np.exp(-2.0 * self.decay * scaled_time)
            p = 2.0 * np.exp(-self.decay * scaled_time) * np.cos(self.frequency * scaled_time)
            q = 1.0 / (p - d) - 1.0
            kappa = d * (1.0 + q)
            if self.has_slack_modes:
                kappa = np.minimum(kappa, 1.0)
        return Coefficients(
            kappa, q / (h * self.eigenvalue), initial_force_change=self._initial_force_change(scaled_time, q)
        )

    def coefficients(self, h: float) -> Coefficients:
        """Return the coefficients of a substep.

        In ropes and stiff sheets with a visible swing, kappa = sigma = e^{-2ah}: all modes then decay by e^{-ah}
        in each substep (docs/decisions/0076). Short substeps of slack sheets and nets damp as longer ones do. Otherwise
        they are the fallback coefficients.
        """
        if self.has_slack_modes and self.can_snap_taut and self.settle_scale is None and self.frequency > 0.0:
            return self._lagging_coefficients(h)
        can_retain = self.has_slack_modes and not self.can_snap_taut and self.settle_scale is None
        if not can_retain or self.last_swing_phase == 0.0:
            return self.fallback_coefficients(h)
        z = math.exp(-self.decay * h)
        # 1 + z^2 - 2 z cos wh without cancellation at short steps.
        first = math.expm1(-self.decay * h) ** 2 + 4.0 * z * math.sin(0.5 * self.frequency * h) ** 2
        q = first / (1.0 - first)
        return Coefficients(
            z**2,
            q / (h * self.eigenvalue),
            sigma=z**2,
            first_mode_stiffness_ratio=q,
            initial_force_change=self._initial_force_change(h, q),
        )

    def _lagging_coefficients(self, h: float) -> Coefficients:
        """Return coefficients that damp a mode of the frequency k as a substep of the duration H does: by k^2 H/2.

        H is the least of _DAMPING_TIME and 2a/(a^2 + w^2), at which kappa is 1; but no less than h. The step is divided
        by H/h, see (2.50) of physics, section 2.
        """
        damping_time = min(_DAMPING_TIME, 2.0 * self.decay / self.natural_frequency**2)
        if damping_time <= h * (1.0 + 1e-9):
            return self.fallback_coefficients(h)
        ratio = damping_time / h
        z = math.exp(-self.decay * h)
        # 1 + z^2 - 2 z cos wh without cancellation at short steps.
        first = math.expm1(-self.decay * h) ** 2 + 4.0 * z * math.sin(0.5 * self.frequency * h) ** 2
        q = ratio * first / (1.0 - ratio * first)
        acting = (1.0 - self.release_response(h)) * (1.0 + q) / q
        return Coefficients(
            min(z**2 * (1.0 + q), 1.0),
            q / (h * self.eigenvalue),
            initial_force_change=1.0 - acting,
            force_lag=1.0 - 1.0 / ratio,
        )

    def _initial_force_change(self, time: float | Array, q: float | Array) -> float | Array:
        """Return 1 - r, with which the first substep ends where (2.9) does: x(h) = 1 - r q/(1 + q).

        time: of the substep, s.  q: ratio of the first mode's stiffness to its inertia.
        """
        # Without overshoot, r is 1.
        if not self.has_slack_modes or self.frequency == 0.0:
            return 0.0
        return 1.0 - (1.0 - self.release_response(time)) * (1.0 + q) / q

    def release_response(self, times: float | Array) -> float | Array:
        """Return the deflection x(t) at times (k,) s after a release from 1 at rest."""
        envelope: float | Array = np.exp(-self.decay * times)
        if self.frequency == 0.0:
            return envelope
        phase = self.frequency * times
        return envelope * (np.cos(phase) + self.decay / self.frequency * np.sin(phase))  # type: ignore[no-any-return]

    def last_moves(self, h: float) -> tuple[float | Array, float | Array]:
        time = h if self.settle_scale is None else h / self.settle_scale
        if self.frequency == 0.0:
            return 0.0 * time, np.expm1(self.decay * time)
        thrown = self.natural_frequency / self.frequency * np.exp(self.decay * time) * np.sin(self.frequency * time)
        return 1.0 - self.release_response(-time), thrown

    @property
    def last_swing_phase(self) -> float:
        """Phase a t from a release to the largest deflection of the last visible swing; 0 if there is none."""
        if self.frequency == 0.0:
            return 0.0
        ratio = math.pi * self.decay / self.frequency
        return visible_swings(math.exp(-ratio)) * ratio

    @property
    def rest_phase(self) -> float:
        """Phase a t from a release to rest."""
        return _rest_phase(self.frequency / self.decay)

    @property
    def settle_time(self) -> float:
        """Time until rest from a stop, or from a release if it counts from that, s."""
        return self.rest_phase / self.decay + self.time_to_peak

    @property
    def natural_frequency(self) -> float:
        return math.hypot(self.decay, self.frequency)

    @property
    def time_to_peak(self) -> float:
        """Time from the start of the settle time to the largest swing, s."""
        return (
            math.atan2(self.frequency, self.decay) / self.frequency if self.counts_from_stop and self.frequency else 0.0
        )


@lru_cache(maxsize=256)
def _rest_phase(ratio: float) -> float:
    """Return the phase a t from a release to rest of a law with w/a = ratio."""
    if ratio == 0.0:
        return -math.log(REST_FRACTION)
    law = FirstModeLaw(1.0, ratio, 1.0)
    return last_threshold_crossing(law.release_response, visible_swings(math.exp(-math.pi / ratio)), ratio)


def first_mode_law(
    settle: float, overshoot: float, eigenvalue: float, has_slack_modes: bool = False, counts_from_stop: bool = False
) -> FirstModeLaw:
    """Return the first-mode law for the given dials.

    settle: rest time in s, > 0.  overshoot: in [0, 1).  eigenvalue: lambda_1 in 1/s^2.
    has_slack_modes, counts_from_stop: see FirstModeLaw.
    """
    ratio, rest = _unit_curve(overshoot, has_slack_modes, counts_from_stop)
    return FirstModeLaw(
        rest / settle,
        ratio * rest / settle,
        eigenvalue,
        has_slack_modes=has_slack_modes,
        counts_from_stop=counts_from_stop,
    )


# Strands of hair have one law each, which differ only in their eigenvalues, in up to 16 substeps of a keyed frame.
@lru_cache(maxsize=1024)
def _unit_curve(overshoot: float, has_slack_modes: bool, counts_from_stop: bool) -> tuple[float, float]:
    """Return the ratio w/a of the law for an overshoot, and the time until rest for a = 1/s, s."""
    if overshoot <= 0.0:
        return 0.0, -math.log(REST_FRACTION)
    clearance = _SLACK_CLEARANCE if has_slack_modes else _CLEARANCE
    ratio = -math.pi / math.log(snap_overshoot_off_threshold(overshoot, clearance))
    unit = FirstModeLaw(1.0, ratio, 1.0, counts_from_stop=counts_from_stop)
    return ratio, last_threshold_crossing(unit.release_response, visible_swings(overshoot), ratio) + unit.time_to_peak
