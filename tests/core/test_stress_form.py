"""Stress formulation of [You]: it equals DampSim's step with kappa = 0 and reproduces the thesis's two examples."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dampsim.core.base.arrays import Array
from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.geometry.mesh.rigid_motion import rigid_mode_basis
from dampsim.core.literature.papers.flat_scenes import (
    annulus,
    pressed_trapezoid,
    pulled_annulus,
    trapezoid,
    triangle_membrane,
)
from dampsim.core.literature.papers.rate_step import TraditionalStep
from dampsim.core.literature.papers.stress_form import StressForm, _steepest_descent
from dampsim.core.materials.strain_energy import StrainEnergy, isotropic_moduli
from dampsim.core.materials.strains import GreenStrain
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import TauKappaLaw
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System, build_system

TAU, H = 0.5, 0.02


def flat_body(pinned: bool) -> System:
    plain = trapezoid()
    held = plain.pinned if pinned else np.zeros(0, dtype=np.int64)
    (triangles,) = plain.blocks[0].groups
    return triangle_membrane(plain.rest[:, :2], triangles, np.linspace(0.5, 1.5, len(plain.rest)), 3.0, 1.0, held)


def solid_body(pinned: bool) -> System:
    rest, tets = box_tets((1.0, 0.5, 0.5), (2, 1, 1))
    corners = rest[tets]
    volumes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 6.0
    energy = StrainEnergy(GreenStrain(rest, tets), isotropic_moduli(3.0, 1.0, 3), volumes)
    held = np.flatnonzero(rest[:, 0] < 1e-9) if pinned else np.zeros(0, dtype=np.int64)
    mass = np.linspace(0.5, 1.5, len(rest))
    return build_system(
        rest, tets, mass, (energy,), np.zeros(3), held, np.full(len(held), np.inf), has_eigenvalues=False
    )


def moving_state(system: System, seed: int = 2) -> tuple[Array, Array]:
    """Return deformed positions and velocities, in the plane of a flat body."""
    rng = np.random.default_rng(seed)
    x = system.rest + 0.08 * rng.standard_normal(system.rest.shape) * (np.ptp(system.rest, axis=0) > 0.0)
    v = 0.5 * rng.standard_normal(x.shape) * (np.ptp(system.rest, axis=0) > 0.0)
    x[system.pinned], v[system.pinned] = system.rest[system.pinned], 0.0
    return x, v


def dampsim_step(system: System, x: Array, v: Array, h: float, tau: float = TAU) -> Array:
    controls = Controls((TauKappaLaw(0.0, tau),) * len(system.regions), 1.0, 1e-12)
    place = x[system.pinned]
    state = State(0.0, x, v, np.zeros_like(x))
    state, report = Stepper(system).step(state, (BlockInputs(place, place),), h, controls)
    assert report.outcome.name == "CONVERGED"
    return state.positions


def stress_form_step(system: System, x: Array, v: Array, h: float, descent: bool = False) -> Array:
    return StressForm(system.blocks[0].energies[0], system.mass, system.is_fixed, TAU).step(x, v, h, descent)[0]


@pytest.mark.parametrize("make", [flat_body, solid_body])
def test_pinned_step_matches_stress_form(make: object) -> None:
    system = make(True)  # type: ignore[operator]
    x, v = moving_state(system)
    moved = np.abs(stress_form_step(system, x, v, H) - x).max()
    assert np.abs(dampsim_step(system, x, v, H) - stress_form_step(system, x, v, H)).max() < 1e-6
    assert moved > 1e-3
    # The initial velocity has no effect.
    assert np.abs(dampsim_step(system, x, 0.0 * v, H) - dampsim_step(system, x, v, H)).max() < 1e-9


def test_steepest_descent_finds_same_stress() -> None:
    system = trapezoid()
    x, v = moving_state(system)
    # The descent is slow; it ends where the energy changes by rounding only.
    assert np.abs(stress_form_step(system, x, v, H, descent=True) - stress_form_step(system, x, v, H)).max() < 1e-6
    form = StressForm(system.blocks[0].energies[0], system.mass, system.is_fixed, TAU)
    doubled = form.step(x, v, H, descent=True, doubling=True)[0]
    assert np.abs(doubled - stress_form_step(system, x, v, H)).max() < 1e-6


def test_steepest_descent_step_sizes() -> None:
    """The step doubles after a success and stays after a halving: [You] 3.2, on a parabola along one line."""
    tried: list[float] = []

    def value_gradient(point: Array) -> tuple[float, Array]:
        tried.append(float(point[0]))
        return 0.15 * float(point @ point), 0.3 * point

    _steepest_descent(value_gradient, np.ones(1), 100, True)
    at, first, halvings, kept, doubled = 1.0, 1.0, 0, 0, 0
    for point in tried[1:30]:
        length = first * 0.5**halvings
        assert point == pytest.approx(at * (1.0 - 0.3 * length), rel=1e-9)
        if abs(point) > abs(at):
            halvings += 1
            continue
        kept, doubled = kept + (halvings > 0), doubled + (halvings == 0)
        at, first, halvings = point, length if halvings else 2.0 * length, 0
    assert min(kept, doubled) > 3


@pytest.mark.parametrize("make", [flat_body, solid_body])
def test_unpinned_step_differs_by_torque(make: object) -> None:
    """An unpinned step equals the stress form except for the torque about the old positions."""
    system = make(False)  # type: ignore[operator]
    x, v = moving_state(system)
    (energy,) = system.blocks[0].energies
    R = rigid_mode_basis(x, np.zeros((0, 3)), system.mass).reshape(x.size, -1)
    mass = system.mass.repeat(3)
    kept = R @ (R.T @ (mass * v.ravel()))

    def projected(h: float) -> Array:
        """Solve by Newton's method with a constant rigid velocity about the old positions, so without torque."""
        w = kept.copy()
        for _ in range(60):
            y = x + h * w.reshape(x.shape)
            g = mass * w + TAU * energy.value_gradient(y)[1].ravel()
            K = np.diag(mass) + h * TAU * energy.hessian(y, True).toarray()
            border = (mass[:, None] * R).T
            whole = np.block([[K, border.T], [border, np.zeros((len(border), len(border)))]])
            right = np.concatenate([-g, border @ (kept - w)])
            change = np.linalg.lstsq(whole, right, rcond=None)[0][: len(w)]
            w = w + change
            if np.abs(change).max() < 1e-13:
                break
        return np.asarray(x + h * w.reshape(x.shape))

    assert np.abs(projected(H) - stress_form_step(system, x, v, H)).max() < 1e-6
    # DampSim's force acts at the new positions and conserves angular momentum there, a difference of first order in h.
    off = [
        np.abs(dampsim_step(system, x, v, h) - stress_form_step(system, x, v, h)).max() / h for h in (H, H / 2, H / 4)
    ]
    for coarse, fine in itertools.pairwise(off):
        assert coarse / fine == pytest.approx(2.0, rel=0.2)


def distance_courses(system: System, start: Array, tau: float, h: float, until: float) -> tuple[Array, Array, Array]:
    """Return times, d1 and d2: the norm of all nodes' distances from rest, and the largest distance, in m."""
    stepper = Stepper(system)
    controls = Controls((TauKappaLaw(0.0, tau),) * len(system.regions), 1.0, 1e-10)
    place = system.rest[system.pinned]
    state = State.at_rest(start)
    off = [start - system.rest]
    for _ in range(round(until / h)):
        state, report = stepper.step(state, (BlockInputs(place, place),), h, controls)
        assert report.outcome.name == "CONVERGED"
        off.append(state.positions - system.rest)
    way = np.linalg.norm(np.array(off), axis=2)
    return h * np.arange(len(way)), np.linalg.norm(way, axis=1), way.max(axis=1)


def relative_course(system: System, start: Array, tau: float, h: float, until: float) -> tuple[Array, Array]:
    """Return times and d1 relative to its initial value."""
    times, d1, _ = distance_courses(system, start, tau, h, until)
    return times, d1 / d1[0]


def settle_time(times: Array, distance: Array) -> float:
    return float(times[np.flatnonzero(distance > 0.01)[-1] + 1])


def test_example_1_settle_times() -> None:
    system = trapezoid()
    assert (len(system.rest), len(system.blocks[0].groups[0])) == (12, 12)
    start = pressed_trapezoid(system)
    slow, quick = relative_course(system, start, 1.0, 0.01, 4.0), relative_course(system, start, 4.0, 0.01, 1.5)
    assert settle_time(*slow) == pytest.approx(3.0, abs=0.3)
    assert settle_time(*quick) == pytest.approx(0.75, abs=0.08)
    scaled = np.interp(slow[0], 4.0 * quick[0], quick[1])
    assert np.abs(scaled - slow[1]).max() < 0.05


def test_example_2_mesh_matches_thesis() -> None:
    system = annulus()
    (triangles,) = system.blocks[0].groups
    assert len(triangles) == 414
    ends = system.rest[triangles[:, [0, 1, 2]]] - system.rest[triangles[:, [1, 2, 0]]]
    np.testing.assert_allclose(np.linalg.norm(ends, axis=2), 1.0, rtol=1e-12)
    # Table 4.2 lists wavelengths of 1, 8 and 16.
    assert np.linalg.norm(system.rest, axis=1).max() == pytest.approx(8.0, abs=0.25)
    assert system.rest[system.pinned, 1].max() < system.rest[~system.is_fixed, 1].min()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["all", "side"])
def test_example_2_scales_with_tau(how: str) -> None:
    """The motion depends on tau times time only, up to an error of the step size."""
    system = annulus()
    start = pulled_annulus(system, how)
    # The step's equation contains tau h only: tau = 2 with h equals tau = 1 with 2 h, to the solver's tolerance.
    twice, once = distance_courses(system, start, 2.0, 0.05, 1.0), distance_courses(system, start, 1.0, 0.1, 2.0)
    np.testing.assert_allclose(twice[1], once[1], atol=1e-6 * once[1][0])
    # At the same h they differ by a first-order error, which halves with the step.
    off = []
    for h in (0.05, 0.025):
        (_, fast, _), (_, slow, _) = (
            distance_courses(system, start, 2.0, h, 1.0),
            distance_courses(system, start, 1.0, h, 2.0),
        )
        off.append(np.abs(fast - slow[::2])[1:].max() / slow[0])
    assert 0.0 < off[1] < 0.75 * off[0]


@pytest.mark.slow
def test_traditional_step_critical_wavelength() -> None:
    """A triangle with one free node in shear: [You] (4.25) for the wavelength of its own frequency."""
    rest = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    triangle = triangle_membrane(rest, np.array([[0, 1, 2]]), np.array([1.0, 1.0, 1.0]), 0.0, 1.0, np.array([0, 1]))
    area, (energy,) = 0.5 * np.sqrt(0.75), triangle.blocks[0].energies
    # In shear the top node has k = A mu/h^2 and C = A psi/h^2; critical damping is C = 2 sqrt(k m).
    k = area / 0.75
    assert energy.hessian(triangle.rest, False)[6, 6] == pytest.approx(k, rel=1e-9)
    swings = []
    for psi in (2.0 * np.sqrt(k) / k, 0.3):
        x, v = triangle.rest.copy(), np.zeros((3, 3))
        x[2, 0] += 1e-3
        made, course = TraditionalStep(triangle, 0.0, psi), []
        for _ in range(4000):
            x, v = made.step(x, v, 0.01)
            course.append(x[2, 0] - 0.5)
        swings.append(min(course) / 1e-3)
    # At critical damping it does not overshoot, except for the error of the step.
    assert swings[0] > -1e-3
    zeta = 0.3 * k / (2.0 * np.sqrt(k))
    assert swings[1] == pytest.approx(-np.exp(-np.pi * zeta / np.sqrt(1.0 - zeta**2)), rel=0.03)


def test_stress_form_equality_with_other_masses() -> None:
    system = flat_body(True)
    heavy = replace(system, blocks=(replace(system.blocks[0], mass=7.0 * system.mass),))
    x, v = moving_state(heavy)
    assert np.abs(dampsim_step(heavy, x, v, H) - stress_form_step(heavy, x, v, H)).max() < 1e-6


def test_traditional_step_matches_equations() -> None:
    """One step of [You] (4.3) to (4.9): damping by the strain rate of the predicted motion."""
    system = flat_body(True)
    x, v = moving_state(system)
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    phi, psi, h = 0.3, 0.7, 0.05
    mass = system.mass[:, None]
    elastic = -energy.value_gradient(x)[1]
    ahead = np.where(system.is_fixed[:, None], v, v + h * elastic / mass)
    # The damping force is the slope of half the dissipated power, W with moduli phi and psi and the rate as its strain.
    slope = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-4
        powers = [_half_power(energy, x + h * ahead, ahead + sign * step, phi, psi) for sign in (1.0, -1.0)]
        slope[place] = (powers[0] - powers[1]) / 2e-4
    wanted = np.where(system.is_fixed[:, None], v, ahead - h * slope / mass)
    after_x, after_v = TraditionalStep(system, phi, psi).step(x, v, h)
    # Central differences of a quadratic function are exact up to rounding.
    np.testing.assert_allclose(after_v, wanted, atol=1e-8)
    np.testing.assert_allclose(after_x, x + h * wanted, atol=1e-8)


def _half_power(energy: StrainEnergy, x: np.ndarray, v: np.ndarray, phi: float, psi: float) -> float:
    """Return the integral of phi/2 tr(E')^2 + psi E':E' over triangles, with the rate E' of Green's strain, in W."""
    total, rest = 0.0, trapezoid().rest[:, :2]
    for a, b, c in energy.strain.elements:
        sides = np.stack([rest[b] - rest[a], rest[c] - rest[a]], axis=1)
        F, rate = (np.stack([one[b] - one[a], one[c] - one[a]], axis=1) @ np.linalg.inv(sides) for one in (x, v))
        strain_rate = 0.5 * (F.T @ rate + rate.T @ F)
        density = 0.5 * phi * np.trace(strain_rate) ** 2 + psi * (strain_rate**2).sum()
        total += 0.5 * abs(float(np.linalg.det(sides))) * float(density)
    return total
