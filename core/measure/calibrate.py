"""Calibration ([You] 4.1): release the body as it hangs in the shot, measure, and correct the dial."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import DampSimError, PinError, SceneError, StepError
from ..scene.parameters import PARAMETERS, Settings
from ..simulation.simulation import Simulation
from ..system.state import PinMotion, State
from .curve import SettleCurve, released_curve
from .release import Release, Still, pulled, watch

# Frames by which the measured rest may miss the dial, and how often the correction is improved.
_CLOSE = 0.4
_MOST = 5
# The release is watched for this part of the dial and a few frames more.
_WATCHED = 1.5


@dataclass(frozen=True)
class Calibration:
    """correction: for Settings.calibration.  before, after: the curves without and with it, of the slowest region."""

    correction: float
    before: SettleCurve
    after: SettleCurve


def calibrate(simulation: Simulation, deflection: float) -> Generator[tuple[int, int], None, Calibration]:
    """Yield (done, total) of each release test; returns the Calibration.

    deflection: how far each region is pulled, in parts of its size.
    """
    try:
        return (yield from _search(simulation, deflection))
    except StepError as error:
        raise _failed(simulation, error) from error


def release_test(simulation: Simulation, deflection: float) -> Generator[tuple[int, int], None, SettleCurve]:
    """One release test with the dials as they are, like calibrate(); returns the curve that misses Settle most."""
    settings = simulation.scene.body.settings
    try:
        still, start = _deflected(simulation, deflection)
        return _worst((yield from _test(simulation, settings, still, start)), settings)
    except StepError as error:
        raise _failed(simulation, error) from error


def _failed(simulation: Simulation, error: StepError) -> DampSimError:
    name = simulation.scene.body.surface.name
    return DampSimError(f"{name}: the release test failed ({error}) Pull it less far, or raise Stiffness.")


def _deflected(simulation: Simulation, deflection: float) -> tuple[Still, State]:
    """The body as it hangs, and pulled aside by that part of the size of its smallest region."""
    scene = simulation.scene
    name, settings = scene.body.surface.name, scene.body.settings
    if settings.damping_by != "DIALS":
        raise SceneError(f"{name}: a release test measures Settle; dial the damping by Settle and Bounce.")
    if not simulation.held or not simulation.model.system.regions:
        raise PinError(f"{name}: nothing holds all of it, so it never rests in the air; choose a pin group.")
    stiffness = simulation.controls(settings).stiffness
    sampled = simulation.sampled(scene.first)
    targets = simulation.model.pins(sampled.animated[-1])
    state = simulation.settled_pose(sampled.animated[-1], stiffness)
    still = Still(simulation.model.system, state, PinMotion(targets, targets), stiffness)
    size = min(float(np.ptp(still.system.rest[r.free], axis=0).max()) for r in still.system.regions)
    return still, pulled(still, deflection * size)


def _worst(curves: list[SettleCurve], settings: Settings) -> SettleCurve:
    return curves[int(np.argmax([abs(curve.rest - settings.settle) for curve in curves]))]


def _search(simulation: Simulation, deflection: float) -> Generator[tuple[int, int], None, Calibration]:
    settings = simulation.scene.body.settings
    still, start = _deflected(simulation, deflection)
    least, most = PARAMETERS["calibration"].least, PARAMETERS["calibration"].most
    tried: list[tuple[float, float, SettleCurve]] = []
    correction = 1.0
    for _ in range(_MOST):
        trial = replace(settings, calibration=correction)
        curves = yield from _test(simulation, trial, still, start)
        rests = [curve.rest for curve in curves]
        miss = max(abs(rest - settings.settle) for rest in rests)
        tried.append((miss, correction, _worst(curves, settings)))
        if miss <= _CLOSE:
            break
        # Regions that miss to both sides are balanced; one that does not rest within the test is slow.
        middle = 0.5 * (min(rests) + min(max(rests), 2.0 * _WATCHED * settings.settle))
        following = correction * settings.settle / middle
        if any(abs(following - known) < 1e-3 * known for _, known, _ in tried):
            # A swing more or less makes the rest time jump: between two tries it can only be halved.
            following = 0.5 * (following + tried[0][1])
        correction = float(f"{min(max(following, least), most):.6g}")
    best = min(tried, key=lambda one: one[0])
    return Calibration(best[1], tried[0][2], best[2])


def _test(
    simulation: Simulation, trial: Settings, still: Still, start: State
) -> Generator[tuple[int, int], None, list[SettleCurve]]:
    """The curve of each region."""
    substeps = simulation.substeps(trial)
    frame_time = 1.0 / simulation.scene.fps
    count = int(np.ceil((_WATCHED * trial.settle + 6.0) * substeps.count))
    steps = watch(still, start, simulation.controls(trial), frame_time / substeps.count, count, substeps)
    while True:
        try:
            yield next(steps), count
        except StopIteration as end:
            releases: list[Release] = end.value
            break
    return [
        released_curve(release, law, simulation.scene.fps, trial.settle, trial.overshoot)
        for release, law in zip(releases, simulation.controls(trial).laws, strict=True)
    ]
