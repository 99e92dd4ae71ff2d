"""Warm start: a search begins with a secant of the Hessian from the last step.

See docs/explanation/physics/01-step-potential.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_displacement_criterion import rod, with_sway

from animated import AnimatedScene
from builders import gridded_box, scene, static_body
from dampsim.core.objective.step_problem import StepProblem
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.simulation import Simulation
from shapes import tube


def shot(body: Body, last: int = 16) -> Scene:
    return AnimatedScene((body,), 24.0, np.array([0.0, 0.0, -9.81]), 1, last)


def secant_steps(
    monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> list[tuple[StepProblem, np.ndarray, np.ndarray, np.ndarray]]:
    """Return problem, initial point, direction and gradient change of each step that starts with a secant."""
    found, plain = [], StepProblem.initial_secant

    def spied(problem: StepProblem, v: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        pair = plain(problem, v)
        if pair is not None:
            found.append((problem, v, *pair))
        return pair

    monkeypatch.setattr(StepProblem, "initial_secant", spied)
    list(Simulation(scene).frames())
    monkeypatch.setattr(StepProblem, "initial_secant", plain)
    return found


def cube(**more: float) -> Body:
    """Return a cube whose stiffness falls to a tenth at mid-height and to a hundredth at its top."""
    surface = gridded_box("Cube", (0, 0, 0), (1, 1, 1), 0.125)
    pins = (surface.vertices[:, 2] < 0.3).astype(float)
    body = with_sway(static_body(surface, pins, **{"resolution": 1500, "stiffness": 300.0, "bounce": 0.0, **more}))
    return replace(body, stiffness_map=1.0 - surface.vertices[:, 2])


def rotating_block() -> Body:
    """Return a block whose pins rotate twice per second and shake, which is hard to predict."""
    surface = tube(0.6, 0.3, 8, 10)
    pins = (surface.vertices[:, 2] < 0.1).astype(float)

    def motion(frame: float) -> np.ndarray:
        c, s = np.cos(0.5 * frame), np.sin(0.5 * frame)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        return surface.vertices @ turn.T + np.array([0.1 * np.sin(0.4 * frame), 0.0, 0.0])

    return static_body(surface, pins, motion, resolution=700, stiffness=100.0, bounce=30.0)


@pytest.mark.parametrize("body", [cube, rotating_block])
def test_secant_matches_gradient_change(monkeypatch: pytest.MonkeyPatch, body: Callable[[], Body]) -> None:
    """The secant of the last step approximates the change of the gradient along that step."""
    pairs = secant_steps(monkeypatch, shot(body()))
    assert len(pairs) >= 4
    for problem, v, way, change in pairs:
        if np.abs(way).max() < 1e-3:
            continue
        exact = float(way.ravel() @ (problem.hessian(v, False) @ way.ravel()))
        # The secant of the last step differs from this step's tangent by the deformation of one step.
        assert abs(float(np.vdot(way, change)) - exact) < 0.1 * exact


@pytest.mark.slow
def test_secant_saves_iterations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The secant saves at least 5% of the iterations of a smooth motion and does not change its frames."""
    body = cube()
    exact = replace(body, settings=replace(body.settings, accuracy="TIGHT"))
    runs = [list(Simulation(shot(one)).frames()) for one in (body, exact)]
    monkeypatch.setattr(StepProblem, "initial_secant", lambda *_: None)
    without = [list(Simulation(shot(one)).frames()) for one in (body, exact)]
    counts = [sum(frame.iterations for frame in one[0]) for one in (runs, without)]
    assert 20 * counts[0] < 19 * counts[1]
    for one, other in zip(runs[1], without[1], strict=True):
        # Both solve for the same minima, to 1e-8 of each step's motion.
        np.testing.assert_allclose(one.surface, other.surface, atol=1e-7)


def test_stretching_prediction_skips_secant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slender body whose prediction stretches it starts most steps without a secant."""
    # Of 15 steps, only those at the turning points, where the prediction hardly moves the body.
    assert len(secant_steps(monkeypatch, shot(rod()))) <= 5


def test_free_body_skips_secant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A free body starts without a secant, since no search direction may change its momenta."""
    surface = tube(0.6, 0.3, 6, 8)
    loose = static_body(surface, np.zeros(len(surface.vertices)), resolution=400, stiffness=50.0)
    assert not secant_steps(monkeypatch, scene(loose, last=6))
