"""A search begins with what the last step told of the Hessian (docs/physics.md section 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_ways import rod, shaken

from builders import gridded, scene, still
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping.step_problem import StepProblem
from shapes import tube


def shot(body: Body, last: int = 16) -> Scene:
    return Scene((body,), 24.0, np.array([0.0, 0.0, -9.81]), 1, last)


def told(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> list[tuple[StepProblem, np.ndarray, np.ndarray, np.ndarray]]:
    """Of each step of a shot that begins with a secant: the problem, where its search begins, the way, the change."""
    found, plain = [], StepProblem.secant

    def spied(problem: StepProblem, v: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        pair = plain(problem, v)
        if pair is not None:
            found.append((problem, v, *pair))
        return pair

    monkeypatch.setattr(StepProblem, "secant", spied)
    list(Simulation(scene).frames())
    monkeypatch.setattr(StepProblem, "secant", plain)
    return found


def cube(**more: float) -> Body:
    """A tenth as stiff at its middle as at its pins, a hundredth at its top."""
    surface = gridded("Cube", (0, 0, 0), (1, 1, 1), 0.125)
    pins = (surface.vertices[:, 2] < 0.3).astype(float)
    body = shaken(still(surface, pins, **{"resolution": 1500, "stiffness": 300.0, "bounce": 0.0, **more}))
    return replace(body, stiffness_map=1.0 - surface.vertices[:, 2])


def turned_block() -> Body:
    """As heavy to follow as it gets: its pins turn by two rounds a second and shake."""
    surface = tube(0.6, 0.3, 8, 10)
    pins = (surface.vertices[:, 2] < 0.1).astype(float)

    def motion(frame: float) -> np.ndarray:
        c, s = np.cos(0.5 * frame), np.sin(0.5 * frame)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        return surface.vertices @ turn.T + np.array([0.1 * np.sin(0.4 * frame), 0.0, 0.0])

    return still(surface, pins, motion, resolution=700, stiffness=100.0, bounce=30.0)


@pytest.mark.parametrize("body", [cube, turned_block])
def test_it_is_how_the_gradient_changes_along_the_last_way(
    monkeypatch: pytest.MonkeyPatch, body: Callable[[], Body]
) -> None:
    pairs = told(monkeypatch, shot(body()))
    assert len(pairs) >= 4
    for problem, v, way, change in pairs:
        if np.abs(way).max() < 1e-3:
            continue
        exact = float(way.ravel() @ (problem.hessian(v, False) @ way.ravel()))
        # A secant of the last step, not the tangent of this one: what a step's own bend makes of the stiffness.
        assert abs(float(np.vdot(way, change)) - exact) < 0.1 * exact


@pytest.mark.slow
def test_what_goes_on_as_it_went_takes_a_twentieth_fewer_iterations_by_it_and_come_to_the_same_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = cube()
    exact = replace(body, settings=replace(body.settings, accuracy="TIGHT"))
    runs = [list(Simulation(shot(one)).frames()) for one in (body, exact)]
    monkeypatch.setattr(StepProblem, "secant", lambda *_: None)
    without = [list(Simulation(shot(one)).frames()) for one in (body, exact)]
    counts = [sum(frame.iterations for frame in one[0]) for one in (runs, without)]
    assert 20 * counts[0] < 19 * counts[1]
    for one, other in zip(runs[1], without[1], strict=True):
        # Solved to 1e-8 of each step's motion, both are the same minima.
        np.testing.assert_allclose(one.surface, other.surface, atol=1e-7)


def test_a_slender_body_whose_prediction_stretches_it_begins_without(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 15 steps, those at the turning points, where a prediction hardly leads anywhere.
    assert len(told(monkeypatch, shot(rod()))) <= 5


def test_what_nothing_holds_begins_without_since_no_direction_may_change_its_momenta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    surface = tube(0.6, 0.3, 6, 8)
    loose = still(surface, np.zeros(len(surface.vertices)), resolution=400, stiffness=50.0)
    assert not told(monkeypatch, scene(loose, last=6))
