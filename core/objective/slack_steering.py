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
from ..settle.keyed_curve import CURVE_PHASES, CurvePoint, SwingMotion, phase_to_rest, tempo_on_time
from ..settle.law import DeformationLaw
from ..settle.waveform import REST_FRACTION, WaveformLaw
from ..system.region import Region

# Envelope of the law, over the largest deflection, below which steps search the equilibrium.
_LATE_ENVELOPE = 0.1
# Phase of the first mode in a step that searches the equilibrium.
_SEARCH_PHASE = 8.0
# Bounds of the decay over that of the law.
_DECAYS = (0.1, 10.0)
_UNKNOWN_POINT = CurvePoint(0.0, 0.0)
# The tempo is computed anew at these intervals of the phase.
_PHASE_INTERVAL = 0.25
# Rate at which the share of the mean falls where faster modes hide the first one, per phase.
_FORGETTING = 0.25


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
    mean_share: mean deflection over the largest one, at most, in recent steps; 0 if unknown.
    """

    path: float
    phase: float
    largest: float
    remaining_time: float
    decay: float
    acceleration: Array
    tempo: float = 1.0
    point: CurvePoint = _UNKNOWN_POINT
    mean_share: float = 0.0

    @staticmethod
    def read(numbers: Array) -> list[SlackSwing]:
        """Return the swings in an array (r, 12)."""
        return [
            SlackSwing(
                path, phase, math.inf if largest < 0.0 else largest, math.inf if left < 0.0 else left, decay,
                acceleration, tempo, CurvePoint(position, rate), mean,
            )
            for (path, phase, largest, left, decay, _, _, _, tempo, position, rate, mean), acceleration in zip(
                numbers.tolist(), numbers[:, 5:8], strict=True
            )
        ]  # fmt: skip

    @staticmethod
    def numbers(swings: Sequence[SlackSwing]) -> Array:
        """Return an array (r, 12) of swings. Infinite lengths and times are negative: caches hold finite numbers."""
        rows = [
            (
                one.path, one.phase, -1.0 if math.isinf(one.largest) else one.largest,
                -1.0 if math.isinf(one.remaining_time) else one.remaining_time, one.decay,
                *one.acceleration.tolist(), one.tempo, one.point.position, one.point.rate, one.mean_share,
            )
            for one in swings
        ]  # fmt: skip
        return np.array(rows)

    def law(self, law: DeformationLaw) -> DeformationLaw:
        """Return the law at the swing's tempo."""
        if self.tempo == 1.0 or not isinstance(law, FirstModeLaw | WaveformLaw):
            return law
        return replace(law, decay=law.decay * self.tempo, frequency=law.frequency * self.tempo)

    def with_deflection(self, deflection: float, motion: SwingMotion | None, step: float) -> SlackSwing:
        """Return the swing with a deflection of its nodes, m.

        motion: None if the hanging shape is unknown.  step: phase of a step.
        """
        share = self.mean_share * math.exp(-_FORGETTING * step)
        if motion is not None:
            share = max(share, motion.mean_share)
        return replace(self, largest=max(self.largest, deflection), mean_share=share)

    def can_search(self, law: SettleLaw, motion: SwingMotion | None) -> bool:
        """Return whether a step may search the equilibrium. At another tempo, the phase does not say when swings turn.

        law: dialled.  motion: None if the hanging shape is unknown.
        """
        if self.tempo == 1.0 or motion is None or law.frequency == 0.0 or self.phase >= law.rest_phase:
            return True
        at_tempo = self.law(law)
        assert isinstance(at_tempo, FirstModeLaw | WaveformLaw)
        return motion.is_turning(at_tempo)

    def with_new_tempo(self, law: SettleLaw, former: SettleLaw, motion: SwingMotion | None) -> SlackSwing:
        """Return the swing with the same part of the settle time left, at the tempo at which its curve rests then.

        former: dialled law of the last step.  motion: None if the hanging shape is unknown.
        """
        whole, former_whole = (one.decay * one.settle_time for one in (law, former))
        left = (former.rest_phase - self.phase) * whole / former_whole
        if motion is None:
            rest = phase_to_rest(np.abs(self.point.path(law, CURVE_PHASES)), 1.0)
        else:
            last = self.law(former)
            assert isinstance(last, FirstModeLaw | WaveformLaw)
            rest = phase_to_rest(motion.distances(law, last, self.mean_share), self.largest)
        return replace(self, phase=law.rest_phase - left, tempo=tempo_on_time(law, rest, left / law.decay))


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
    if numbers is None or numbers.shape != (count, SlackSwing.numbers([UNKNOWN_SWING]).shape[1]):
        return None
    return SlackSwing.read(numbers)


def has_search(numbers: Array | None) -> bool:
    """Return whether any of the swings in an array of the history may search the equilibrium in its step."""
    # The time that is left is negative in others, see SlackSwing.numbers().
    width = SlackSwing.numbers([UNKNOWN_SWING]).shape[1]
    return numbers is not None and numbers.shape[1:] == (width,) and bool((numbers[:, 3] >= 0.0).any())


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
    motion: SwingMotion | None = None,
) -> SlackSwing:
    """Return the swing in a step of h s that begins.

    last: None at the start of a shot.  speed: largest of a node in the last step, m/s.
    deflection: largest distance of a node from the hanging shape, m; infinite if unknown.
    acceleration: (3,) m/s^2, external.  has_stopped: whether the reference motion stopped at the start of the step.
    is_outward: whether the nodes move away from the hanging shape.
    former: law of the last step if the dials are new.
    motion: of the nodes in the last step; None if the hanging shape is unknown.
    """
    if last is None or last.path < 0.0 or has_stopped or not np.array_equal(last.acceleration, acceleration):
        lead = law.time_to_peak if has_stopped else 0.0
        point = (CurvePoint.stopped(law) if has_stopped else CurvePoint(1.0, 0.0)).after(law, law.decay * h)
        phase = law.decay * (h - lead)
        return SlackSwing(0.0, phase, deflection, math.inf, law.decay, acceleration, point=point)
    last = last.with_deflection(deflection, motion, law.decay * h)
    if isinstance(former, FirstModeLaw | WaveformLaw) and has_new_bounce(law, former):
        last = last.with_new_tempo(law, former, motion)
    elif last.tempo != 1.0 and math.isinf(last.remaining_time) and _is_due(last.phase, law.decay * h):
        last = last.with_new_tempo(law, former if isinstance(former, FirstModeLaw | WaveformLaw) else law, motion)
    following = last.phase + law.decay * h
    point = last.point.after(law, law.decay * last.tempo * h)
    if last.phase <= 0.0 or isinstance(law, WaveformLaw):
        return replace(last, phase=following, decay=law.decay, point=point)
    # The last visible swing turns first, unless the region moves away to another equilibrium.
    turn = law.last_swing_phase
    is_swinging = is_outward and turn > 0.0 and last.phase < 0.5 * (turn + law.rest_phase)
    # A search goes on to rest, even under a Bounce whose last visible swing turns later.
    is_searching = not math.isinf(last.remaining_time)
    is_late = is_searching or (
        last.phase >= max(turn, -math.log(_LATE_ENVELOPE)) and not is_swinging and last.can_search(law, motion)
    )
    left = max(law.rest_phase - last.phase, 0.0) / law.decay if is_late else math.inf
    path = last.path + h * speed
    return replace(last, path=path, phase=following, remaining_time=left, decay=law.decay, point=point)


def _is_due(phase: float, step: float) -> bool:
    """Return whether an interval of the phase begins in the step before. step: phase of a step."""
    return math.floor(phase / _PHASE_INTERVAL) != math.floor((phase - step) / _PHASE_INTERVAL)


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
