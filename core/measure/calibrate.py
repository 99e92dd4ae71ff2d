"""Calibration ([You] 4.1): release the body from its hanging shape, measure the rest time, and correct the dial."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import DampSimError, PinError, SceneError, StepError
from ..scene.parameters import PARAMETERS, Settings
from ..simulation.simulation import Simulation
from ..system.inputs import in_the_air
from ..system.state import State
from .curve import SettleCurve, released_curve
from .release import Release, Still, pulled, watch

# Tolerance of the measured rest time in frames, and the largest number of trials.
_CLOSE = 0.4
_MOST = 5
# Duration of the release test relative to Settle; a few frames are added.
_WATCHED = 1.5


@dataclass(frozen=True)
class Calibration:
    """Result of a calibration.

    correction: for Settings.calibration.
    before, after: curves of the worst region without and with the correction.
    """

    correction: float
    before: SettleCurve
    after: SettleCurve


def calibrate(simulation: Simulation, body: str, deflection: float) -> Generator[tuple[int, int], None, Calibration]:
    """Calibrate Settle by release tests. Yield (done, total) for each test; return the Calibration.

    body: name of the tested body.
    deflection: of each of its regions, relative to the size of the smallest one.
    Raises SceneError or PinError if the body cannot be tested, and DampSimError if a step fails.
    """
    try:
        return (yield from _search(simulation, body, deflection))
    except StepError as error:
        raise _failed(body, error) from error


def release_test(simulation: Simulation, body: str, deflection: float) -> Generator[tuple[int, int], None, SettleCurve]:
    """Run one release test with the current dials, like calibrate(). Return the curve with the largest Settle error."""
    settings = simulation.scene.body(body).settings
    try:
        still, start = _deflected(simulation, body, deflection)
        return _worst((yield from _test(simulation, body, settings, still, start)), settings)
    except StepError as error:
        raise _failed(body, error) from error


def _failed(body: str, error: StepError) -> DampSimError:
    return DampSimError(f"{body}: the release test failed ({error}) Reduce the deflection, or raise Stiffness.")


def _deflected(simulation: Simulation, body: str, deflection: float) -> tuple[Still, State]:
    """Return the body's equilibrium without contact, and its deflected state.

    deflection: relative to the size of its smallest region.
    """
    settings = simulation.scene.body(body).settings
    if not settings.by_settle:
        raise SceneError(f"{body}: a release test measures Settle. Control its damping by Settle and Bounce.")
    system = simulation.system_of(body)
    island, block = simulation.place(body)
    own = system.regions_of(block)
    if not own:
        raise PinError(f"{body}: it is completely pinned, so nothing can swing. Leave a part of it unpinned.")
    if not simulation.is_held(body):
        raise PinError(f"{body}: it is not completely held, so it never comes to rest. Choose a pin group.")
    factors = simulation.factors(island)
    animated = simulation.sampled(simulation.scene.first).animated[-1]
    state = simulation.statics.settled_pose(island, animated, factors, slides=True)
    # Friction at the deflected position would falsify the test.
    inputs = in_the_air(simulation.posing.held(simulation.islands[island], animated))
    still = Still(system, state, inputs, factors)
    size = min(float(np.ptp(system.rest[system.regions[k].free], axis=0).max()) for k in own)
    return still, pulled(still, deflection * size, own)


def _worst(curves: list[SettleCurve], settings: Settings) -> SettleCurve:
    return curves[int(np.argmax([abs(curve.rest - settings.settle) for curve in curves]))]


def _search(simulation: Simulation, body: str, deflection: float) -> Generator[tuple[int, int], None, Calibration]:
    settings = simulation.scene.body(body).settings
    still, start = _deflected(simulation, body, deflection)
    least, most = PARAMETERS["calibration"].least, PARAMETERS["calibration"].most
    tried: list[tuple[float, float, SettleCurve]] = []
    correction = 1.0
    for _ in range(_MOST):
        trial = replace(settings, calibration=correction)
        curves = yield from _test(simulation, body, trial, still, start)
        rests = [curve.rest for curve in curves]
        miss = max(abs(rest - settings.settle) for rest in rests)
        tried.append((miss, correction, _worst(curves, settings)))
        if miss <= _CLOSE:
            break
        # Balance regions that miss in both directions. A region that does not come to rest within the test counts as
        # slow.
        middle = 0.5 * (min(rests) + min(max(rests), 2.0 * _WATCHED * settings.settle))
        following = correction * settings.settle / middle
        if any(abs(following - known) < 1e-3 * known for _, known, _ in tried):
            # The rest time jumps where the number of visible swings changes. Between two trials, only bisection is
            # left.
            following = 0.5 * (following + tried[0][1])
        correction = float(f"{min(max(following, least), most):.6g}")
    best = min(tried, key=lambda one: one[0])
    return Calibration(best[1], tried[0][2], best[2])


def _test(
    simulation: Simulation, body: str, trial: Settings, still: Still, start: State
) -> Generator[tuple[int, int], None, list[SettleCurve]]:
    """Run a release test and return the curve of each region."""
    scene = simulation.scene
    settings = tuple(trial if one.name == body else one.settings for one in scene.bodies)
    substeps, parts = simulation.substeps(body, trial), simulation.dials.most_substeps(settings)
    law = simulation.dials.released(scene.place_of(body), trial)
    frame_time = 1.0 / scene.fps
    count = int(np.ceil((_WATCHED * trial.settle + 6.0) * parts))
    controls = simulation.controls(settings)[simulation.place(body)[0]]
    steps = watch(still, start, controls, frame_time / parts, count, substeps)
    while True:
        try:
            yield next(steps), count
        except StopIteration as end:
            releases: list[Release] = end.value
            break
    bounce = simulation.dials.bounce(scene.place_of(body), trial)
    return [released_curve(release, law, scene.fps, trial.settle, bounce) for release in releases]
