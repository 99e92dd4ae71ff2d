"""Free bodies under the waveform law: their deformation settles while they fly and spin.

See docs/explanation/physics/02-settle-law.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import DOWN, gridded_box, scene, static_body
from dampsim.core.geometry.mesh.rigid_motion import fit_rigid_motion, free_rotation
from dampsim.core.literature.papers.compare import bar
from dampsim.core.materials import ElasticMaterial
from dampsim.core.settle.controls import Controls, choose_substeps
from dampsim.core.settle.waveform import settle_law
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.system.state import State


@pytest.mark.slow
@pytest.mark.parametrize("overshoot", [0.0, 0.3, pytest.param(0.8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("settle", [12, 48])
@pytest.mark.parametrize("turns", [0.0, 1.0, 2.0])
def test_settle_of_spinning_bent_body(settle: int, overshoot: float, turns: float) -> None:
    system = bar((8, 2, 2), clamped=False, material=ElasticMaterial(5e4, 0.4, 1000.0))
    count = choose_substeps(settle / 24, overshoot, 1 / 24, 1).count
    law = settle_law(settle / 24, overshoot, system.regions[0].eigenvalue)
    stepper, controls, h = Stepper(system), Controls((law,), 1.0, 1e-3), 1 / 24 / count
    x = system.rest + 0.3 * np.stack(
        [0.0 * system.rest[:, 0], (system.rest[:, 0] - 0.5) ** 2, system.rest[:, 2] ** 3], 1
    )
    spin = 2.0 * np.pi * turns * np.array([0.1, 0.2, 1.0])
    velocity = np.cross(spin, x - system.mass @ x / system.mass.sum())
    state = State(0.0, x, velocity, np.zeros_like(x))
    bent, iterations = [deformation(system.rest, x)], 0
    for _ in range(int(1.3 * settle) * count):
        state, report = stepper.step(state, system.stationary_inputs(), h, controls)
        assert report.outcome is Outcome.CONVERGED
        assert not report.guards
        iterations += report.iterations
        bent.append(deformation(system.rest, state.positions))
    # Bounds of a release with a large bend.
    above = np.flatnonzero(np.array(bent) > 0.01 * bent[0]) / count
    assert 0.75 * settle - 1.0 <= above[-1] <= 1.05 * settle + 1.0
    assert iterations < 12 * len(bent)


def deformation(rest: np.ndarray, x: np.ndarray) -> float:
    """Return the largest distance of a node from the best rigid motion of the rest shape, m."""
    turn, shift = fit_rigid_motion(rest, x)
    return float(np.linalg.norm(x - rest @ turn.T - shift, axis=1).max())


def test_free_rotation_matches_angular_momentum() -> None:
    rng = np.random.default_rng(2)
    h = 0.1
    for _ in range(20):
        before, mass = rng.standard_normal((9, 3)), rng.uniform(0.5, 2.0, 9)
        after = before + 0.3 * rng.standard_normal((9, 3))
        wanted = rng.standard_normal(3)
        Q = free_rotation(after, mass, wanted, np.eye(3), h, before)
        end = after @ Q.T
        np.testing.assert_allclose((mass[:, None] * np.cross(end, end - before)).sum(axis=0) / h, wanted, atol=1e-9)


# Solids conserve the momenta exactly, sheets within the tolerance of the solver.
@pytest.mark.parametrize(("kind", "error"), [({}, 1e-9), ({"kind": "CLOTH", "thickness": 5.0}, 5e-4)])
def test_thrown_body_flies_and_spins(kind: dict[str, Any], error: float) -> None:
    """A thrown body follows the parabola of its velocity and weight, and keeps its angular momentum."""
    surface = gridded_box("Box", (-0.2, -0.1, -0.05), (0.2, 0.1, 0.05), 0.1)
    throw = {"velocity_x": 3.0, "velocity_z": 5.0, "spin_y": 1.0}
    body = static_body(surface, stiffness=1000.0, resolution=60, settle=6.0, **throw, **kind)
    simulation = Simulation(scene(body, last=13))
    system = simulation.system_of("Box")
    states = [frame.state for frame in simulation.frames()]
    total, momenta = system.mass.sum(), []
    for number, state in enumerate(states):
        time, x, v = number / 24.0, state.positions, state.velocities
        centre = system.mass @ x / total
        # The velocity of each step is that at its end, so the height differs from the parabola by g t h/2.
        expected = np.array([3.0, 0.0, 5.0]) * time + 0.5 * DOWN * time**2
        lag = 0.5 * 9.81 * time / 24.0
        assert centre - system.mass @ states[0].positions / total == pytest.approx(expected, abs=1.001 * lag + error)
        assert system.mass @ v / total == pytest.approx(np.array([3.0, 0.0, 5.0]) + DOWN * time, abs=error)
        momenta.append((system.mass[:, None] * np.cross(x - centre, v)).sum(axis=0))
    assert momenta[0][1] > 0.0
    # The momenta of a step are those of its displacements, at their ends.
    assert np.array(momenta[1:]) == pytest.approx(np.tile(momenta[1], (12, 1)), abs=0.02 * momenta[0][1])
    pinned = replace(body, pins=(surface.vertices[:, 0] < -0.15).astype(float))
    assert not Simulation(scene(pinned, last=1)).first_frame().state.velocities.any()
