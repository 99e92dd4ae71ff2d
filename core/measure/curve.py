"""The settle curve: how a body came to rest, beside what was dialled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..frames.frame import Frame
from ..scene.parameters import DampingBy, Settings
from ..simulation.simulation import Simulation
from ..stepping.law import InertiaLaw, SettleLaw, settle_law
from .diagnostics import rest_time
from .release import Release

# A tail of the shot in which nothing pushes is looked at from so many frames on.
_LEAST_TAIL = 3


@dataclass(frozen=True)
class SettleCurve:
    """Deformation against frames, in parts of the largest swing.

    frames: (k,) from the largest swing, or the release, on.  measured: (k,) signed.  predicted, envelope: (k,) of the
    dialled law; None where the coefficients were given by name.  dial, rest: frames, dialled and measured; the latter
    infinite where it is not at rest in the end.  bounce, overshoot: dialled and measured.
    """

    frames: Array
    measured: Array
    predicted: Array | None
    envelope: Array | None
    dial: float
    rest: float
    bounce: float
    overshoot: float

    @property
    def text(self) -> str:
        """One line that says it."""
        if np.isfinite(self.rest):
            rest = f"At rest after {self.rest:.1f} frames"
        else:
            rest = f"Not at rest after {self.frames[-1]:.0f} frames"
        swing = f"bounce {100 * self.overshoot:.0f}% (dialled {100 * self.bounce:.0f}%)"
        return f"{rest} (dialled {self.dial:.4g}), {swing}"


def released_curve(release: Release, law: InertiaLaw, fps: float, dial: float, bounce: float) -> SettleCurve:
    """Of a release test. dial: frames.  bounce: 0 to 1."""
    signed = np.copysign(release.distance, release.along)
    return _curve(release.times * fps, signed, release.rest * fps, release.overshoot, law, fps, dial, bounce)


def simulation_curve(
    simulation: Simulation, body: str, frames: Sequence[Frame], settings: Settings
) -> SettleCurve | None:
    """Of one body in the last frames of a simulation, with its settings at their end."""
    if not simulation.system_of(body).regions or settings.damping_by != DampingBy.DIALS:
        return None
    # The dialled curve is the same for every region, so that no eigenvalue is needed.
    settle = settings.settle * settings.calibration / simulation.scene.fps
    law = settle_law(settle, simulation.substeps(body, settings).overshoot, 1.0)
    moves = [Shape(frame.shapes[body], frame.inputs[body]) for frame in frames]
    return shot_curve(moves, law, simulation.scene.fps, settings.settle, settings.overshoot)


@dataclass(frozen=True)
class Shape:
    """A body at a frame: surface (v, 3) m, and the digest of what it was made from."""

    surface: Array
    inputs: str


def shot_curve(frames: Sequence[Shape], law: InertiaLaw, fps: float, dial: float, bounce: float) -> SettleCurve | None:
    """Of the end of a simulated shot, from its largest swing after the last push on.

    The last push is where the inputs cease to change; None where they change up to the end, or nothing swings.
    """
    last = len(frames) - 1
    stop = last
    while stop > 0 and frames[stop - 1].inputs == frames[last].inputs:
        stop -= 1
    if last - stop < _LEAST_TAIL:
        return None
    tail = np.array([frame.surface for frame in frames[stop:]], dtype=float)
    way = tail - tail[-1]
    distance = np.linalg.norm(way, axis=2).max(axis=1)
    # Within the dialled time: what comes later is no answer to that push.
    peak = int(distance[: max(round(dial), 1) + 1].argmax())
    if not distance[peak] > 1e-6 * float(np.ptp(tail[-1], axis=0).max()):
        return None
    along = (way[peak:] * way[peak]).sum(axis=(1, 2)) / (way[peak] ** 2).sum()
    relative = distance[peak:] / distance[peak]
    times = np.arange(len(relative), dtype=float)
    overshoot = max(-float(along.min()), 0.0)
    # Where the shot ends in motion, its last frame is no rest; the tail must be longer than the dial.
    rest = rest_time(relative, 1.0) if len(relative) > dial else float("inf")
    return _curve(times, np.copysign(relative, along), rest, overshoot, law, fps, dial, bounce)


def _curve(
    frames: Array,
    measured: Array,
    rest: float,
    overshoot: float,
    law: InertiaLaw,
    fps: float,
    dial: float,
    bounce: float,
) -> SettleCurve:
    predicted = envelope = None
    if isinstance(law, SettleLaw):
        predicted = law.released(frames / fps)
        swing = 1.0 if law.frequency == 0.0 else float(np.hypot(1.0, law.decay / law.frequency))
        envelope = np.minimum(swing * np.exp(-law.decay * frames / fps), 1.0)
    return SettleCurve(frames, measured, predicted, envelope, dial, rest, bounce, overshoot)
