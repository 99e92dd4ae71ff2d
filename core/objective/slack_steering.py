"""Steering of regions that their weight holds: slack folds rest with the first mode (docs/decisions/0073).

Slack folds of a sheet are slower than its first mode, and neither their stiffness nor their equilibrium is known. Late
in a swing, a step therefore searches the equilibrium and goes a part of the way D to it:

    x+ = x + f (x_eq - x),   f = 1 - (REST_FRACTION Y/D)^{h/t}

Y is the largest deflection of the swing, and t the time that is left until rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..settle.first_mode import FirstModeLaw
from ..settle.waveform import REST_FRACTION
from ..system.region import Region

# Envelope of the law, over the largest deflection, below which steps search the equilibrium.
_LATE_ENVELOPE = 0.1
# Phase of the first mode in a step that searches the equilibrium.
_SEARCH_PHASE = 8.0
# Bounds of the decay over that of the law.
_DECAYS = (0.35, 10.0)


@dataclass(frozen=True)
class SlackSwing:
    """Swing of a region so far.

    path: way in m of the fastest nodes since the largest swing; negative while pins move or other forces act.
    phase: a t since the largest swing or the release, at the end of the step.
    largest: largest deflection from the hanging shape so far, m; infinite if the shape is unknown.
    remaining_time: until rest at the start of a step that searches the equilibrium, s; infinite in others.
    decay: of the law, 1/s.  acceleration: (3,) m/s^2, external.
    """

    path: float
    phase: float
    largest: float
    remaining_time: float
    decay: float
    acceleration: Array

    @staticmethod
    def read(numbers: Array) -> SlackSwing:
        """Return the swing in an array (8,)."""
        path, phase, largest, left, decay = (float(one) for one in numbers[:5])
        largest, left = (math.inf if one < 0.0 else one for one in (largest, left))
        return SlackSwing(path, phase, largest, left, decay, numbers[5:])

    @property
    def numbers(self) -> Array:
        """Array (8,) of the swing. Infinite lengths and times are negative, because caches hold finite numbers only."""
        largest, left = (-1.0 if math.isinf(one) else one for one in (self.largest, self.remaining_time))
        return np.array([self.path, self.phase, largest, left, self.decay, *self.acceleration])


UNKNOWN_SWING = SlackSwing(-1.0, 0.0, math.inf, math.inf, 0.0, np.zeros(3))


def can_steer_slack(region: Region, law: object) -> bool:
    """Return whether a region swings about its pins under the first law, with modes slower than the first one."""
    return (
        isinstance(law, FirstModeLaw)
        and law.has_slack_modes
        and law.settle_scale is None
        and not region.rigid_modes
        and len(region.constrained_nodes) > 0
    )


def known_swings(numbers: Array | None, count: int) -> list[SlackSwing] | None:
    """Return the swings of so many regions in an array of the history, if it has them."""
    if numbers is None or numbers.shape != (count, len(UNKNOWN_SWING.numbers)):
        return None
    return [SlackSwing.read(row) for row in numbers]


def next_slack_swing(
    law: FirstModeLaw,
    last: SlackSwing | None,
    speed: float,
    deflection: float,
    acceleration: Array,
    h: float,
    has_stopped: bool,
    is_outward: bool,
) -> SlackSwing:
    """Return the swing in a step of h s that begins.

    last: None at the start of a shot.  speed: largest of a node in the last step, m/s.
    deflection: largest distance of a node from the hanging shape, m; infinite if unknown.
    acceleration: (3,) m/s^2, external.  has_stopped: whether the reference motion stopped at the start of the step.
    is_outward: whether the nodes move away from the hanging shape.
    """
    if last is None or last.path < 0.0 or has_stopped or not np.array_equal(last.acceleration, acceleration):
        lead = law.time_to_peak if has_stopped else 0.0
        return SlackSwing(0.0, law.decay * (h - lead), deflection, math.inf, law.decay, acceleration)
    following, largest = last.phase + law.decay * h, max(last.largest, deflection)
    if last.phase <= 0.0:
        return replace(last, phase=following, largest=largest, decay=law.decay)
    # The last visible swing turns first, unless the region moves away to another equilibrium.
    turn = law.last_swing_phase
    is_swinging = is_outward and turn > 0.0 and last.phase < 0.5 * (turn + law.rest_phase)
    is_late = last.phase >= max(turn, -math.log(_LATE_ENVELOPE)) and not (
        is_swinging and math.isinf(last.remaining_time)
    )
    left = max(law.rest_phase - last.phase, 0.0) / law.decay if is_late else math.inf
    return SlackSwing(last.path + h * speed, following, largest, left, law.decay, acceleration)


def search_law(law: FirstModeLaw, swing: SlackSwing, h: float) -> FirstModeLaw:
    """Return the law of a step of h s."""
    return law if math.isinf(swing.remaining_time) else replace(law, decay=_SEARCH_PHASE / h, frequency=0.0)


def relaxed_part(swing: SlackSwing, way: float, h: float) -> float:
    """Return the part of the way to the equilibrium that a region goes in a step of h s. way: its largest, m."""
    if swing.remaining_time <= h:
        return 1.0
    ratio, limit = 1.0, REST_FRACTION * min(swing.path, swing.largest)
    if way > limit > 0.0:
        ratio = float(np.clip(math.log(way / limit) / swing.remaining_time / swing.decay, *_DECAYS))
    return -math.expm1(-ratio * swing.decay * h)
