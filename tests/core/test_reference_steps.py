"""Integrators equal references/steps.py in whole steps of springs with pins, gravity and drag."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from damping_cases import assert_close, make_damping, spring_chain
from dampsim.core.bodies.surface_binding import AnimatedReference
from dampsim.core.literature.damping.damping import Damping, PotentialDamping
from dampsim.core.literature.damping.viscous_dampings import Dissipation
from dampsim.core.literature.integrators import INTEGRATORS, Integrator, IntegratorStepper, methods
from dampsim.core.literature.papers.compare import bar
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.materials.strains import SpringStrain
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw, DeformationLaw, TauKappaLaw
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System, assemble_system
from dampsim.core.system.term import Potential, pin_springs
from references import steps, velocities


def test_integrators_have_references() -> None:
    assert set(steps.INTEGRATORS) == {one.name for one in INTEGRATORS}


def chain_scene(damped: str | None) -> tuple[steps.Scene, System, Damping]:
    x, edges, lengths, W = spring_chain()
    mass = np.array([0.8, 1.5, 0.6, 1.1, 2.0])
    pinned, stiffness = np.array([0, 2, 4]), np.array([np.inf, np.inf, 35.0])
    terms = (Potential(spring_energy(edges, lengths, W / lengths)), *pin_springs(pinned, stiffness))
    block = BodyDiscretization("Chain", x, mass, (edges,), terms, pinned, stiffness)
    gravity = np.array([0.5, -1.0, -9.0])
    system = assemble_system((block,), gravity, None, has_eigenvalues=False)
    viscosity = 0.07 * W
    drag = PotentialDamping(Dissipation(SpringStrain(lengths, edges), np.eye(1), viscosity, len(x)))
    dials = {"gamma": 0.4, "damp_current": True, "sweeps": 2}

    class Both(Damping):
        """Damping with both a force and a change of velocities, to check where each integrator evaluates them."""

        def __init__(self) -> None:
            self._slow = None if damped is None else make_damping(damped, system, **dials)

        def damp_velocities(self, positions, before, predicted, h):  # type: ignore[no-untyped-def]
            return predicted if self._slow is None else self._slow.damp_velocities(positions, before, predicted, h)

        def matrix(self, positions):  # type: ignore[no-untyped-def]
            return drag.matrix(positions)

    def slow(positions: np.ndarray, before: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        body = velocities.Body(mass, edges, positions, before, predicted, 0.02)
        return predicted if damped is None else velocities.VELOCITIES[damped](body, dials)

    soft = {4: 35.0}
    reference = steps.Scene(mass, edges, lengths, W, viscosity, soft, np.array([0, 2]), gravity, 1.7, slow)
    return reference, system, Both()


@pytest.mark.parametrize("damped", [None, "POINT", "SPRING"])
@pytest.mark.parametrize("name", steps.INTEGRATORS)
def test_integrator_step_matches_equation(name: str, damped: str | None) -> None:
    reference, system, damping = chain_scene(damped)
    integrator = next(one for one in INTEGRATORS if one.name == name)
    stepping = IntegratorStepper(integrator, system, damping)
    rng = np.random.default_rng(5)
    for _ in range(3):
        x = system.rest + 0.1 * rng.standard_normal(system.rest.shape)
        v = 2.0 * rng.standard_normal(x.shape)
        end = x + 0.05 * rng.standard_normal(x.shape)
        inputs = (BlockInputs(x[system.pinned], end[system.pinned]),)
        state = State(0.3, x, v, np.zeros_like(x))
        controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-14, 1.7)
        after, report = stepping.step(state, inputs, 0.02, controls)
        assert report.outcome is Outcome.CONVERGED
        places, speeds = steps.INTEGRATORS[name](reference, steps.Start(x, v, x, end, 0.02))
        assert after.time == pytest.approx(0.32)
        # The residual of the minimisation is limited by the rounding of positions.
        assert_close(after.positions, places, 1e-11)
        assert_close(after.velocities, speeds, 1e-9)


def test_newmark_step_is_translation_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long damped step takes several passes with C at its end, as many far from the origin as near it."""
    # With the usual tolerance, two passes are enough here.
    monkeypatch.setattr(methods, "_NEWMARK_TOLERANCE", 1e-5)
    _, system, damping = chain_scene(None)
    (newmark,) = (one for one in INTEGRATORS if one.name == "NEWMARK")
    controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-13, 1.7)
    rng = np.random.default_rng(8)
    change, v = 0.1 * rng.standard_normal(system.rest.shape), 12.0 * rng.standard_normal(system.rest.shape)
    moved = []
    for shift in (np.zeros(3), np.array([100.0, -50.0, 30.0])):
        (block,) = system.blocks
        block = replace(block, rest=block.rest + shift)
        there = assemble_system((block,), system.gravity, None, has_eigenvalues=False)
        x = there.rest + change
        inputs = (BlockInputs(x[there.pinned], x[there.pinned]),)
        state = State(0.0, x, v, np.zeros_like(x))
        after, report = IntegratorStepper(newmark, there, damping).step(state, inputs, 0.2, controls)
        assert report.outcome is Outcome.CONVERGED
        moved.append(after.positions - x)
    # Rounding of positions of 100 m.
    assert np.abs(moved[1] - moved[0]).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda one: one.name)
def test_integrator_order_with_variable_drag(integrator: type[Integrator]) -> None:
    """The declared order of convergence holds for springs that rotate, whose damping matrix changes in every step."""
    _, system, damping = chain_scene(None)
    place, ends = system.rest[system.pinned], []
    controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-12)
    for count in (40, 80, 160):
        state = State.at_rest(system.rest)
        stepping = IntegratorStepper(integrator, system, damping)
        for _ in range(count):
            state, report = stepping.step(state, (BlockInputs(place, place),), 0.2 / count, controls)
            assert report.outcome is Outcome.CONVERGED
        ends.append(state.positions)
    coarse, fine = (float(np.abs(b - a).max()) for a, b in itertools.pairwise(ends))
    # Another halving of the step would bring it nearer.
    assert np.log2(coarse / fine) == pytest.approx(integrator.order, abs=0.15)


@pytest.mark.parametrize("law", [BackwardEulerLaw(), TauKappaLaw(0.4, 0.1)])
def test_free_fall_needs_no_iteration(law: DeformationLaw) -> None:
    """The prediction includes gravity, so that a falling body needs no iteration."""
    plain = bar((2, 1, 1), clamped=False)
    system = replace(plain, gravity=np.array([0.0, 0.0, -9.81]))
    stepper, controls = Stepper(system), Controls((law,), 1.0, 1e-8)
    state = State(0.0, system.rest, np.tile([0.5, 0.0, 1.0], (len(system.rest), 1)), np.zeros_like(system.rest))
    after, report = stepper.step(state, system.stationary_inputs(), 0.02, controls)
    assert report.iterations == 0
    np.testing.assert_allclose(after.velocities, state.velocities + 0.02 * system.gravity, atol=1e-12)


def test_subinterval_inputs_interpolate_pins() -> None:
    """Pins move along straight lines over the parts of a step."""
    start, end = np.zeros((2, 3)), np.array([[3.0, 0.0, 6.0], [0.0, -9.0, 1.5]])
    whole = BlockInputs(start + 1.0, end + 1.0)
    for k in range(3):
        part = whole.subinterval(k, 3)
        np.testing.assert_allclose(part.start, 1.0 + end * k / 3, atol=1e-15)
        np.testing.assert_allclose(part.end, 1.0 + end * (k + 1) / 3, atol=1e-15)
    assert whole.subinterval(0, 1) is whole


def test_parts_share_rotations_between_them() -> None:
    """A part starts with the rotations at the end of the one before, which are computed once."""
    turns = [Rotation.from_rotvec(angle * np.eye(3)) for angle in (0.2, 1.4)]
    whole = AnimatedReference(
        (turns[0].as_matrix(), turns[1].as_matrix()), (np.zeros((3, 3)), np.ones((3, 3))), np.eye(3)
    )
    parts = [whole.subinterval(k, 4) for k in range(4)]
    for one, following in itertools.pairwise(parts):
        assert one.frame_rotations[1] is following.frame_rotations[0]
    half = Rotation.from_rotvec(0.8 * np.eye(3)).as_matrix()
    np.testing.assert_allclose(parts[1].frame_rotations[1], half, atol=1e-12)
    np.testing.assert_allclose(parts[3].frame_rotations[1], whole.frame_rotations[1], atol=1e-12)
