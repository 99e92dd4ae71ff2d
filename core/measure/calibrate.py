"""Calibration ([You] 4.1): release the body from its hanging shape, measure the rest time, and correct the dial."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..base.computation import map_steps
from ..base.errors import DampSimError, PinError, SceneError, StepError
from ..scene.parameters import PARAMETERS, Settings
from ..simulation.simulation import Simulation
from ..system.inputs import without_contact
from ..system.state import State
from .curve import SettleCurve, release_curve
from .release import EquilibriumState, deflect, run_release

# Tolerance of the measured rest time in frames, and the largest number of trials.
_REST_TOLERANCE = 0.4
_MAX_TRIALS = 5
# Duration of the release test relative to Settle; a few frames are added.
_TEST_DURATION = 1.5


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
    with _named_errors(body):
        return (yield from _search(simulation, body, deflection))


def release_test(simulation: Simulation, body: str, deflection: float) -> Generator[tuple[int, int], None, SettleCurve]:
    """Run one release test with the current dials, like calibrate(). Return the curve with the largest Settle error."""
    settings = simulation.scene.body(body).settings
    with _named_errors(body):
        equilibrium, start = _deflected_start(simulation, body, deflection)
        return _worst_curve((yield from _run_test(simulation, body, settings, equilibrium, start)), settings)


@contextlib.contextmanager
def _named_errors(body: str) -> Iterator[None]:
    try:
        yield
    except StepError as error:
        message = f"{body}: the release test failed ({error}) Reduce the deflection, or raise Stiffness."
        raise DampSimError(message) from error


def _deflected_start(simulation: Simulation, body: str, deflection: float) -> tuple[EquilibriumState, State]:
    """Return the body's equilibrium without contact, and its deflected state.

    deflection: relative to the size of its smallest region.
    """
    settings = simulation.scene.body(body).settings
    if not settings.is_settle_controlled:
        raise SceneError(f"{body}: a release test measures Settle. Control its damping by Settle and Bounce.")
    system = simulation.system_of(body)
    island, block = simulation.island_and_block(body)
    region_indices = system.regions_of(block)
    if not region_indices:
        raise PinError(f"{body}: it is completely pinned, so nothing can swing. Leave a part of it unpinned.")
    if not simulation.is_constrained(body):
        raise PinError(f"{body}: it is not completely held, so it never comes to rest. Choose a pin group.")
    factors = simulation.stiffness_factors(island)
    sample = simulation.sample_frame(simulation.scene.first).samples[-1]
    state = simulation.statics.solve_equilibrium(island, sample, factors, allow_sliding=True)
    # Friction at the deflected position would falsify the test.
    inputs = without_contact(simulation.pose_evaluator.stationary_inputs(simulation.islands[island], sample))
    equilibrium = EquilibriumState(system, state, inputs, factors)
    size = min(float(np.ptp(system.rest[system.regions[k].free], axis=0).max()) for k in region_indices)
    return equilibrium, deflect(equilibrium, deflection * size, region_indices)


def _worst_curve(curves: list[SettleCurve], settings: Settings) -> SettleCurve:
    return curves[int(np.argmax([abs(curve.rest - settings.settle) for curve in curves]))]


def _search(simulation: Simulation, body: str, deflection: float) -> Generator[tuple[int, int], None, Calibration]:
    settings = simulation.scene.body(body).settings
    equilibrium, start = _deflected_start(simulation, body, deflection)
    least, most = PARAMETERS["calibration"].min, PARAMETERS["calibration"].max
    trials: list[tuple[float, float, SettleCurve]] = []
    correction = 1.0
    for _ in range(_MAX_TRIALS):
        trial = replace(settings, calibration=correction)
        curves = yield from _run_test(simulation, body, trial, equilibrium, start)
        rests = [curve.rest for curve in curves]
        largest_error = max(abs(rest - settings.settle) for rest in rests)
        trials.append((largest_error, correction, _worst_curve(curves, settings)))
        if largest_error <= _REST_TOLERANCE:
            break
        # Balance regions that miss in both directions. A region that does not come to rest within the test counts as
        # slow.
        middle_rest = 0.5 * (min(rests) + min(max(rests), 2.0 * _TEST_DURATION * settings.settle))
        next_correction = correction * settings.settle / middle_rest
        if any(abs(next_correction - known) < 1e-3 * known for _, known, _ in trials):
            # The rest time jumps where the number of visible swings changes. Between two trials, only bisection is
            # left.
            next_correction = 0.5 * (next_correction + trials[0][1])
        correction = float(f"{min(max(next_correction, least), most):.6g}")
    best = min(trials, key=lambda one: one[0])
    return Calibration(best[1], trials[0][2], best[2])


def _run_test(
    simulation: Simulation, body: str, trial: Settings, equilibrium: EquilibriumState, start: State
) -> Generator[tuple[int, int], None, list[SettleCurve]]:
    """Run a release test and return the curve of each region."""
    scene = simulation.scene
    settings = tuple(trial if one.name == body else one.settings for one in scene.bodies)
    substeps, substep_count = simulation.substeps(body, trial), simulation.dials.max_substeps(settings)
    law = simulation.dials.release_law(scene.body_index(body), trial)
    frame_time = 1.0 / scene.fps
    step_count = int(np.ceil((_TEST_DURATION * trial.settle + 6.0) * substep_count))
    controls = simulation.controls(settings)[simulation.island_and_block(body)[0]]
    steps = run_release(equilibrium, start, controls, frame_time / substep_count, step_count, substeps)
    releases = yield from map_steps(steps, lambda done: (done, step_count))
    bounce = simulation.dials.bounce(scene.body_index(body), trial)
    return [release_curve(release, law, scene.fps, trial.settle, bounce) for release in releases]
