"""Displacement criterion: a step stops when the remaining displacement is invisible, physics (1.6).

See docs/decisions/0025.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from animated import AnimatedScene
from builders import gridded_box, static_body
from dampsim.core.objective.step_problem import StepProblem
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.displacement_criterion import DisplacementCriterion
from dampsim.core.solvers.lbfgs import minimise_lbfgs
from dampsim.core.solvers.objective import Minimum, Tolerance
from shapes import tube

# Tolerance of the accuracy Bake.
BAKE_TOLERANCE = 1e-3


def with_sway(body: Body) -> Body:
    rest = body.surface.vertices

    def motion(frame: float) -> np.ndarray:
        return rest + np.array([0.15 * np.sin(0.4 * frame), 0.0, 0.0])

    return replace(body, motion=motion)


def block(**more: float) -> Body:
    surface = gridded_box("Block", (0, 0, 0), (0.6, 0.6, 1.2), 0.1)
    pins = (surface.vertices[:, 2] < 1e-6).astype(float)
    return with_sway(static_body(surface, pins, **{"resolution": 1200, "stiffness": 200.0, **more}))


def block_with_stiffness_map(**more: float) -> Body:
    body = block(**{"stiffness": 300.0, **more})
    return replace(body, stiffness_map=1.0 - body.surface.vertices[:, 2] / 1.2)


def rod(**more: float) -> Body:
    """Return an upright rod, 40 times as long as thick."""
    surface = tube(2.0, 0.05, 40, 12)
    pins = (surface.vertices[:, 2] < surface.vertices[:, 2].min() + 0.11).astype(float)
    return with_sway(static_body(surface, pins, **{"resolution": 1200, "stiffness": 3e5, **more}))


def relative_error(body: Body, last: int = 24) -> float:
    """Return the largest distance of a vertex from the frames solved to rounding, over the largest motion."""
    scene = AnimatedScene((body,), 24.0, np.array([0.0, 0.0, -9.81]), 1, last)
    exact = replace(body, settings=replace(body.settings, accuracy="TIGHT"))
    off, way, first = 0.0, 0.0, None
    both = Simulation(scene).frames(), Simulation(replace(scene, bodies=(exact,))).frames()
    for one, other in zip(*both, strict=True):
        off = max(off, float(np.linalg.norm(one.surface - other.surface, axis=1).max()))
        here = other.surface - body.vertices_at(other.number)
        first = here if first is None else first
        way = max(way, float(np.linalg.norm(here - first, axis=1).max()))
    return off / way


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "body", [rod, pytest.param(block, marks=SLOW), pytest.param(block_with_stiffness_map, marks=SLOW)]
)
@pytest.mark.parametrize("bounce", [0.0, pytest.param(40.0, marks=SLOW)])
def test_vertex_error_within_bake_tolerance(body: Callable[..., Body], bounce: float) -> None:
    assert relative_error(body(bounce=bounce)) < BAKE_TOLERANCE


class ModalSearch:
    """Search whose errors are known: a sum of modes, each with its own convergence ratio."""

    def max_displacement(self, v: np.ndarray) -> float:
        return 1.0

    def motion_norm(self, v: np.ndarray) -> float:
        return 1.0


def iterate(
    ratios: np.ndarray, sizes: np.ndarray, stiffness: np.ndarray, relative: float = BAKE_TOLERANCE
) -> tuple[int, float]:
    """Return the iterations until convergence and the largest remaining displacement.

    stiffness: of each mode, relative to the first mode of the body.
    """
    start = sizes[:, None] * np.eye(len(sizes), 3)
    ways = DisplacementCriterion(ModalSearch(), start, BAKE_TOLERANCE)  # type: ignore[arg-type]
    for k in range(200):
        v = start * ratios[:, None] ** k
        direction = v * (ratios - 1.0)[:, None]
        if ways.is_converged(v, direction, float(np.sqrt((stiffness[:, None] * direction**2).sum()))):
            return k, float(np.abs(v).max())
    raise AssertionError


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.3, 0.6, 0.8])
def test_linear_convergence_stops_within_tolerance(ratio: float) -> None:
    """A search with linear convergence stops within the tolerance and not far below it."""
    one = np.ones(1)
    count, left = iterate(ratio * one, one, one)
    # The bound is half the tolerance, less one iteration and the safety factor of slow convergence, 1/(1 - r) <= 5.
    assert 0.5 * BAKE_TOLERANCE * (1.0 - ratio) * ratio / 1.05 < left <= 0.5 * BAKE_TOLERANCE
    assert count >= 1


def test_slow_mode_delays_convergence() -> None:
    """A slow mode that remains after a fast one has vanished delays convergence."""
    _, left = iterate(np.array([0.02, 0.7]), np.array([1.0, 0.05]), np.ones(2))
    assert left <= 0.5 * BAKE_TOLERANCE


def test_stiff_modes_need_smaller_displacements() -> None:
    one = np.ones(1)
    (soft, _), (stiff, left) = iterate(0.3 * one, one, one), iterate(0.3 * one, one, 1e4 * one)
    # The energy norm of a displacement is 100 times larger, and the bound falls with its square.
    assert stiff > soft
    assert left <= BAKE_TOLERANCE / 1e4


def test_predicted_convergence_saves_preconditioning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that can predict its convergence skips the last application of the preconditioner."""
    solves, iterations = [], []
    plain = StepProblem.precondition

    def counted(problem: StepProblem, gradient: np.ndarray) -> np.ndarray:
        solves.append(1)
        return plain(problem, gradient)

    def spied(problem: StepProblem, start: np.ndarray, tolerance: Tolerance) -> Minimum:
        before = len(solves)
        found = minimise_lbfgs(problem, start, tolerance)
        iterations.append((found.iterations, len(solves) - before))
        return found

    simulation = Simulation(AnimatedScene((block(),), 24.0, np.array([0.0, 0.0, -9.81]), 1, 8))
    simulation.first_frame()
    monkeypatch.setattr(StepProblem, "precondition", counted)
    monkeypatch.setattr(simulation.statics.steppers[0], "_minimiser", spied)
    assert len(list(simulation.frames())) == 8
    assert any(count == asked for count, asked in iterations)
    assert all(count <= asked <= count + 1 for count, asked in iterations)
