"""Sheets, ropes and hair rest on time, whichever of their modes move (docs/decisions/0064)."""

from __future__ import annotations

from dataclasses import replace

import hanging_bodies
import numpy as np
import pytest

from animated import AnimatedBody
from builders import DOWN
from dampsim.core.frames.history_arrays import history_arrays, history_from_arrays
from dampsim.core.objective.inertia import retained_parts
from dampsim.core.objective.slack_steering import UNKNOWN_SWING, SlackSwing, next_slack_swing
from dampsim.core.settle.first_mode import FirstModeLaw, first_mode_law
from dampsim.core.settle.law import Coefficients
from dampsim.core.settle.support_modes import ContactEnvironment
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers.sheet import SheetProblem, SheetStepper
from dampsim.core.system.state import State
from settle_cases import make_simulation

STEPS = [(24, 1), (24, 2), (24, 8), (60, 4)]


def slack_law(settle: float, overshoot: float, eigenvalue: float = 20.0) -> FirstModeLaw:
    return first_mode_law(settle, overshoot, eigenvalue, has_slack_modes=True, counts_from_stop=True)


@pytest.mark.parametrize("overshoot", [0.0, 0.007])
@pytest.mark.parametrize(("fps", "substeps"), STEPS)
@pytest.mark.parametrize("tempo", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("is_direct", [False, True])
def test_motion_at_any_tempo_rests(overshoot: float, fps: int, substeps: int, tempo: float, is_direct: bool) -> None:
    """A motion that follows the law at another tempo rests on time. Without steering it misses by 1/tempo."""
    law, h = slack_law(1.0, overshoot), 1.0 / (fps * substeps)
    swing, time, speed, course = None, 0.0, 0.0, [1.0]
    while len(course) * h < 1.5:
        swing = next_slack_swing(law, swing, speed, abs(course[-1]) if is_direct else np.inf, h, False)
        time += tempo * swing.pace * h
        course.append(float(law.release_response(time)))
        speed = abs(course[-1] - course[-2]) / h
    last = int(np.flatnonzero(np.abs(course) > 0.01)[-1])
    rest = h * (last + (abs(course[last]) - 0.01) / (abs(course[last]) - abs(course[last + 1])))
    assert rest == pytest.approx(law.release_rest_time, rel=0.05)


@pytest.mark.parametrize("fps", [12, 24, 60])
def test_law_keeps_its_pace(fps: int) -> None:
    """A motion that follows the law without overshoot has a pace of 1."""
    law, swing, course = slack_law(1.0, 0.0), None, [1.0, 1.0]
    for _ in range(fps):
        swing = next_slack_swing(law, swing, (course[-2] - course[-1]) * fps, course[-1], 1.0 / fps, False)
        course.append(float(law.release_response((len(course) - 1) / fps)))
        assert swing.pace == pytest.approx(1.0, abs=0.01)


def test_new_swing_starts_anew() -> None:
    """A deflection beyond that of the swing begins a new one, once the swing has decayed."""
    law, fresh = slack_law(1.0, 0.0), SlackSwing(0.0, 0.01 * slack_law(1.0, 0.0).decay, 1.0, 0.5)
    last = SlackSwing(0.3, 3.0, 2.0, 0.4, 0.1, 2.9)
    assert next_slack_swing(law, last, 7.0, 0.5, 0.01, False) == fresh
    assert next_slack_swing(law, last, 7.0, 0.41, 0.01, False).pace == 2.0
    assert next_slack_swing(law, replace(last, phase=0.5), 7.0, 0.5, 0.01, False).pace == 2.0
    # After other forces have acted, the swing is unknown until the reference motion stops.
    assert next_slack_swing(law, UNKNOWN_SWING, 1.0, 0.5, 0.01, False) == UNKNOWN_SWING
    assert next_slack_swing(law, UNKNOWN_SWING, 1.0, 0.5, 0.01, True) == fresh


@pytest.mark.parametrize("overshoot", [0.1, 0.6])
@pytest.mark.parametrize("h", [1 / 24, 1 / 60, 1 / 240])
def test_all_modes_decay_alike(overshoot: float, h: float) -> None:
    """With a visible swing, all modes lose the same part per substep, and the first mode follows the law."""
    law = slack_law(1.5, overshoot, 37.0)
    c = law.coefficients(h)
    for ratio in (0.2, 1.0, 4.0, 100.0):
        q = h * c.inertia_time * law.eigenvalue * ratio
        # (1 + q) y'' - (1 + kappa + sigma q) y' + (kappa + sigma q) y = 0 of successive substeps
        roots = np.roots([1.0 + q, -(1.0 + c.kappa + c.sigma * q), c.kappa + c.sigma * q])
        assert np.prod(roots).real == pytest.approx(np.exp(-2.0 * law.decay * h), rel=1e-12)
        if ratio == 1.0:
            assert np.abs(roots - np.exp((-law.decay + 1j * law.frequency) * h)).min() < 1e-12


def test_stiff_motion_retains_less() -> None:
    """The retained force change is limited where the step does not resolve the motion; kappa then replaces it."""
    mass, s, sigma, q = np.array([2.0, 3.0]), 0.1, 0.9, 0.1
    coefficients = Coefficients(0.9, s, sigma=sigma, first_mode_stiffness_ratio=q)
    velocity = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]])
    inertial = mass[:, None] / s * velocity
    assert retained_parts(coefficients, mass, velocity, 0.99 * inertial) == pytest.approx((sigma, 0.9))
    assert retained_parts(coefficients, mass, velocity, 2.0 * inertial) == pytest.approx((sigma / 4, 0.9 + 0.675 * q))
    assert retained_parts(replace(coefficients, kappa=0.95), mass, velocity, 1e3 * inertial)[1] == 1.0
    assert retained_parts(coefficients, mass, 0.0 * velocity, 0.0 * inertial) == pytest.approx((sigma, 0.9))


def flag(pins: str = "edge", **dials: object) -> AnimatedBody:
    """Return a square metre of cloth that hangs from its edge, its corners or the middle of its edge."""
    across = hanging_bodies.flag(8).surface.vertices
    top, x = across[:, 2] > -1e-9, across[:, 0]
    held = {"edge": top, "corners": top & (np.abs(x - 0.5) > 0.499), "cape": top & (np.abs(x - 0.5) < 0.25)}[pins]
    return hanging_bodies.flag(8, pins=held.astype(float), **{"bounce_by": "DIALLED", **dials})  # type: ignore[return-value]


def pulled(body: AnimatedBody, fps: float, frames: int, pull: tuple[float, float, float]) -> tuple[Simulation, State]:
    """Return a simulation, and the state at rest under a pull in m/s^2 besides gravity."""
    start = make_simulation(body, fps, 2, DOWN + np.array(pull)).first_frame().state
    return make_simulation(body, fps, frames, DOWN), State.at_rest(start.positions)


def course_of_release(body: AnimatedBody, fps: float, frames: int, pull: tuple[float, float, float]) -> np.ndarray:
    """Return the largest distance (k,) from the last shape at each frame, over the first."""
    simulation, state = pulled(body, fps, frames, pull)
    first = simulation.first_frame()
    run = simulation.frames(replace(first, state=state))
    ways = np.array([state.positions, *(one.state.positions for one in run)])
    distance = np.linalg.norm(ways - ways[-1], axis=2).max(axis=1)
    return np.asarray(distance / distance[0])


def rest_frame(course: np.ndarray) -> float:
    last = int(np.flatnonzero(course > 0.01)[-1])
    return last + float((course[last] - 0.01) / (course[last] - course[last + 1]))


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("fps", "substeps"),
    [(24, 1), pytest.param(12, 4, marks=pytest.mark.slow), pytest.param(60, 2, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("bounce", [30.0, 60.0])
def test_bouncing_flag_rests_on_time(fps: int, substeps: int, bounce: float) -> None:
    """With Bounce 60 at 24 fps it rested 30% early, since a substep damped more than the dials."""
    body = flag(settle=float(fps), bounce=bounce, substeps=substeps)
    course = course_of_release(body, fps, int(1.7 * fps), (0.0, 1.5, 0.0))
    lead = fps * slack_law(1.0, bounce / 100.0).time_to_peak
    assert rest_frame(course) + lead == pytest.approx(fps, rel=0.05)


@pytest.mark.kernel
@pytest.mark.parametrize(("pins", "pull"), [("cape", (1.0, 3.0, 1.0)), ("corners", (0.5, 4.0, 2.0))])
def test_slack_sheet_rests_on_time(pins: str, pull: tuple[float, float, float]) -> None:
    """Slack parts are slower than the first mode, and rested up to 80% late."""
    course = course_of_release(flag(pins, settle=24.0, bounce=0.0, substeps=2), 24.0, 48, pull)
    assert rest_frame(course) == pytest.approx(24.0, abs=1.2)


@pytest.mark.kernel
def test_far_bounce_does_not_grow() -> None:
    """A violent release never swings out farther than it began. With all of the force change retained it did."""
    course = course_of_release(flag(settle=33.0, bounce=60.0, substeps=2), 30.0, 60, (0.5, 6.0, 0.0))
    assert course[1:].max() < 1.0


def test_moving_pins_are_not_steered() -> None:
    body = flag("cape", settle=12.0, bounce=0.0)
    surface = body.surface
    way = np.array([0.0, 0.02, 0.0])
    moving = replace(body, motion=lambda frame: surface.vertices + way * min(frame, 8.0) ** 1.5)
    simulation = make_simulation(moving, 24.0, 16, DOWN)
    name = simulation.islands[0].system.name
    swings = {}
    for frame in simulation.frames(simulation.first_frame()):
        numbers = frame.state.history.block(name).steering
        assert numbers is not None
        swings[frame.number] = SlackSwing.read(numbers[0])
    assert all(swings[k] == UNKNOWN_SWING for k in range(3, 9))
    assert swings[16].path > 0.0


@pytest.mark.parametrize("case", ["held", "free", "touched"])
def test_free_and_touched_keep_no_force(case: str) -> None:
    """Free pieces, whose momenta are physical, and touched ones keep no change of the elastic force."""
    body = flag(settle=24.0, bounce=30.0)
    if case == "free":
        body = replace(body, pins=np.zeros(len(body.surface.vertices)))
    simulation = make_simulation(body, 24.0, 2, DOWN)
    (island,), (controls,) = simulation.islands, simulation.controls()
    inputs = simulation.pose_evaluator.stationary_inputs(island, simulation.sample_frame(1).samples[-1])
    environment = ContactEnvironment(touched_regions=frozenset({0} if case == "touched" else ()))
    state, h = simulation.first_frame().state, 1.0 / 24.0
    problem = SheetProblem(SheetStepper(island.system), state, inputs, h, controls, environment=environment)
    law = controls.laws[0]
    expected = law.coefficients(h) if case == "held" else law.fallback_coefficients(h)
    assert problem._coefficients == [expected]
    assert (expected.sigma > 0.0) == (case == "held")


def test_resume_is_identical() -> None:
    """A run that continues from stored history gives the same bytes."""
    simulation, state = pulled(flag("cape", settle=16.0, bounce=0.0), 24.0, 16, (0.5, 3.0, 0.5))
    frames = list(simulation.frames(replace(simulation.first_frame(), state=state)))
    middle, name = frames[7], simulation.islands[0].system.name
    assert abs(SlackSwing.read(middle.state.history.block(name).steering[0]).pace - 1.0) > 0.05  # type: ignore[index]
    stored = history_from_arrays(history_arrays(middle.state.history))
    *_, last = simulation.frames(replace(middle, state=replace(middle.state, history=stored)))
    assert last.state.positions.tobytes() == frames[-1].state.positions.tobytes()
