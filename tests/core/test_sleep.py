"""Sleep of bodies at rest: the same frames for less computing time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import DOWN, bar, scene
from dampsim.core.frames.frame import Frame
from dampsim.core.literature.papers.compare import bar as clamped_bar
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import TOLERANCES, Settings
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.waveform import settle_law
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers import implicit as stepping
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State

SIZE = 1.0


def count_evaluations(count: int, moving: bool, tolerance: float) -> int:
    """Return the number of evaluations in count steps after a jerk, with pins that stand still or keep shaking."""
    system = clamped_bar((2, 1, 1), gravity=DOWN)
    stepper, state, total = Stepper(system), State.at_rest(system.rest), 0
    dials = Controls((settle_law(0.25, 0.3, system.regions[0].eigenvalue),), 1.0, tolerance)
    rest = place = system.rest[system.pinned]
    for k in range(count):
        start, place = place, rest + np.array([0.0, 0.05 * np.sin(0.5 * k) if moving or k < 5 else 0.0, 0.0])
        state, report = stepper.step(state, (BlockInputs(start, place),), 1 / 48, dials)
        total += report.evaluations
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "accuracy"),
    [
        (1000, "BAKE"),
        pytest.param(5000, "BAKE", marks=pytest.mark.slow),
        *(pytest.param(1000, accuracy, marks=pytest.mark.slow) for accuracy in ("PREVIEW", "TIGHT")),
    ],
)
def test_still_frames_cost_less(count: int, accuracy: str) -> None:
    """Frames at rest cost less than a tenth of moving ones."""
    tolerance = TOLERANCES[accuracy]
    quiet, busy = (count_evaluations(count, moving, tolerance) for moving in (False, True))
    assert busy >= count
    # The body falls asleep a few settle times of 12 steps after the jerk.
    assert quiet < 0.1 * busy
    assert quiet == count_evaluations(count // 2, False, tolerance)


def shaken_bar(**more: Any) -> Body:
    """Return a bar that is shaken in frames 1 to 6 and again from frame 90 on."""
    dials = {"resolution": 100, "stiffness": 1000.0, "settle": 8.0, "bounce": 30.0, **more}
    body = bar("Bar", 0.0, SIZE, True, **dials)

    def motion(frame: float) -> np.ndarray:
        time = min(frame, 6.0) + max(frame - 90.0, 0.0)
        return body.surface.vertices + np.array([0.0, 0.05 * np.sin(time), 0.03 * time])

    return replace(body, motion=motion)


def simulate(body: Body, last: int = 110) -> list[Frame]:
    return list(Simulation(scene(body, last=last)).frames())


def largest_deviation(first: list[Frame], second: list[Frame]) -> float:
    return max(float(np.abs(a.state.positions - b.state.positions).max()) for a, b in zip(first, second, strict=True))


def with_dials(body: Body, changed: Callable[[Settings, float], Settings]) -> Body:
    return replace(body, settings_by_frame=lambda frame: changed(body.settings, frame))


DIAL_CHANGES: dict[str, Callable[[Settings, float], Settings]] = {
    "nothing": lambda own, frame: own,
    "stiffness": lambda own, frame: replace(own, stiffness=own.stiffness * (1.0 if frame < 70 else 2.0)),
    "settle": lambda own, frame: replace(own, settle=8.0 if frame < 70 else 16.0),
    "bounce": lambda own, frame: replace(own, bounce=30.0 if frame < 70 else 0.0),
    "follow-through": lambda own, frame: replace(own, follow_through=1.0 if frame < 70 else 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", ["BAKE", pytest.param("TIGHT", marks=pytest.mark.slow)])
@pytest.mark.parametrize("keyed", DIAL_CHANGES)
def test_frames_match_without_sleep(keyed: str, accuracy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = with_dials(shaken_bar(accuracy=accuracy), DIAL_CHANGES[keyed])
    asleep = simulate(body)
    monkeypatch.setattr(stepping, "is_asleep", lambda *args: False)
    awake = simulate(body)
    # The body slept, and woke when it was shaken again or when its stiffness changed.
    slept = [frame.number for frame in asleep if frame.iterations == 0]
    assert {60, 66, 69} <= set(slept)
    assert (75 in slept) == (keyed != "stiffness")
    assert not {91, 95, 100} & set(slept)
    # Sleep begins when a step is below 1e-8 of the size, a few such steps before rest.
    assert largest_deviation(asleep, awake) < 1e-6 * SIZE


def test_sleeping_body_is_bit_identical() -> None:
    found = simulate(shaken_bar(), last=85)
    still = [frame for frame in found if frame.iterations == 0][5:]
    assert len(still) > 20
    assert len({frame.state.positions.tobytes() for frame in still}) == 1
    assert not still[-1].state.velocities.any()


@pytest.mark.slow
@pytest.mark.parametrize("number", [4, 20, 60, 95])
def test_resumed_shot_has_same_bytes(number: int) -> None:
    body = shaken_bar()
    whole = simulate(body)
    rest = list(Simulation(scene(body, last=110)).frames(whole[number - 1]))
    assert [frame.number for frame in rest] == list(range(number + 1, 111))
    for one, other in zip(rest, whole[number:], strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()
        assert one.state.velocities.tobytes() == other.state.velocities.tobytes()


def test_keyed_stiffness_wakes_body() -> None:
    """A stiffness that changes while the body sleeps leads to the sag of the new stiffness."""
    body = shaken_bar(accuracy="TIGHT")
    end = simulate(with_dials(body, lambda own, frame: replace(own, stiffness=1000.0 if frame < 40 else 2000.0)), 89)[
        -1
    ]
    stiff = Simulation(
        scene(replace(shaken_bar(stiffness=2000.0), motion=lambda frame: body.vertices_at(6.0)))
    ).first_frame()
    sag = np.abs(stiff.shapes["Bar"] - body.vertices_at(6.0)).max()
    assert sag > 0.01
    # Surfaces are stored in single precision; the static tolerance is 1e-9 of the size.
    assert np.abs(end.shapes["Bar"] - stiff.shapes["Bar"]).max() < 1e-6 * SIZE
