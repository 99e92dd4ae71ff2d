"""Free bodies under the waveform law (physics.md section 2): what they deform by calms as dialled, however they fly."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.energies import Material
from dampsim.core.geometry.rigid import coasting, rigid_motion
from dampsim.core.papers.bar import bar
from dampsim.core.solvers.problem import Outcome
from dampsim.core.stepping.controls import Controls
from dampsim.core.stepping.step import Stepper
from dampsim.core.stepping.substeps import choose_substeps
from dampsim.core.stepping.waveform import settle_law
from dampsim.core.system.state import State


@pytest.mark.slow
@pytest.mark.parametrize("overshoot", [0.0, 0.3, pytest.param(0.8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("settle", [12, 48])
@pytest.mark.parametrize("turns", [0.0, 1.0, 2.0])
def test_a_bent_body_that_spins_calms_as_dialled_and_does_not_tear_itself_apart(
    settle: int, overshoot: float, turns: float
) -> None:
    system = bar((8, 2, 2), clamped=False, material=Material(5e4, 0.4, 1000.0))
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
        state, report = stepper.step(state, system.still(), h, controls)
        assert report.outcome is Outcome.CONVERGED
        assert report.helped == 0
        iterations += report.iterations
        bent.append(deformation(system.rest, state.positions))
    # From a release, up to its large bend.
    above = np.flatnonzero(np.array(bent) > 0.01 * bent[0]) / count
    assert 0.75 * settle - 1.0 <= above[-1] <= 1.05 * settle + 1.0
    assert iterations < 12 * len(bent)


def deformation(rest: np.ndarray, x: np.ndarray) -> float:
    """m, of the node that is farthest from the best rigid motion of the rest shape."""
    turn, shift = rigid_motion(rest, x)
    return float(np.linalg.norm(x - rest @ turn.T - shift, axis=1).max())


def test_the_turn_of_a_deformed_body_has_the_momentum_asked_for() -> None:
    rng = np.random.default_rng(2)
    h = 0.1
    for _ in range(20):
        before, mass = rng.standard_normal((9, 3)), rng.uniform(0.5, 2.0, 9)
        after = before + 0.3 * rng.standard_normal((9, 3))
        wanted = rng.standard_normal(3)
        Q = coasting(after, mass, wanted, np.eye(3), h, before)
        end = after @ Q.T
        np.testing.assert_allclose((mass[:, None] * np.cross(end, end - before)).sum(axis=0) / h, wanted, atol=1e-9)
