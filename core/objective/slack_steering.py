"""Steering of regions that their weight holds: slack folds rest with the first mode (docs/decisions/0073).

Slack folds of a sheet are slower than its first mode, and neither their stiffness nor their equilibrium is known. Late
in a swing, a step therefore searches the equilibrium and goes a part of the way D to it:

    x+ = x + f (x_eq - x),   f = 1 - (REST_FRACTION Y/D)^{h/t}

Y is the largest deflection of the swing, and t the time that is left until rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..settle.controls import SettleLaw, has_new_bounce
from ..settle.first_mode import FirstModeLaw
from ..settle.keyed_curve import CURVE_PHASES, CurvePoint, phase_to_rest, tempo_on_time
from ..settle.law import DeformationLaw
from ..settle.waveform import REST_FRACTION, WaveformLaw
from ..system.region import Region

# Envelope of the law, over the largest deflection, below which steps search the equilibrium.
_LATE_ENVELOPE = 0.1
# Phase of the first mode in a step that searches the equilibrium.
_SEARCH_PHASE = 8.0
# Bounds of the decay over that of the law.
_DECAYS = (0.35, 10.0)
# Numbers of a swing in an array, and the place of the time that is left among them.
_NUMBERS, _LEFT = 11, 3
_UNKNOWN_POINT = CurvePoint(0.0, 0.0)


@dataclass(frozen=True)
class SlackSwing:
    """Swing of a region so far.

    path: way in m of the fastest nodes since the largest swing; negative while pins move or other forces act.
    phase: a t since the largest swing or the release, at the end of the step.
    largest: largest deflection from the hanging shape so far, m; infinite if the shape is unknown.
    remaining_time: until rest at the start of a step that searches the equilibrium, s; infinite in others.
    decay: of the law, 1/s.  acceleration: (3,) m/s^2, external.
    tempo: factor on the decay and the frequency of the law since Bounce has changed.
    point: of the first mode's curve at the end of the step.
    """

    path: float
    phase: float
    largest: float
    remaining_time: float
    decay: float
    acceleration: Array
    tempo: float = 1.0
    point: CurvePoint = _UNKNOWN_POINT

    @staticmethod
    def read(numbers: Array) -> list[SlackSwing]:
        """Return the swings in an array (r, 11)."""
        return [
            SlackSwing(
                path, phase, math.inf if largest < 0.0 else largest, math.inf if left < 0.0 else left, decay,
                acceleration, tempo, CurvePoint(position, rate),
            )
            for (path, phase, largest, left, decay, _, _, _, tempo, position, rate), acceleration in zip(
                numbers.tolist(), numbers[:, 5:8], strict=True
            )
        ]  # fmt: skip

    @staticmethod
    def numbers(swings: Sequence[SlackSwing]) -> Array:
        """Return an array (r, 11) of swings. Infinite lengths and times are negative: caches hold finite numbers."""
        rows = [
            (
                one.path, one.phase, -1.0 if math.isinf(one.largest) else one.largest,
                -1.0 if math.isinf(one.remaining_time) else one.remaining_time, one.decay,
                *one.acceleration.tolist(), one.tempo, one.point.position, one.point.rate,
            )
            for one in swings
        ]  # fmt: skip
        return np.array(rows)

    def law(self, law: DeformationLaw) -> DeformationLaw:
        """Return the law at the swing's tempo."""
        if self.tempo == 1.0 or not isinstance(law, FirstModeLaw | WaveformLaw):
            return law
        return replace(law, decay=law.decay * self.tempo, frequency=law.frequency * self.tempo)

    def with_new_bounce(self, law: SettleLaw, former: SettleLaw) -> SlackSwing:
        """Return the swing with the same part of the settle time left, at the tempo at which the curve rests then."""
        whole, former_whole = (one.decay * one.settle_time for one in (law, former))
        left = (former.rest_phase - self.phase) * whole / former_whole
        curve = self.point.path(law, CURVE_PHASES)
        tempo = tempo_on_time(law, phase_to_rest(np.abs(curve), 1.0), left / law.decay)
        return replace(self, phase=law.rest_phase - left, tempo=tempo)


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


def can_follow_curve(region: Region, law: object) -> bool:
    """Return whether a region swings about its pins under the waveform law, so that its curve is known after a stop."""
    return (
        isinstance(law, WaveformLaw)
        and law.settle_scale is None
        and not region.rigid_modes
        and len(region.constrained_nodes) > 0
    )


def known_swings(numbers: Array | None, count: int) -> list[SlackSwing] | None:
    """Return the swings of so many regions in an array of the history, if it has them."""
    return None if numbers is None or numbers.shape != (count, _NUMBERS) else SlackSwing.read(numbers)


def has_search(numbers: Array | None) -> bool:
    """Return whether any of the swings in an array of the history searches the equilibrium in its step."""
    return numbers is not None and numbers.shape[1:] == (_NUMBERS,) and bool((numbers[:, _LEFT] >= 0.0).any())


def next_slack_swing(
    law: SettleLaw,
    last: SlackSwing | None,
    speed: float,
    deflection: float,
    acceleration: Array,
    h: float,
    has_stopped: bool,
    is_outward: bool,
    former: object = None,
) -> SlackSwing:
    """Return the swing in a step of h s that begins.

    last: None at the start of a shot.  speed: largest of a node in the last step, m/s.
    deflection: largest distance of a node from the hanging shape, m; infinite if unknown.
    acceleration: (3,) m/s^2, external.  has_stopped: whether the reference motion stopped at the start of the step.
    is_outward: whether the nodes move away from the hanging shape.
    former: law of the last step if the dials are new.
    """
    if last is None or last.path < 0.0 or has_stopped or not np.array_equal(last.acceleration, acceleration):
        lead = law.time_to_peak if has_stopped else 0.0
        point = (CurvePoint.stopped(law) if has_stopped else CurvePoint(1.0, 0.0)).after(law, law.decay * h)
        phase = law.decay * (h - lead)
        return SlackSwing(0.0, phase, deflection, math.inf, law.decay, acceleration, point=point)
    if isinstance(former, FirstModeLaw | WaveformLaw) and has_new_bounce(law, former):
        last = last.with_new_bounce(law, former)
    following, largest = last.phase + law.decay * h, max(last.largest, deflection)
    point = last.point.after(law, law.decay * last.tempo * h)
    if last.phase <= 0.0 or isinstance(law, WaveformLaw):
        return replace(last, phase=following, largest=largest, decay=law.decay, point=point)
    # The last visible swing turns first, unless the region moves away to another equilibrium.
    turn = law.last_swing_phase
    is_swinging = is_outward and turn > 0.0 and last.phase < 0.5 * (turn + law.rest_phase)
    is_late = last.phase >= max(turn, -math.log(_LATE_ENVELOPE)) and not (
        is_swinging and math.isinf(last.remaining_time)
    )
    left = max(law.rest_phase - last.phase, 0.0) / law.decay if is_late else math.inf
    path = last.path + h * speed
    return SlackSwing(path, following, largest, left, law.decay, acceleration, last.tempo, point)


def search_law(law: SettleLaw, swing: SlackSwing, h: float) -> DeformationLaw:
    """Return the law of a step of h s."""
    if math.isinf(swing.remaining_time):
        return swing.law(law)
    return replace(law, decay=_SEARCH_PHASE / h, frequency=0.0)


def relaxed_part(swing: SlackSwing, way: float, h: float) -> float:
    """Return the part of the way to the equilibrium that a region goes in a step of h s. way: its largest, m."""
    if swing.remaining_time <= h:
        return 1.0
    ratio, limit = 1.0, REST_FRACTION * min(swing.path, swing.largest)
    if way > limit > 0.0:
        ratio = float(np.clip(math.log(way / limit) / swing.remaining_time / swing.decay, *_DECAYS))
    return -math.expm1(-ratio * swing.decay * h)
