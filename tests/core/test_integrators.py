"""Integrators: order of accuracy, pins, and the experiments of [SRD] with several of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix, eye

from dampsim.core.base.arrays import Array
from dampsim.core.literature.damping.damping import Damping, PotentialDamping
from dampsim.core.literature.damping.viscous_dampings import Dissipation, StiffnessDamping
from dampsim.core.literature.integrators import INTEGRATORS, Integrator, IntegratorStepper
from dampsim.core.literature.papers.flat_scenes import cloth, spring_orbit
from dampsim.core.materials import Energy
from dampsim.core.materials.strain_energy import StrainEnergy
from dampsim.core.measure.release import energies
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.solvers.lbfgs import minimise_lbfgs
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.steppers.step_policy import Minimiser
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System, build_system
from dampsim.core.system.term import Potential

# Oscillator: 1 kg on a spring of 40 N/m and a damper of 1.5 N s/m.
STIFFNESS, DRAG = 40.0, 1.5


def integrator_by_name(name: str) -> type[Integrator]:
    return next(one for one in INTEGRATORS if one.name == name)


def controls(system: System, tolerance: float = 1e-12) -> Controls:
    return Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, tolerance)


class _Drag:
    def matrix(self, positions: Array) -> csr_matrix:
        return (DRAG * eye(positions.size)).tocsr()


def run(
    integrator: type[Integrator], system: System, damping: Damping | None, state: State, h: float, count: int,
    tolerance: float = 1e-12, minimiser: Minimiser = minimise_lbfgs,
) -> list[State]:  # fmt: skip
    stepping, place = IntegratorStepper(integrator, system, damping, minimiser), state.positions[system.pinned]
    hard = np.isinf(system.pin_stiffness)
    targets = np.where(hard[:, None], place, system.rest[system.pinned])
    states = [state]
    for _ in range(count):
        state, report = stepping.step(state, (BlockInputs(targets, targets),), h, controls(system, tolerance))
        assert report.outcome is Outcome.CONVERGED
        states.append(state)
    return states


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda one: one.name)
def test_observed_order_matches_declared_order(integrator: type[Integrator]) -> None:
    """On a damped oscillator, the error falls with the integrator's declared order."""
    rest = np.zeros((2, 3))
    rest[1, 0] = 1.0
    system = build_system(
        rest,
        np.array([[0, 1]]),
        np.ones(2),
        (),
        np.zeros(3),
        np.arange(2),
        np.full(2, STIFFNESS),
        has_eigenvalues=False,
    )
    start = rest + np.array([[0.3, 0.0, -0.2], [0.0, 0.5, 0.1]])
    speed = np.array([[0.0, 1.0, 0.0], [-2.0, 0.0, 0.5]])
    a = DRAG / 2.0
    w = np.sqrt(STIFFNESS - a * a)
    exact = np.exp(-a) * ((start - rest) * np.cos(w) + (speed + a * (start - rest)) / w * np.sin(w))
    errors = []
    for count in (200, 400, 800):
        state = State(0.0, start, speed, np.zeros_like(rest))
        end = run(integrator, system, PotentialDamping(_Drag()), state, 1.0 / count, count)[-1]
        errors.append(float(np.abs(end.positions - rest - exact).max()))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx(integrator.order, abs=0.15)


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda one: one.name)
def test_hard_pins_reach_their_targets(integrator: type[Integrator]) -> None:
    """Hard pins reach their targets, and a free node keeps up with a uniform motion."""
    system = spring_orbit(length=1.0)
    speed = np.array([0.5, 1.0, 0.0])
    stepping = IntegratorStepper(integrator, system)
    state = State(0.0, system.rest, np.tile(speed, (2, 1)), np.zeros_like(system.rest))
    for step in range(20):
        start, end = (system.rest[[0]] + 0.01 * k * speed for k in (step, step + 1))
        state, report = stepping.step(state, (BlockInputs(start, end),), 0.01, controls(system))
        assert report.outcome is Outcome.CONVERGED
        np.testing.assert_allclose(state.positions, system.rest + 0.01 * (step + 1) * speed, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("integrator", "count"), [("SYMPLECTIC_EULER", 6000), ("NEWMARK", 3000)])
@pytest.mark.parametrize("beta", [0.01, 0.05, 0.1])
def test_spun_spring_strain_rate_and_rayleigh(integrator: str, count: int, beta: float) -> None:
    """Strain-rate damping leaves a steady rotation, and Rayleigh damping stops it.

    [SRD] 3.6: L = 2 m, k = 100, m = 1 kg, 20 m/s across, h = 0.01 s.
    """
    system = spring_orbit()
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    speed = np.array([[0.0, 0.0, 0.0], [0.0, 20.0, 0.0]])
    start = State(0.0, system.rest, speed, np.zeros_like(speed))
    rate = PotentialDamping(Dissipation(energy.strain, beta * energy.moduli, energy.weights, 2))
    states = run(integrator_by_name(integrator), system, rate, start, 0.01, count, tolerance=1e-9)
    kinetic = np.array([energies(system, state).kinetic for state in states])
    # The oscillation along the spring decays at a rate of at least beta k / (2 m L) = beta 25/s.
    last = kinetic[-500:]
    left = np.exp(-25.0 * beta * 0.01 * (count - 500))
    assert np.ptp(last) < (0.01 + 2.0 * left) * last.mean()
    # Uniform circular motion with the initial angular momentum: m v r = 40, and k (r/L - 1) = m v^2/r.
    r = max(np.roots([50.0, -100.0, 0.0, 0.0, -1600.0]).real)
    assert 0.5 * (40.0 / r) ** 2 == pytest.approx(83.9, abs=0.05)
    assert last.mean() == pytest.approx(0.5 * (40.0 / r) ** 2, rel=0.02)
    slowed = run(
        integrator_by_name(integrator),
        system,
        PotentialDamping(StiffnessDamping(system.blocks[0].energies, beta)),
        start,
        0.01,
        count,
        1e-9,
    )
    kinetic = np.array([energies(system, state).kinetic for state in slowed])
    # The kinetic energy decays like 1/t in the end: a slower rotation stretches the spring less.
    thirds = [kinetic[k * count // 3 - 200 : k * count // 3].mean() for k in (1, 2, 3)]
    assert thirds[0] > 1.15 * thirds[1] > 1.15**2 * thirds[2]
    assert thirds[2] < 0.5 * last.mean()


@pytest.mark.parametrize(
    ("h", "beta", "until"),
    [
        (0.1, 0.1, 40.0),
        *(
            pytest.param(h, beta, 100.0, marks=pytest.mark.slow)
            for h in (0.1, 1.0 / 24.0)
            for beta in (0.01, 0.05, 0.1)
        ),
    ],
)
def test_newmark_long_steps_keep_energy(h: float, beta: float, until: float) -> None:
    """In long steps, a spun spring with strain-rate damping keeps the energy of its final rotation within 0.1 J.

    With C at predicted positions, h = 0.1 s and beta = 0.1 s, the energy rises to 493 J in 100 s.
    """
    system = spring_orbit()
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    speed = np.array([[0.0, 0.0, 0.0], [0.0, 20.0, 0.0]])
    rate = PotentialDamping(Dissipation(energy.strain, beta * energy.moduli, energy.weights, 2))
    start = State(0.0, system.rest, speed, np.zeros_like(speed))
    states = run(integrator_by_name("NEWMARK"), system, rate, start, h, round(until / h), 1e-9)
    total = np.array([found.kinetic + found.elastic for found in (energies(system, state) for state in states)])
    assert total.max() == total[0]
    # The swing along the spring has decayed after 30 s at the latest.
    assert np.ptp(total[round(30.0 / h) :]) < 0.1


def with_energy(system: System, energy: Energy) -> System:
    """Return the system with this energy as its only force term."""
    return replace(system, blocks=(replace(system.blocks[0], terms=(Potential(energy),)),))


class _UnprojectedEnergy:
    """Energy whose Hessian is never projected."""

    def __init__(self, energy: StrainEnergy) -> None:
        self._energy, self.rounding = energy, energy.rounding

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        return self._energy.value_gradient(positions)

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return self._energy.hessian(positions, False)


@pytest.mark.slow
def test_newton_clamped_stress_finds_minimum() -> None:
    """Newton with clamped stress needs no more iterations than without, and always ends at a minimum."""
    system = cloth(7, np.arange(7))
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    rng = np.random.default_rng(1)
    counts: dict[str, list[int]] = {"clamped": [], "raw": []}
    for squeeze, fps in ((0.0, 60.0), (0.05, 60.0), (0.1, 60.0), (0.1, 24.0)):
        for _ in range(15):
            x = system.rest * rng.uniform(1.0 - squeeze, 1.0 + squeeze, 3) + 0.005 * rng.standard_normal((49, 3))
            x[system.pinned] = system.rest[system.pinned]
            v = 0.5 * rng.standard_normal(x.shape)
            v[system.pinned] = 0.0
            place = x[system.pinned]
            for name, one in (
                ("clamped", replace(energy, clamp_compression=True)),
                ("raw", _UnprojectedEnergy(energy)),
            ):
                made = with_energy(system, one)
                # The limit of iterations is never reached.
                stepper = Stepper(made, partial(minimise_newton, max_iterations=400))
                state = State(0.0, x, v, np.zeros_like(x))
                after, report = stepper.step(state, (BlockInputs(place, place),), 1.0 / fps, controls(made, 1e-8))
                counts[name].append(report.iterations)
                if name == "clamped":
                    assert report.outcome is Outcome.CONVERGED
                    assert report.substeps == 1
                    K = energy.hessian(after.positions, False).toarray()[np.ix_(stepper.dof, stepper.dof)]
                    mass = np.diag(system.mass[stepper.free].repeat(3))
                    # At a minimum of the step potential, the Hessian is positive semi-definite.
                    assert np.linalg.eigvalsh(mass * fps + K / fps).min() > -1e-9 * np.abs(K).max() / fps
    assert np.mean(counts["clamped"]) <= np.mean(counts["raw"])


def swing_energies(damping: Damping | None, system: System, count: int, h: float) -> Array:
    """Return the kinetic energies of a cloth that starts level, pinned at one edge, and swings down."""
    start = State(0.0, system.rest, np.zeros_like(system.rest), np.zeros_like(system.rest))
    # L-BFGS cannot be used: a flat membrane at rest has no transverse stiffness for its preconditioner.
    states = run(integrator_by_name("BACKWARD_EULER"), system, damping, start, h, count, 1e-3, minimise_newton)
    return np.array([energies(system, state).kinetic for state in states])


def turning_points(kinetic: Array) -> list[int]:
    """Return the indices of the large local maxima of a curve of kinetic energy."""
    high = [
        k for k in range(1, len(kinetic) - 1) if kinetic[k] > max(kinetic[k - 1], kinetic[k + 1], 0.3 * kinetic.max())
    ]
    return [k for n, k in enumerate(high) if n == 0 or k - high[n - 1] > 10]


def peak_reduction(plain: Array, kinetic: Array, k: int) -> float:
    """Return by how much the other curve's maximum near index k is lower."""
    near = slice(max(k - 8, 0), k + 9)
    return float(plain[near].max() - kinetic[near].max())


def hem_heights(potential: object, system: System, h: float, count: int) -> Array:
    """Return the mean heights of the hem of an overdamped cloth that is released hanging, unstretched."""
    x = np.column_stack([np.zeros(len(system.rest)), system.rest[:, 1], -system.rest[:, 0]])
    hem = system.rest[:, 0] > 0.999
    start = State(0.0, x, np.zeros_like(x), np.zeros_like(x))
    states = run(
        integrator_by_name("BACKWARD_EULER"),
        system,
        PotentialDamping(potential),
        start,
        h,
        count,
        1e-3,
        minimise_newton,
    )  # type: ignore[arg-type]
    return np.array([float(state.positions[hem, 2].mean()) for state in states])


def damping_potentials(system: System, beta: float) -> tuple[Dissipation, StiffnessDamping]:
    """Return strain-rate and Rayleigh damping of equal strength."""
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    rate = Dissipation(energy.strain, beta * energy.moduli, energy.weights, len(system.rest))
    return rate, StiffnessDamping(system.blocks[0].energies, beta)


@pytest.mark.slow
def test_strain_rate_damping_of_cloth() -> None:
    """Strain-rate damping acts on a sinking cloth like Rayleigh damping, and half as much on a swinging one.

    9 x 9 nodes; docs/validation/srd.md has 33 x 33.
    """
    system = cloth(9, np.arange(9))
    plain = swing_energies(None, system, 80, 0.01)
    strained, dragged = (
        swing_energies(PotentialDamping(one), system, 80, 0.01) for one in damping_potentials(system, 0.05)
    )
    points = turning_points(plain)
    assert points
    for k in points:
        assert peak_reduction(plain, strained, k) <= 0.5 * peak_reduction(plain, dragged, k)
    heights = [hem_heights(one, system, 0.02, 40) for one in damping_potentials(system, 0.5)]
    # The cloth sinks without swinging back, in the same way under both.
    way = float(np.ptp(heights[1]))
    assert way > 0.003
    assert (np.diff(heights[0]) < 1e-3 * way).all()
    assert np.abs(heights[0] - heights[1]).max() < 0.1 * way
