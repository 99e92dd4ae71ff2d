"""Single steps, and invariants over many steps.

Equations are those of docs/explanation/physics/01-step-potential.md and 02-settle-law.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.geometry.mesh.rigid_motion import fit_rigid_motion, fit_rigid_motions, rigid_mode_basis
from dampsim.core.literature.papers.compare import bar
from dampsim.core.materials import ELASTIC_MODELS, DeadLoad, ElasticMaterial
from dampsim.core.measure.release import angular_momentum, linear_momentum
from dampsim.core.objective.step_problem import StepProblem
from dampsim.core.settle.controls import Controls, choose_substeps
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.settle.waveform import settle_law
from dampsim.core.solvers.lbfgs import minimise_lbfgs
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.objective import Minimum, Outcome, PreconditionedObjective, Tolerance
from dampsim.core.steppers import step_policy
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.steppers.static import solve_static_equilibrium
from dampsim.core.steppers.step_policy import FailedSearch, Minimiser
from dampsim.core.system.inputs import BlockInputs, Inputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System, build_system
from dampsim.core.system.term import Potential, StiffnessScaling

CELLS = (8, 2, 2)
DOWN = np.array([0.0, 0.0, -9.81])
TIGHT = 1e-9


def controls(system: System, settle: float, overshoot: float, follow_through: float = 1.0) -> Controls:
    laws = tuple(settle_law(settle, overshoot, region.eigenvalue) for region in system.regions)
    return Controls(laws, follow_through, TIGHT)


def pin_inputs(start: np.ndarray, end: np.ndarray) -> Inputs:
    """Return the inputs of one block whose pins move from start to end (p, 3) m."""
    return (BlockInputs(start, end),)


def stationary_pins(system: System) -> Inputs:
    return pin_inputs(system.rest[system.pinned], system.rest[system.pinned])


def advance(stepper: Stepper, state: State, pins: Inputs, h: float, dials: Controls) -> State:
    state, report = stepper.step(state, pins, h, dials)
    assert report.outcome is Outcome.CONVERGED
    return state


@pytest.mark.parametrize("model", ELASTIC_MODELS)
@pytest.mark.parametrize("held", ["clamped", "hinged", "free"])
def test_unit_kappa_is_backward_euler(model: type, held: str) -> None:
    """kappa = 1 and s = h give backward Euler, for any rotation of the pins."""
    system = bar(
        (3, 1, 1), gravity=DOWN, clamped=held == "clamped", material=ElasticMaterial(2e4, 0.35, 1000.0), model=model
    )
    if held == "hinged":
        line = np.flatnonzero((np.abs(system.rest[:, [0, 2]]) < 1e-9).all(axis=1))
        s = system.blocks[0]
        system = build_system(s.rest, s.groups[0], s.mass, s.energies, DOWN, line, np.full(len(line), np.inf))
        assert [region.rigid_modes for region in system.regions] == [1]
    stepper, h = Stepper(system), 1 / 24
    dials = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-12)
    state = State.at_rest(system.rest)
    free = stepper.free
    mass = system.mass[free].repeat(3)
    x, v = system.rest.copy(), np.zeros_like(system.rest)
    if held == "free":
        v = np.cross([1.0, 2.0, 3.0], system.rest)
        state = State(0.0, x, v, np.zeros_like(x))
    place = system.rest[system.pinned]
    for step in range(10):
        # The pins rotate by more than 180 degrees in total, about an axis beside the body.
        turn = Rotation.from_rotvec([0.0, 0.1 * (step + 1), 0.4 * (step + 1)]).as_matrix()
        start, place = place, (system.rest[system.pinned] - [0.2, 0.1, 0.0]) @ turn.T + [0.2, 0.1, 0.0]
        state = advance(stepper, state, pin_inputs(start, place), h, dials)
        # Solve the reference M (v+ - v) = h (f(x + h v+) + M g) by a dense Newton iteration.
        guess = v[free].ravel().copy()
        for _ in range(30):
            y = x.copy()
            y[system.pinned] = place
            y[free] += h * guess.reshape(-1, 3)
            force = sum(energy.value_gradient(y)[1] for energy in system.blocks[0].energies)[free].ravel()
            residual = mass * (guess - v[free].ravel()) + h * force - h * (mass.reshape(-1, 3) * DOWN).ravel()
            K = sum(energy.hessian(y, False) for energy in system.blocks[0].energies).toarray()
            change = np.linalg.solve(np.diag(mass) + h**2 * K[np.ix_(stepper.dof, stepper.dof)], residual)
            guess -= change
            if np.abs(change).max() < 1e-13:
                break
        v[free] = guess.reshape(-1, 3)
        x[free] += h * v[free]
        x[system.pinned] = place
        np.testing.assert_allclose(state.positions, x, atol=1e-8)


@pytest.mark.parametrize("angle", [0.0, 1e-6, 1.0, 3.0, np.pi])
def test_rigid_motion_fit_at_any_angle(angle: float) -> None:
    """The fit finds rotations of any angle, and none about an axis that the points leave undetermined."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        axis, shift = rng.standard_normal(3), 10.0 * rng.standard_normal(3)
        wanted = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()
        solid = rng.standard_normal((6, 3))
        for points in (solid, solid * [1.0, 1.0, 0.0]):
            turn, moved = fit_rigid_motion(points, points @ wanted.T + shift)
            np.testing.assert_allclose(turn, wanted, atol=1e-12)
            np.testing.assert_allclose(points @ turn.T + moved, points @ wanted.T + shift, atol=1e-12)
        line = np.outer(rng.standard_normal(4), rng.standard_normal(3))
        turn, moved = fit_rigid_motion(line, line @ wanted.T + shift)
        # The cosine has an error of 1e-16, so an angle near 180 degrees has an error of 1e-8.
        np.testing.assert_allclose(line @ turn.T + moved, line @ wanted.T + shift, atol=1e-6)
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)
        np.testing.assert_allclose(fit_rigid_motion(line, line + shift)[0], np.eye(3), atol=1e-9)
        np.testing.assert_array_equal(fit_rigid_motion(line[:1], line[1:2])[0], np.eye(3))


def test_batched_fits_equal_single_ones() -> None:
    """Sets of points of several sizes, with lines, planes, single points and a nan, give the same bits."""
    rng, pairs = np.random.default_rng(5), []
    for count in (1, 2, 3, 12, 12, 3, 2):
        points = rng.standard_normal((count, 3))
        points[:, 2] *= count != 3
        pairs.append((points, points @ np.linalg.qr(rng.standard_normal((3, 3)))[0] + rng.standard_normal(3)))
    pairs.append((pairs[3][0], np.full((12, 3), np.nan)))
    for batched, pair in zip(fit_rigid_motions(pairs), pairs, strict=True):
        single = fit_rigid_motion(*pair)
        np.testing.assert_array_equal(batched[0], single[0])
        np.testing.assert_array_equal(batched[1], single[1])
    assert np.isnan(fit_rigid_motions(pairs)[-1][0]).all()
    assert fit_rigid_motions([]) == []


@pytest.mark.slow
def test_sag_independent_of_dials_and_rate() -> None:
    """The static sag does not depend on Settle, overshoot and frame rate."""
    system = bar(CELLS, gravity=DOWN, material=ElasticMaterial(3e5, 0.4, 1000.0))
    sags = []
    for fps in (24, 60):
        for settle in (6, 24, 96):
            for overshoot in (0.0, 0.5):
                stepper, dials = Stepper(system), controls(system, settle / fps, overshoot)
                state = State.at_rest(system.rest)
                substeps = choose_substeps(settle / fps, overshoot, 1 / fps, 1).count
                for _ in range(4 * settle * substeps):
                    state = advance(stepper, state, stationary_pins(system), 1 / (fps * substeps), dials)
                sags.append(np.abs(state.positions - system.rest).max())
    # After four settle times 1e-8 of the motion remains.
    np.testing.assert_allclose(sags, sags[0], rtol=1e-6)
    assert sags[0] > 0.02


def test_constant_pin_velocity_deforms_nothing() -> None:
    system = bar(CELLS)
    stepper, dials, h = Stepper(system), controls(system, 0.5, 0.3), 1 / 24
    state, place = State.at_rest(system.rest), system.rest[system.pinned]
    speed = np.array([3.0, -1.0, 2.0])
    for _ in range(60):
        state = advance(stepper, state, pin_inputs(place, place + h * speed), h, dials)
        place = place + h * speed
    moved = place - system.rest[system.pinned]
    assert np.abs(state.positions - system.rest - moved[0]).max() < 1e-6


def test_steady_pin_rotation_causes_no_drag() -> None:
    system = bar(CELLS)
    stepper, dials, h = Stepper(system), controls(system, 0.4, 0.0, follow_through=0.0), 1 / 24
    state = State.at_rest(system.rest)

    def turned(angle: float) -> np.ndarray:
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])

    for k in range(48):
        start = system.rest[system.pinned] @ turned(0.1 * k).T
        end = system.rest[system.pinned] @ turned(0.1 * (k + 1)).T
        state = advance(stepper, state, pin_inputs(start, end), h, dials)
    assert np.abs(state.positions - system.rest @ turned(4.8).T).max() < 1e-6


@pytest.mark.parametrize(("settle", "overshoot"), [(0.2, 0.7), (0.2, 0.0), (2.0, 0.5)])
def test_deflection_of_spinning_pins_is_bounded(settle: float, overshoot: float) -> None:
    """The deflection under spinning pins is at most that of a static load of the pins' acceleration, plus overshoot."""
    # docs/decisions/0005: evaluated at the deformed positions, the acceleration grew without bound.
    system = bar((6, 2, 2), material=ElasticMaterial(1e6, 0.4, 1000.0))
    count = choose_substeps(settle, overshoot, 1 / 24, 1).count
    stepper, h = Stepper(system), 1 / 24 / count
    dials = replace(controls(system, settle, overshoot), tolerance=1e-4)
    state, place, spin, farthest = State.at_rest(system.rest), system.rest[system.pinned], 8.0, 0.0
    for k in range(24 * count):
        # The spin accelerates for half a second.
        time = h * (k + 1)
        angle = spin * (time**2 if time < 0.5 else time - 0.25)
        turn = Rotation.from_rotvec([0.0, 0.0, angle]).as_matrix()
        start, place = place, system.rest[system.pinned] @ turn.T
        state = advance(stepper, state, pin_inputs(start, place), h, dials)
        farthest = max(farthest, float(np.linalg.norm(state.positions - system.rest @ turn.T, axis=1).max()))
    # Deflection by a static load of the largest acceleration, 1 m from the axis, plus its overshoot.
    throw = (
        float(dials.laws[0].coefficients(h).reference_inertia_ratio)
        * np.hypot(spin**2, 2.0 * spin)
        / system.regions[0].eigenvalue
    )
    assert 0.05 * throw < farthest < (1.0 + overshoot) * throw


@pytest.mark.parametrize("follow_through", [0.0, 0.5, 1.0, 2.0])
def test_constant_pin_acceleration_is_static_load(follow_through: float) -> None:
    """Under a constant acceleration of the pins, a body has the static shape under the inertial load."""
    system = bar(CELLS, material=ElasticMaterial(3e5, 0.4, 1000.0))
    stepper, dials, h = Stepper(system), controls(system, 0.4, 0.0, follow_through), 1 / 24
    acceleration = np.array([0.0, 2.0, 5.0])
    state, place, speed = State.at_rest(system.rest), system.rest[system.pinned], np.zeros(3)
    for _ in range(80):
        speed = speed + h * acceleration
        state = advance(stepper, state, pin_inputs(place, place + h * speed), h, dials)
        place = place + h * speed
    carried = state.positions - (place - system.rest[system.pinned])[0]
    # The reference inertia ratio makes the response to a stop exact, docs/explanation/physics/02-settle-law.md.
    inertia = float(dials.laws[0].coefficients(h).reference_inertia_ratio)
    load = DeadLoad(-follow_through * inertia * system.mass[:, None] * acceleration)
    loaded = Stepper(system.with_term(Potential(load, StiffnessScaling.FIXED)))
    static = solve_static_equilibrium(loaded, State.at_rest(system.rest), stationary_pins(system), TIGHT)
    assert np.abs(carried - static.positions).max() < 1e-4
    assert follow_through == 0.0 or np.abs(static.positions - system.rest).max() > 0.005


@pytest.mark.parametrize("spin_rate", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("overshoot", [0.0, 0.5])
def test_free_flight_conserves_momenta(spin_rate: float, overshoot: float) -> None:
    system = bar(CELLS, clamped=False)
    stepper, dials, h = Stepper(system), controls(system, 0.5, overshoot), 1 / 48
    centre = system.mass @ system.rest / system.mass.sum()
    spin = np.cross(spin_rate * np.array([0.5, 1.0, 2.0]), system.rest - centre)
    state = State(0.0, system.rest, spin + np.array([1.0, 2.0, 3.0]), np.zeros_like(system.rest))
    linear, angular = linear_momentum(system, state), angular_momentum(system, state)
    for _ in range(48):
        state = advance(stepper, state, stationary_pins(system), h, dials)
    after = linear_momentum(system, state)
    assert np.abs(after - linear).max() < 1e-12 * np.linalg.norm(linear)
    assert np.linalg.norm(angular_momentum(system, state) - angular) < 0.01 * np.linalg.norm(angular)


def test_free_fall_is_undamped() -> None:
    system = bar(CELLS, gravity=DOWN, clamped=False)
    stepper, dials, h = Stepper(system), controls(system, 0.1, 0.0), 1 / 24
    state = State.at_rest(system.rest)
    for _ in range(24):
        state = advance(stepper, state, stationary_pins(system), h, dials)
    np.testing.assert_allclose(state.velocities, np.broadcast_to(DOWN, system.rest.shape), atol=1e-8)


@pytest.mark.parametrize("held", [0, 1, 2, 3])
def test_rigid_modes_by_pin_count(held: int) -> None:
    system = bar((2, 1, 1), clamped=False)
    pins = np.array([0, 3, 5])[:held]
    free = np.setdiff1d(np.arange(len(system.rest)), pins)
    basis = rigid_mode_basis(system.rest[free], system.rest[pins], system.mass[free])
    assert basis.shape[2] == {0: 6, 1: 3, 2: 1, 3: 0}[held]
    flat = basis.reshape(3 * len(free), -1)
    product = flat.T @ (system.mass[free].repeat(3)[:, None] * flat)
    np.testing.assert_allclose(product, np.eye(basis.shape[2]), atol=1e-12)


def test_minimisers_agree_on_step() -> None:
    system = bar(CELLS, gravity=2.0 * DOWN, material=ElasticMaterial(1e5, 0.4, 1000.0))
    answers = []
    for minimiser in (minimise_lbfgs, minimise_newton):
        stepper, state = Stepper(system, minimiser), State.at_rest(system.rest)
        for _ in range(6):
            state, report = stepper.step(state, stationary_pins(system), 1 / 24, controls(system, 0.5, 0.3))
            assert report.outcome is Outcome.CONVERGED
            assert report.residual <= TIGHT
        answers.append(state.positions)
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-7)


def test_step_is_deterministic() -> None:
    """A step depends only on its arguments, not on earlier steps of the stepper."""
    system = bar(CELLS, gravity=DOWN)
    dials = controls(system, 0.5, 0.3)
    warm = Stepper(system)
    state = State.at_rest(system.rest)
    for _ in range(5):
        state = advance(warm, state, stationary_pins(system), 1 / 24, dials)
    again = advance(warm, state, stationary_pins(system), 1 / 24, dials)
    fresh = advance(Stepper(system), state, stationary_pins(system), 1 / 24, dials)
    assert again.positions.tobytes() == fresh.positions.tobytes()
    assert again.velocities.tobytes() == fresh.velocities.tobytes()


def test_failed_step_returns_old_state() -> None:
    system = bar((2, 1, 1))
    broken = State.at_rest(system.rest * np.nan)
    state, report = Stepper(system).step(broken, stationary_pins(system), 1 / 24, controls(system, 0.5, 0.0))
    assert report.outcome is Outcome.NOT_FINITE
    assert state is broken


def inaccurate_minimiser(residual: float, monkeypatch: pytest.MonkeyPatch) -> Minimiser:
    """Return a minimiser that always reports Outcome.ITERATIONS and a residual; the fallback uses it, too."""

    def minimiser(problem: PreconditionedObjective, start: np.ndarray, tolerance: Tolerance) -> Minimum:
        return replace(minimise_newton(problem, start, tolerance), outcome=Outcome.ITERATIONS, residual=residual)

    monkeypatch.setattr(step_policy, "minimise_newton", minimiser)
    return minimiser


def test_inaccurate_substeps_are_accepted_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inaccurate results are accepted only in the shortest parts of a step, and up to a residual of 0.1."""
    system = bar((2, 1, 1), gravity=DOWN)
    start, dials = State.at_rest(system.rest), controls(system, 0.5, 0.0)
    near = Stepper(system, inaccurate_minimiser(0.09, monkeypatch))
    state, report = near.step(start, stationary_pins(system), 1 / 24, dials)
    assert report.outcome is Outcome.CONVERGED
    assert (report.substeps, report.residual) == (16, 0.09)
    assert report.guards[FailedSearch] > 0
    assert state.is_finite
    assert (state.positions != system.rest).any()
    far = Stepper(system, inaccurate_minimiser(0.11, monkeypatch))
    state, report = far.step(start, stationary_pins(system), 1 / 24, dials)
    assert report.outcome is Outcome.ITERATIONS
    assert state is start


def test_fallback_step_clears_deformation_history(monkeypatch: pytest.MonkeyPatch) -> None:
    system = bar((2, 1, 1), gravity=DOWN)
    dials = controls(system, 0.5, 0.3)

    def failing(problem: StepProblem, start: np.ndarray, tolerance: Tolerance) -> Minimum:
        found = minimise_lbfgs(problem, start, tolerance)
        return found if problem._use_fallback_coefficients else replace(found, outcome=Outcome.LINE_SEARCH)

    whole, helped = Stepper(system), Stepper(system, failing)  # type: ignore[arg-type]
    state = State.at_rest(system.rest)
    for _ in range(3):
        state = advance(whole, state, stationary_pins(system), 1 / 24, dials)
    assert system.deformation_history(state) is not None
    after, report = helped.step(state, stationary_pins(system), 1 / 24, dials)
    assert report.guards == {FailedSearch: 1}
    assert system.deformation_history(after) is None
