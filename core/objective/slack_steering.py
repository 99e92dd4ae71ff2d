"""Steering of regions that their weight holds, by the way they have gone and their speed (docs/decisions/0064).

Slack parts of a sheet are slower than its first mode, stiff parts faster, and neither their equilibrium nor their
stiffness is known: a slack sheet has many of both. Without a visible swing, scaling a and w by a pace p leaves the path
as it is and scales time. With the way P of the fastest nodes since the largest swing, their speed S and its decay rate
r, all measured, the law itself says how far it has come:

    S/(r P) = |x'|/(rho (1 - x))        at the phase psi, with the law's decay rate rho of |x'|
    p' = p (psi_T - psi)/((r/rho) (phi_T - phi))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..settle.first_mode import FirstModeLaw
from ..settle.substeps import MAX_PHASE
from ..settle.waveform import REST_FRACTION
from ..system.region import Region

# Bounds of the pace.
_MIN_PACE, _MAX_PACE = 0.35, 4.0
# A motion is slowed only after this fraction of the phase until rest: before, fast modes hide slow ones.
_SLOWING_FRACTION = 1.0 / 3.0
# The pace is computed anew at these intervals of the phase, but not in the last part before rest.
_PHASE_INTERVAL, _LAST_PHASE = 0.25, 0.25
# A deflection larger by this factor than all others of the swing begins a new swing after this phase.
_NEW_SWING_RATIO, _NEW_SWING_PHASE = 1.2, 2.0
# A region swings outward while its deflection grows by this factor in a step.
_OUTWARD_RATIO = 1.02
# A region is on its way to the hanging shape if the way gone and the deflection add up to the largest deflection within
# these ratios. Otherwise it settles in another of its equilibria.
_DIRECT_RATIOS = (0.8, 1.25)
# Exponent of the pace of a swing that is on its way to the hanging shape: a larger one makes up for a lag sooner.
_DIRECT_GAIN = 2.0
# At a smaller phase, a release has no speed yet.
_MIN_PHASE = 1e-3
_BISECTIONS = 40


@dataclass(frozen=True)
class SlackSwing:
    """Swing of a region so far.

    path: P in m; negative while pins move or other forces act.  phase: phi since the largest swing, or since the
    release.  pace: p in the last step.
    largest: largest deflection from the hanging shape so far, m; infinite if the shape is unknown.
    last_speed: speed in m/s over the pace at last_phase.
    """

    path: float
    phase: float
    pace: float
    largest: float = 0.0
    last_speed: float = 0.0
    last_phase: float = 0.0

    @staticmethod
    def read(numbers: Array) -> SlackSwing:
        """Return the swing in an array (6,)."""
        return SlackSwing(*(float(one) for one in numbers))

    @property
    def numbers(self) -> Array:
        """Array (6,) of the swing."""
        return np.array([self.path, self.phase, self.pace, self.largest, self.last_speed, self.last_phase])


UNKNOWN_SWING = SlackSwing(-1.0, 0.0, 1.0)


def can_steer_slack(region: Region, law: object) -> bool:
    """Return whether a region swings about its pins under the first law without a visible swing."""
    return (
        isinstance(law, FirstModeLaw)
        and law.has_slack_modes
        and law.settle_scale is None
        and not region.rigid_modes
        and len(region.constrained_nodes) > 0
        and not law.has_visible_swing
    )


def next_slack_swing(
    law: FirstModeLaw, last: SlackSwing | None, speed: float, deflection: float, h: float, has_stopped: bool
) -> SlackSwing:
    """Return the swing in a step of h s that begins.

    last: None at the start of a shot.  speed: largest of a node in the last step, m/s.
    deflection: largest distance of a node from the hanging shape, m; infinite if unknown.
    has_stopped: whether the reference motion stopped at the start of the step.
    """
    if last is None or last.path < 0.0 or has_stopped:
        if speed > 0.0 and not has_stopped:
            return UNKNOWN_SWING
        lead = law.time_to_peak if has_stopped else 0.0
        return SlackSwing(0.0, law.decay * (h - lead), 1.0, deflection)
    following, largest = last.phase + law.decay * h, max(last.largest, deflection)
    if last.phase <= 0.0:
        return replace(last, phase=following, largest=largest)
    if last.phase > _NEW_SWING_PHASE and _NEW_SWING_RATIO * last.largest < deflection < math.inf:
        return SlackSwing(0.0, law.decay * h, 1.0, deflection)
    own, path = speed / last.pace, last.path + h * speed
    if _OUTWARD_RATIO * last.largest < deflection < math.inf:
        return SlackSwing(path, following, last.pace, largest, own, last.phase)
    number, last_number = (math.floor(one / _PHASE_INTERVAL) for one in (last.phase, last.phase - law.decay * h))
    left = law.decay * law.release_rest_time - last.phase
    if number == last_number or left <= _LAST_PHASE:
        return replace(last, path=path, phase=following)
    pace, way = last.pace, min(path, largest)
    is_direct = _DIRECT_RATIOS[0] * largest < path + deflection < _DIRECT_RATIOS[1] * largest
    if law.frequency > 0.0 and is_direct:
        pace = direct_pace(law, deflection / largest, left)
    elif 0.0 < own < last.last_speed and way > 0.0:
        ratio, interval = last.last_speed / own, last.phase - last.last_phase
        pace = slack_pace(law, way, speed, ratio, interval, left, last.pace, h)
    pace = min(pace, MAX_PHASE / max(law.frequency * h, 1e-9))
    return SlackSwing(path, following, pace, largest, own, last.phase)


def direct_pace(law: FirstModeLaw, deflection: float, left: float) -> float:
    """Return the pace at which a swing towards the hanging shape rests on time, within its bounds.

    deflection: over the largest one.  left: phase until rest.
    """
    rest_phase = law.decay * law.release_rest_time
    found = ((rest_phase - law.release_phase(min(max(deflection, REST_FRACTION), 1.0))) / left) ** _DIRECT_GAIN
    return _bounded_pace(found, left / rest_phase)


def slack_pace(
    law: FirstModeLaw, path: float, speed: float, ratio: float, interval: float, left: float, pace: float, h: float
) -> float:
    """Return the pace at which a swing rests on time, within its bounds.

    path: P in m.  speed: S in m/s, mean of the last step.  ratio: of the speeds at the start and end of an interval of
    the phase, > 1.  left: phase until rest.  pace: in the interval.
    """
    rate, step = math.log(ratio) / interval, law.decay * h
    # The speed at the end of the last step, per phase.
    slowness = rate * step / math.expm1(rate * step)
    wanted = speed * slowness / law.decay / (rate * path)
    window = pace * interval

    def law_rate(phase: float) -> float:
        before, after = (law.release_speed(one / law.decay) for one in (max(phase - window, _MIN_PHASE), phase))
        return math.log(before / after) / min(window, phase - _MIN_PHASE) if after > 0.0 else math.inf

    def is_before(phase: float) -> bool:
        rate_there = law_rate(phase)
        x = float(law.release_response(phase / law.decay))
        return rate_there <= 0.0 or law.release_speed(phase / law.decay) / law.decay > wanted * rate_there * (1.0 - x)

    low, high = 2.0 * _MIN_PHASE, law.decay * law.release_rest_time
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_before(middle) else (low, middle)
    found = pace * (law.decay * law.release_rest_time - high) * law_rate(high) / (rate * left)
    return _bounded_pace(found, left / (law.decay * law.release_rest_time))


def _bounded_pace(pace: float, left: float) -> float:
    """Return a pace within its bounds. left: fraction of the phase until rest that is left."""
    return float(np.clip(pace, _MIN_PACE if left < 1.0 - _SLOWING_FRACTION else 1.0, _MAX_PACE))
