"""Slack folds of sheets rest on time, with the first mode (docs/decisions/0073)."""

from __future__ import annotations

from dataclasses import replace

import hanging_bodies
import numpy as np
import pytest

from animated import AnimatedBody
from builders import DOWN, scene
from dampsim.core.fields.field import ExternalForces, ForceField, ForceFieldShape, ForceFieldType
from dampsim.core.frames.frame import history_arrays, history_from_arrays
from dampsim.core.objective.slack_steering import (
    UNKNOWN_SWING,
    SlackSwing,
    has_search,
    known_swings,
    next_slack_swing,
    relaxed_part,
    search_law,
)
from dampsim.core.scene.parameters import BounceBy
from dampsim.core.settle.first_mode import FirstModeLaw, first_mode_law
from dampsim.core.settle.keyed_curve import SwingMotion
from dampsim.core.settle.waveform import REST_FRACTION
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers import sheet as sheet_steps
from dampsim.core.system.state import State
from references import laws
from settle_cases import make_simulation

GRAVITY = np.array([0.0, 0.0, -9.81])


def slack_law(settle: float, overshoot: float) -> FirstModeLaw:
    return first_mode_law(settle, overshoot, 20.0, has_slack_modes=True, counts_from_stop=True)


def following_swing(law: FirstModeLaw, last: SlackSwing | None, h: float = 0.01, **more: object) -> SlackSwing:
    """Return the swing after a step without motion at the hanging shape."""
    given = {"acceleration": GRAVITY, "has_stopped": False, "is_outward": False, **more}
    return next_slack_swing(law, last, 0.0, 0.0, h=h, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("h", [1 / 12, 1 / 24, 1 / 240])
@pytest.mark.parametrize("way", [0.05, 0.1, 0.6])
def test_way_ends_at_rest(h: float, way: float) -> None:
    """The way to the equilibrium falls to the rest threshold in the time that is left, at any length of the steps."""
    swing, left, there = SlackSwing(3.0, 2.5, 1.0, 0.0, 4.0, GRAVITY), 1.0, way
    while left > h * (1.0 + 1e-9):
        part = relaxed_part(replace(swing, remaining_time=left), there, h)
        assert part == pytest.approx(laws.relaxed_part(there, 1.0, left, h), rel=1e-9)
        there, left = there * (1.0 - part), left - h
    assert there == pytest.approx(REST_FRACTION * (way / REST_FRACTION) ** (left / 1.0), rel=1e-9)
    assert relaxed_part(replace(swing, remaining_time=h), there, h) == 1.0


def test_bounds_of_relaxation() -> None:
    """The decay is that of the law for an invisible way, at least a tenth of it, and at most ten times."""
    swing = SlackSwing(1.0, 2.5, np.inf, 0.5, 4.0, GRAVITY)
    assert relaxed_part(swing, 0.009, 0.1) == pytest.approx(1.0 - np.exp(-0.4))
    assert relaxed_part(swing, 0.0101, 0.1) == pytest.approx(1.0 - np.exp(-0.1 * 0.4))
    assert relaxed_part(replace(swing, remaining_time=0.101), 0.9, 0.1) == pytest.approx(1.0 - np.exp(-10.0 * 0.4))
    # The largest deflection from the hanging shape is the size of the swing, but not the path of the fastest nodes.
    assert relaxed_part(replace(swing, path=50.0, largest=1.0), 0.009, 0.1) == pytest.approx(1.0 - np.exp(-0.4))


@pytest.mark.parametrize("overshoot", [0.0, 0.006, 0.1, 0.6])
def test_rest_phase_matches_law(overshoot: float) -> None:
    """At the rest phase the response of a release is at the threshold for the last time."""
    law = slack_law(1.3, overshoot)
    assert law.rest_phase / law.decay + law.time_to_peak == pytest.approx(1.3, rel=1e-9)
    after = np.linspace(law.rest_phase / law.decay, 5.0, 2000)[1:]
    assert np.abs(law.release_response(after)).max() <= REST_FRACTION
    if overshoot > 0.01:
        last = law.last_swing_phase / law.decay
        assert abs(float(law.release_response(last))) > REST_FRACTION
        around = law.release_response(last + np.array([-1e-4, 1e-4]))
        np.testing.assert_allclose(around, law.release_response(last), rtol=1e-5)


def test_swing_begins_anew() -> None:
    """Stops, other forces and another acceleration begin a new swing; a stop counts from the largest deflection."""
    law, h = slack_law(1.0, 0.1), 0.01
    last = SlackSwing(0.3, 3.0, 2.0, np.inf, law.decay, GRAVITY)
    assert following_swing(law, last).phase == pytest.approx(3.0 + h * law.decay)
    for one in (
        following_swing(law, None),
        following_swing(law, UNKNOWN_SWING),
        following_swing(law, last, acceleration=2.0 * GRAVITY),
    ):
        assert one.phase == pytest.approx(h * law.decay)
    stopped = following_swing(law, last, has_stopped=True)
    assert stopped.phase == pytest.approx((h - law.time_to_peak) * law.decay)


@pytest.mark.parametrize(("move", "can_search"), [(0.0, True), (0.05, False)])
def test_search_at_tempo_awaits_turn(move: float, can_search: bool) -> None:
    """At another tempo, a search begins only where the swing turns. move: of a node in the last step, m."""
    law, h = slack_law(1.0, 0.3), 0.01
    late = SlackSwing(1.0, law.last_swing_phase + 0.01, 0.1, np.inf, law.decay, GRAVITY, tempo=0.8)
    motion = SwingMotion(np.array([[0.1, 0.0, 0.0]]), np.array([[move, 0.0, 0.0]]), np.ones(1), h)
    swing = next_slack_swing(law, late, 1.0, 0.1, GRAVITY, h, False, False, motion=motion)
    assert np.isfinite(swing.remaining_time) == can_search
    # Without a key, the phase says when it turns.
    swing = next_slack_swing(law, replace(late, tempo=1.0), 1.0, 0.1, GRAVITY, h, False, False, motion=motion)
    assert np.isfinite(swing.remaining_time)


def test_search_begins_after_last_swing() -> None:
    """Steps search the equilibrium once the last visible swing has turned, and then go on to do so."""
    law = slack_law(1.0, 0.3)
    before, after = (
        SlackSwing(1.0, law.last_swing_phase + off, 1.0, np.inf, law.decay, GRAVITY) for off in (-0.01, 0.01)
    )
    assert search_law(law, following_swing(law, before), 0.01) is law
    assert search_law(law, following_swing(law, after, is_outward=True), 0.01) is law
    begun = following_swing(law, after)
    assert begun.remaining_time == pytest.approx((law.rest_phase - after.phase) / law.decay)
    assert search_law(law, begun, 0.01).frequency == 0.0
    assert following_swing(law, begun, is_outward=True).remaining_time < begun.remaining_time
    # So does a key of Bounce whose last visible swing would turn later.
    bouncy = slack_law(1.0, 0.6)
    assert bouncy.last_swing_phase > begun.phase
    assert np.isfinite(following_swing(bouncy, begun, former=law).remaining_time)
    # A sheet that moves away from its hanging shape into other folds does not turn.
    away = replace(before, phase=0.51 * law.rest_phase + 0.5 * law.last_swing_phase)
    assert following_swing(law, away, is_outward=True).remaining_time < np.inf


def flag(pins: str, **dials: object) -> AnimatedBody:
    """Return a square metre of cloth that hangs from its corners or from the middle of its edge."""
    across = hanging_bodies.flag(8).surface.vertices
    top, x = across[:, 2] > -1e-9, across[:, 0]
    held = {"corners": top & (np.abs(x - 0.5) > 0.499), "cape": top & (np.abs(x - 0.5) < 0.25)}[pins]
    return hanging_bodies.flag(8, pins=held.astype(float), **dials)  # type: ignore[return-value]


def course_of_release(body: AnimatedBody, fps: float, pull: tuple[float, float, float]) -> tuple[np.ndarray, float]:
    """Return the largest distance (k,) from the last shape at each frame, over the largest, and the lead in frames."""
    settle = body.settings.settle
    start = make_simulation(body, fps, 2, DOWN + np.array(pull)).first_frame().state
    simulation = make_simulation(body, fps, int(1.7 * settle) + 6, DOWN)
    run = simulation.frames(replace(simulation.first_frame(), state=State.at_rest(start.positions)))
    ways = np.array([start.positions, *(one.state.positions for one in run)])
    distance = np.linalg.norm(ways - ways[-1], axis=2).max(axis=1)
    lead = simulation.dials.release_law(0, body.settings).time_to_peak * fps
    return np.asarray(distance / distance.max()), lead


# Without steering, the cape does not rest within 40 frames, and the corners rest after 24 frames.
@pytest.mark.parametrize("has_kernel", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("pins", "bounce_by"), [("cape", BounceBy.NATURAL), ("corners", BounceBy.DIALLED)])
def test_slack_folds_rest_on_time(
    pins: str, bounce_by: BounceBy, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capes and sheets on two corners rest at Settle, with and without the kernel, and no fold jumps there."""
    if not has_kernel:
        monkeypatch.setattr(sheet_steps, "load_library", lambda: None)
    course, lead = course_of_release(flag(pins, settle=20.0, bounce_by=bounce_by), 24.0, (3.0, 5.0, 1.0))
    last = int(np.flatnonzero(course > REST_FRACTION)[-1])
    rest = last + (course[last] - REST_FRACTION) / (course[last] - course[last + 1]) + lead
    assert rest == pytest.approx(20.0, abs=1.0)
    late = np.abs(np.diff(course))[int(0.8 * 20.0 - lead) :]
    assert late.max() < 0.5 * np.abs(np.diff(course)).max()


def test_swing_is_stored_in_frames() -> None:
    """The swing is part of the history, survives a stored frame, and is unknown in wind."""
    body = flag("cape", settle=8.0)
    simulation = make_simulation(body, 24.0, 10, DOWN)
    first = simulation.first_frame()
    pushed = replace(first, state=State.at_rest(first.state.positions + np.array([0.0, 0.0, 0.01])))
    for frame in simulation.frames(pushed):
        history = frame.state.history
        (swing,) = known_swings(history.block("Flag").steering, 1) or ()
        assert swing.path >= 0.0
        (again,) = known_swings(history_from_arrays(history_arrays(history)).block("Flag").steering, 1) or ()
        assert again == replace(swing, acceleration=again.acceleration)
        # Caches refuse other numbers.
        assert np.isfinite(SlackSwing.numbers([swing])).all()
    assert swing.remaining_time < np.inf
    numbers = SlackSwing.numbers([UNKNOWN_SWING, swing])
    assert [one.remaining_time for one in SlackSwing.read(numbers)] == [np.inf, swing.remaining_time]
    assert (has_search(numbers), has_search(numbers[:1]), has_search(None)) == (True, False, False)


def test_swing_is_unknown_in_wind() -> None:
    """Wind changes the equilibrium at each step, so it is not searched."""
    field = ForceField(ForceFieldType.WIND, ForceFieldShape.PLANE, np.eye(4)[:3, 3], np.eye(3)[1], 70.0)
    for fields, is_known in (((), True), ((field,), False)):
        forces = ExternalForces(DOWN, fields)
        body = flag("cape", settle=8.0, air=1.0, external_forces=lambda frame, forces=forces: forces)
        frame = list(Simulation(scene(body, last=3)).frames())[-1]
        (swing,) = known_swings(frame.state.history.block("Flag").steering, 1) or ()
        assert (swing.path >= 0.0) == is_known
