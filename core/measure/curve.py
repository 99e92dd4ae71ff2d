"""Settle curve: how a body came to rest, compared with the dials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..base.wording import format_number
from ..frames.frame import Frame
from ..scene.parameters import Settings
from ..settle.controls import SettleLaw
from ..simulation.sampling import collider_digest_name
from ..simulation.simulation import Simulation
from .contact_results import VISIBLE_PENETRATION, partners_in_contact
from .release import ReleaseResult, rest_time

# Minimum number of frames without input after the stop.
_MIN_TAIL_FRAMES = 3
# Relative error of the settle time that needs no explanation.
_DIAL_TOLERANCE = 0.1


@dataclass(frozen=True)
class SettleCurve:
    """Deformation over time, relative to the largest swing.

    frames: (k,) since the animation stopped. A release starts where the largest swing after a stop would be.
    measured: (k,) signed.
    predicted, envelope: (k,) of the Settle law from the measured largest swing on; None for coefficients given by name.
    dial, rest: frames, requested and measured; rest is infinite if the body is not at rest in the end.
    bounce, overshoot: requested and measured.
    since: event from which the frames count.
    swing: largest one, relative to the size of the body; infinite if not measured.
    """

    frames: Array
    measured: Array
    predicted: Array | None
    envelope: Array | None
    dial: float
    rest: float
    bounce: float
    overshoot: float
    since: str = "stop"
    swing: float = np.inf

    @property
    def has_missed_dial(self) -> bool:
        """True if a visible swing rested too early or too late, by more than a frame and a tenth of the dial."""
        if self.swing < VISIBLE_PENETRATION:
            return False
        allowed = max(1.0, _DIAL_TOLERANCE * self.dial)
        # A curve that ends in motion says only that rest is later.
        rest = min(self.rest, float(self.frames[-1]))
        return bool(self.rest < self.dial - allowed or rest > self.dial + allowed)

    @property
    def summary(self) -> str:
        """One-line summary."""
        if np.isfinite(self.rest):
            rest = f"At rest {self.rest:.1f} frames after the {self.since}"
        else:
            rest = f"Not at rest {self.frames[-1]:.0f} frames after the {self.since}"
        swing = f"bounce {100 * self.overshoot:.0f}% (set {100 * self.bounce:.0f}%)"
        return f"{rest} (set {format_number(self.dial, 4)}), {swing}"


def release_curve(release: ReleaseResult, law: SettleLaw, fps: float, dial: float, bounce: float) -> SettleCurve:
    """Return the curve of a release test. dial: frames. bounce: 0 to 1."""
    signed = np.copysign(release.distance, release.projection)
    rest, lead = (release.time_to_rest + law.time_to_peak) * fps, law.time_to_peak * fps
    # The first-mode law has no lead and counts from the release.
    since = "stop" if lead > 0.0 else "release"
    frames = lead + release.times * fps
    curve = SettleCurve(frames, signed, None, None, dial, rest, bounce, release.overshoot, since)
    return _with_prediction(curve, lead, law, fps)


def simulation_curve(
    simulation: Simulation, body: str, frames: Sequence[Frame], settings: Settings
) -> SettleCurve | None:
    """Return the curve of one body at the end of simulated frames, with its settings there; None if not measurable."""
    if not simulation.system_of(body).regions or not settings.is_settle_controlled:
        return None
    body_index = simulation.scene.body_index(body)
    law, bounce = simulation.dials.release_law(body_index, settings), simulation.dials.bounce(body_index, settings)
    # What the body lies on may stop later than its own animation.
    touched = {name for frame in frames for name in partners_in_contact(simulation, frame.state, body)}
    names = [body, *sorted(touched - {body}), *map(collider_digest_name, sorted(touched))]
    inputs = (" ".join(one.inputs.get(name, "") for name in names) for one in frames)
    frame_shapes = [FrameShape(one.shapes[body], digest) for one, digest in zip(frames, inputs, strict=True)]
    count = simulation.dials.max_substeps(simulation.scene.settings)
    return shot_curve(frame_shapes, law, simulation.scene.fps, settings.settle, bounce, count)


@dataclass(frozen=True)
class FrameShape:
    """Surface (v, 3) of a body at a frame in m, and the digest of its inputs."""

    surface: Array
    inputs: str


def shot_curve(
    frames: Sequence[FrameShape], law: SettleLaw, fps: float, dial: float, bounce: float, substeps: int = 1
) -> SettleCurve | None:
    """Return the curve at the end of a simulated shot, from the stop of the animation on.

    The stop is where the inputs cease to change. Return None if they change up to the end, or if nothing swings.
    substeps: per frame. With several of them, a frame's inputs include the motion that leads to it. They become
        constant only in the frame after the stop.
    """
    stop = last = len(frames) - 1
    while stop > 0 and frames[stop - 1].inputs == frames[last].inputs:
        stop -= 1
    if substeps > 1 and stop > 0:
        stop -= 1
    if last - stop < _MIN_TAIL_FRAMES:
        return None
    tail = np.array([frame.surface for frame in frames[stop:]], dtype=float)
    displacement = tail - tail[-1]
    distance = np.linalg.norm(displacement, axis=2).max(axis=1)
    # Search within Settle, because later peaks are no response to this stop.
    peak = int(distance[: max(round(dial), 1) + 1].argmax())
    if not distance[peak] > 1e-6 * float(np.ptp(tail[-1], axis=0).max()):
        return None
    along = (displacement * displacement[peak]).sum(axis=(1, 2)) / (displacement[peak] ** 2).sum()
    relative = distance / distance[peak]
    times = np.arange(len(relative), dtype=float)
    overshoot = max(-float(along[peak:].min()), 0.0)
    # If the shot ends in motion, its last frame is no rest shape. The tail must be longer than Settle.
    rest = peak + rest_time(relative[peak:], 1.0) if len(relative) > dial else float("inf")
    signed, swing = np.copysign(relative, along), float(distance[peak] / np.linalg.norm(np.ptp(tail[-1], axis=0)))
    curve = SettleCurve(times, signed, None, None, dial, rest, bounce, overshoot, swing=swing)
    return _with_prediction(curve, float(peak), law, fps)


def _with_prediction(curve: SettleCurve, peak: float, law: SettleLaw, fps: float) -> SettleCurve:
    """Return the curve with the law's prediction. peak: frames to the largest swing."""
    # Before the peak, the law is evaluated back to the time of the stop.
    times = np.maximum((curve.frames - peak) / fps, -law.time_to_peak)
    swing = 1.0 if law.frequency == 0.0 else float(np.hypot(1.0, law.decay / law.frequency))
    envelope = np.minimum(swing * np.exp(-law.decay * np.maximum(times, 0.0)), 1.0)
    return replace(curve, predicted=np.asarray(law.release_response(times)), envelope=envelope)
