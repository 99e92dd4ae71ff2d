"""Strain-rate dissipation ([SRD]): derivatives, rigid motions, and the spring experiment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.arrays import Array, Index
from dampsim.core.damping.damping import ByPotential, DampedBody, Damping
from dampsim.core.damping.dissipation import Dissipation
from dampsim.core.damping.rayleigh import Rayleigh, StiffnessDrag
from dampsim.core.damping.strain_rate import StrainRate
from dampsim.core.damping.traditional import viscosities
from dampsim.core.elements.bending import SMALL_ANGLE, Angle, Tangent, bending
from dampsim.core.elements.strains import Biot, Green, Spatial, Strain, Stretch
from dampsim.core.energies import Material, StVK, TetElasticity
from dampsim.core.energies.strain_energy import StrainEnergy, isotropic
from dampsim.core.energies.tetrahedra import tet_volumes
from dampsim.core.geometry.box import box_tets
from dampsim.core.integrators import Integration
from dampsim.core.integrators.implicit import BackwardEuler, ImplicitMidpoint
from dampsim.core.measure.release import pulled, unloaded
from dampsim.core.papers.bar import bar
from dampsim.core.papers.flat_scenes import cloth
from dampsim.core.papers.rate_step import Jacobian, RateStep
from dampsim.core.scene.parameters import Settings
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.stepping.controls import Controls
from dampsim.core.stepping.law import BackwardEulerLaw
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State

RNG = np.random.default_rng(5)
TET_REST, TETS = box_tets((1.0, 0.8, 0.6), (1, 1, 1))
FLAT_REST = RNG.random((4, 2)) + np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
FACES: Index = np.array([[0, 1, 2], [1, 3, 2]])
LINKS: Index = np.array([[0, 1], [1, 2]])
ROD: Index = np.array([[0, 1, 2]])


def lifted(flat: Array) -> Array:
    return np.column_stack([flat, np.zeros(len(flat))])


ROD_REST = np.array([[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [2.0, 0.9, 0.4]])
# name: the strain, its elements' rest positions, and components.
STRAINS: dict[str, tuple[Strain, Array, int]] = {
    "green tets": (Green(TET_REST, TETS), TET_REST, 6),
    "green triangles": (Green(FLAT_REST, FACES), lifted(FLAT_REST), 3),
    "biot tets": (Biot(TET_REST, TETS), TET_REST, 6),
    "biot triangles": (Biot(FLAT_REST, FACES), lifted(FLAT_REST), 3),
    "springs": (Stretch(np.array([1.0, 0.7]), LINKS), ROD_REST, 1),
    "rod angle": (Angle(np.array([0.8]), ROD), ROD_REST, 1),
    "rod tangent": (Tangent(np.array([0.8]), ROD), ROD_REST, 3),
}
RATES = {**STRAINS, "spatial tets": (Spatial(TET_REST, TETS), TET_REST, 6)}


def bent(rest: Array, size: float = 0.15) -> Array:
    return rest + size * RNG.standard_normal(rest.shape)


def viscosity(components: int) -> Array:
    half = RNG.standard_normal((components, components))
    return np.asarray(half @ half.T + 0.1 * np.eye(components))


def dissipation(name: str) -> tuple[Dissipation, Array]:
    strain, rest, count = RATES[name]
    weights = RNG.uniform(0.5, 2.0, len(strain.elements))
    return Dissipation(strain, viscosity(count), weights, len(rest)), rest


def slope(function: Callable[[Array], Array], x: Array, way: Array, step: float = 1e-6) -> Array:
    return np.asarray((function(x + step * way) - function(x - step * way)) / (2.0 * step))


@pytest.mark.parametrize("name", STRAINS)
def test_every_strains_gradient_and_second_derivatives_are_its_slopes(name: str) -> None:
    strain, rest, _ = STRAINS[name]
    x, way = bent(rest), RNG.standard_normal(rest.shape)

    def corners(positions: Array) -> Array:
        return positions[strain.elements]

    flat = way[strain.elements].reshape(len(strain.elements), -1, 1)
    exact = (strain.gradient(corners(x)) @ flat)[:, :, 0]
    np.testing.assert_allclose(slope(lambda p: strain.values(corners(p)), x, way), exact, atol=1e-7)
    stress = RNG.standard_normal(exact.shape)
    numeric = slope(lambda p: np.einsum("mc,mcw->mw", stress, strain.gradient(corners(p))), x, way, 1e-5)
    np.testing.assert_allclose((strain.bent(corners(x), stress) @ flat)[:, :, 0], numeric, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in RATES if name != "rod tangent"])
def test_a_rigid_motion_of_a_deformed_body_has_no_damping(name: str) -> None:
    for _ in range(100):
        potential, rest = dissipation(name)
        x = bent(rest, 0.3)
        v = RNG.standard_normal(3) + np.cross(RNG.standard_normal(3), x)
        # Against the force that as fast a deformation of that body has.
        usual = np.abs(potential.force(x, RNG.standard_normal(x.shape))).max()
        assert np.abs(potential.force(x, v)).max() < 1e-11 * usual * max(float(np.abs(v).max()), 1.0)


@pytest.mark.parametrize("angle", [0.0, 0.01, SMALL_ANGLE])
def test_a_nearly_straight_rod_resists_turning_by_its_angle_at_most(angle: float) -> None:
    """The vector of [SRD] (24) turns with the rod, so that a spin about it has a rate: as little as the rod is bent."""
    damping = Dissipation(Tangent(np.array([1.0]), ROD), np.eye(3), np.ones(1), 3)
    x = folded(angle)[0]
    for _ in range(100):
        spin = RNG.standard_normal(3)
        v = RNG.standard_normal(3) + np.cross(spin, x)
        # Of unit viscosity and lengths: the middle node feels twice what the ends do.
        assert np.abs(damping.force(x, v)).max() <= 2.1 * angle * float(np.linalg.norm(spin)) + 1e-12


@pytest.mark.parametrize("name", RATES)
def test_the_force_is_the_slope_of_the_potential_and_takes_energy_out(name: str) -> None:
    potential, rest = dissipation(name)
    x, v = bent(rest), RNG.standard_normal(rest.shape)
    matrix = potential.matrix(x)
    np.testing.assert_allclose(potential.force(x, v), -(matrix @ v.ravel()).reshape(v.shape), atol=1e-10)
    assert float(np.vdot(potential.force(x, v), v)) < 0.0
    assert np.linalg.eigvalsh(matrix.toarray()).min() > -1e-9 * abs(matrix).max()


@pytest.mark.parametrize("name", STRAINS)
def test_the_jacobian_by_positions_is_the_forces_slope(name: str) -> None:
    potential, rest = dissipation(name)
    x, v, way = bent(rest), RNG.standard_normal(rest.shape), RNG.standard_normal(rest.shape)
    whole = (potential.by_positions(x, v, whole=True) @ way.ravel()).reshape(way.shape)
    numeric = slope(lambda p: potential.force(p, v), x, way, 1e-6)
    np.testing.assert_allclose(whole, numeric, atol=1e-4 * np.abs(numeric).max())
    part = potential.by_positions(x, v, whole=False)
    assert abs(part - part.T).max() < 1e-6 * abs(part).max()
    # Clamped, the geometric part of a force only ever holds back.
    if name.startswith("green"):
        clamped = -potential.by_positions(x, v, whole=False, clamped=True).toarray()
        assert np.linalg.eigvalsh(clamped).min() > -1e-9 * np.abs(clamped).max()


@pytest.mark.parametrize("name", STRAINS)
def test_an_energy_of_a_strain_has_true_derivatives(name: str) -> None:
    strain, rest, count = STRAINS[name]
    energy = StrainEnergy(strain, viscosity(count), RNG.uniform(0.5, 2.0, len(strain.elements)))
    x, way = bent(rest), RNG.standard_normal(rest.shape)
    numeric = slope(lambda p: np.array(energy.value_gradient(p)[0]), x, way, 1e-6)
    assert float(np.vdot(energy.value_gradient(x)[1], way)) == pytest.approx(float(numeric), rel=1e-6)
    numeric = slope(lambda p: energy.value_gradient(p)[1], x, way, 1e-5).ravel()
    np.testing.assert_allclose(energy.hessian(x, False) @ way.ravel(), numeric, atol=1e-4 * np.abs(numeric).max())


def test_green_strain_energy_is_the_elastic_stvk() -> None:
    material = Material(1000.0, 0.3, 1.0)
    volumes = tet_volumes(TET_REST, TETS)
    energy = StrainEnergy(Green(TET_REST, TETS), isotropic(material.lam, material.mu, 3), volumes)
    other = TetElasticity(TET_REST, TETS, volumes, StVK(material))
    x = bent(TET_REST)
    assert energy.value_gradient(x)[0] == pytest.approx(other.value_gradient(x)[0], rel=1e-12)
    np.testing.assert_allclose(energy.value_gradient(x)[1], other.value_gradient(x)[1], atol=1e-9)
    assert abs(energy.hessian(x, False) - other.hessian(x, False)).max() < 1e-8


def folded(angle: float) -> Array:
    return np.array([[[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]]])


def test_a_rods_two_strains_agree_across_the_switch_and_straight_rods_have_finite_forces() -> None:
    lengths = np.array([1.0])
    below, above = folded(SMALL_ANGLE - 1e-9), folded(SMALL_ANGLE + 1e-9)
    assert [type(kind) for kind, _ in bending(below, lengths, ROD)] == [Tangent]
    assert [type(kind) for kind, _ in bending(above, lengths, ROD)] == [Angle]
    v = RNG.standard_normal((3, 3))
    v[:, 2] = 0.0
    found = []
    for corners, kind in ((below, Tangent), (above, Angle)):
        strain = kind(lengths, ROD)
        energy = StrainEnergy(strain, np.eye(strain.values(corners).shape[1]), np.ones(1))
        damping = Dissipation(strain, energy.moduli, np.ones(1), 3)
        found.append((energy.value_gradient(corners[0]), damping.force(corners[0], v)))
    # tan theta is theta to first order; at the switch the next term is theta^2, and three times that in its slope.
    off = SMALL_ANGLE**2
    assert found[0][0][0] == pytest.approx(found[1][0][0], rel=off)
    np.testing.assert_allclose(found[0][0][1], found[1][0][1], rtol=2.0 * off, atol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=3.0 * off, atol=1e-9)
    straight = folded(0.0)
    energy = StrainEnergy(Tangent(lengths, ROD), np.eye(3), np.ones(1))
    assert energy.value_gradient(straight[0])[0] == 0.0
    assert np.isfinite(energy.hessian(straight[0], False).toarray()).all()
    assert np.abs(Dissipation(Tangent(lengths, ROD), np.eye(3), np.ones(1), 3).force(straight[0], v)).max() > 0.0


def test_the_strain_rate_in_space_feels_no_stretch_of_what_it_damps() -> None:
    """The rate of deformation of x -> a x at rate r is r/a, that of Green's strain r a."""
    for stretch in (0.5, 1.0, 2.0):
        x, v = stretch * TET_REST, TET_REST
        for strain, expected in (
            (Spatial(TET_REST, TETS), 1.0 / stretch),
            (Green(TET_REST, TETS), stretch),
            (Biot(TET_REST, TETS), 1.0),
        ):
            rate = strain.gradient(x[TETS]) @ v[TETS].reshape(len(TETS), -1, 1)
            np.testing.assert_allclose(rate[:, :3, 0], expected, rtol=1e-9)
            np.testing.assert_allclose(rate[:, 3:, 0], 0.0, atol=1e-9)


def test_table_4_2_of_young_is_the_formulas_over_the_root_of_two() -> None:
    phi, psi = viscosities(3.0, 1.0, 1.0, 1.0)
    assert psi == pytest.approx(1.0 / np.pi, rel=1e-12)
    assert psi / np.sqrt(2.0) == pytest.approx(0.22508, abs=5e-6)
    assert phi > 0.0
    # At a Poisson's ratio of 1/3, lambda = 2 mu, nothing is left for phi; below it is negative.
    assert viscosities(2.0, 1.0, 1.0, 1.0)[0] == pytest.approx(0.0, abs=1e-12)
    assert viscosities(1.0, 1.0, 1.0, 1.0)[0] < 0.0


@pytest.mark.parametrize("newmark", [False, True])
def test_a_step_that_feels_its_damping_at_its_end_ends_alike_with_every_jacobian(newmark: bool) -> None:
    system, rng = cloth(4, np.arange(4)), np.random.default_rng(0)
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    damping = Dissipation(energy.strain, 0.05 * energy.moduli, energy.weights, len(system.rest))
    x, v = system.rest + 0.02 * rng.standard_normal(system.rest.shape), rng.standard_normal(system.rest.shape)
    x[system.pinned], v[system.pinned] = system.rest[system.pinned], 0.0
    made = {one: RateStep(system, energy, damping, one, False, newmark).step(x, v, 0.005) for one in Jacobian}
    assert all(one.converged for one in made.values())
    for one in made.values():
        np.testing.assert_allclose(one.velocities, made[Jacobian.WHOLE].velocities, atol=1e-8)
    # With the true slope Newton's method doubles the digits each time; any other matrix takes longer.
    assert made[Jacobian.WHOLE].iterations <= 7
    assert all(made[Jacobian.WHOLE].iterations < made[one].iterations for one in Jacobian if one is not Jacobian.WHOLE)


def test_the_step_that_feels_its_damping_at_its_end_is_dampsims_for_short_steps() -> None:
    """DampSim takes C where the step begins: a difference of second order in each step."""
    system, rng = cloth(4, np.arange(4)), np.random.default_rng(0)
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    damping = Dissipation(energy.strain, 0.05 * energy.moduli, energy.weights, len(system.rest))
    x, v = system.rest.copy(), 0.3 * rng.standard_normal(system.rest.shape)
    v[system.pinned] = 0.0
    state, place = State(0.0, x, v, np.zeros_like(x)), system.rest[system.pinned]
    off = []
    for h in (1e-5, 5e-6):
        lagged = Integration(BackwardEuler, system, ByPotential(damping), minimise_newton)
        after, _ = lagged.step(state, (BlockInputs(place, place),), h, Controls((BackwardEulerLaw(),), 1.0, 1e-12))
        off.append(np.abs(after.velocities - RateStep(system, energy, damping).step(x, v, h).velocities).max())
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.15)


def test_a_turned_body_is_damped_alike() -> None:
    potential, rest = dissipation("green tets")
    x, v = bent(rest), RNG.standard_normal(rest.shape)
    turn = Rotation.from_rotvec([1.0, 2.0, -0.5]).as_matrix()
    np.testing.assert_allclose(potential.force(x @ turn.T, v @ turn.T), potential.force(x, v) @ turn.T, atol=1e-10)


@pytest.mark.slow
def test_the_damping_ratio_is_that_of_the_first_swing() -> None:
    ratio = 0.08
    system = bar((10, 2, 2), material=Material(2e5, 0.35, 1000.0))
    region = system.regions[0]
    material, dials = Material(2e5, 0.35, 1000.0), Settings(damping_ratio=ratio, poisson=0.35).as_dict()
    body = DampedBody(system.blocks[0], dials, material, region.eigenvalue)
    start = pulled(unloaded(system), 0.01)
    for kind in (StrainRate, Rayleigh):
        stepping = Integration(ImplicitMidpoint, system, kind(body))
        state, place = start, system.rest[system.pinned]
        h = 2.0 * np.pi / np.sqrt(region.eigenvalue) / 120.0
        along = []
        for _ in range(5 * 120):
            held = (BlockInputs(place, place),)
            state, _ = stepping.step(state, held, h, Controls((BackwardEulerLaw(),), 1.0, 1e-8))
            along.append(float(np.vdot(state.positions - system.rest, start.positions - system.rest)))
        curve = np.array(along)
        peaks = [k for k in range(1, len(curve) - 1) if curve[k] > max(curve[k - 1], curve[k + 1], 0.0)]
        decrement = np.log(curve[peaks[0]] / curve[peaks[3]]) / 3.0
        # The first mode is nearly all of it; what else swings is gone sooner.
        assert decrement / np.hypot(2.0 * np.pi, decrement) == pytest.approx(ratio, rel=0.03)


def dialled(kind: type[Damping], **dials: float) -> tuple[Array, DampedBody]:
    """The dense matrix at rest of a bar under dials, and the bar."""
    material = Material(2e5, 0.35, 1000.0)
    system = bar((2, 1, 1), clamped=False, material=material)
    values = Settings(poisson=0.35, **dials).as_dict()  # type: ignore[arg-type]
    body = DampedBody(system.blocks[0], values, material, 100.0)
    matrix = kind(body).matrix(system.rest)
    assert matrix is not None
    return matrix.toarray(), body


def test_volume_and_shape_are_damped_one_by_one() -> None:
    plain, body = dialled(StrainRate)
    rest, material = body.block.rest, body.material
    volume = float(np.prod(np.ptp(rest, axis=0)))
    beta = 2.0 * 0.1 / 10.0
    for lam, mu in ((0.0, 1.0), (5.0, 0.0), (3.0, 7.0)):
        matrix, _ = dialled(StrainRate, lambda_d=lam, mu_d=mu)
        # Growing alike in all directions, v = x: tr eps' = 3; shearing v = (y, 0, 0): eps' has 1/2 twice.
        grown, sheared = rest.ravel(), (rest[:, [1]] * np.array([1.0, 0.0, 0.0])).ravel()
        powers = [float(v @ matrix @ v) / (beta * volume) for v in (grown, sheared)]
        expected = [9.0 * lam * material.lam + 6.0 * mu * material.mu, mu * material.mu]
        np.testing.assert_allclose(powers, expected, rtol=1e-9, atol=1e-9 * material.lam)
    assert np.array_equal(dialled(StrainRate, lambda_d=1.0, mu_d=1.0)[0], plain)


def test_rayleighs_alpha_adds_a_multiple_of_the_mass_and_nothing_by_default() -> None:
    plain, body = dialled(Rayleigh)
    weighed, _ = dialled(Rayleigh, alpha=2.5)
    mass = np.diag(body.block.mass.repeat(3))
    np.testing.assert_allclose(weighed - plain, 2.5 * mass, atol=1e-12 * np.abs(plain).max())
    # Flying is slowed by it alone: at rest no rigid motion has stiffness.
    flying = np.tile([1.0, 0.0, 0.0], len(body.block.rest))
    assert float(flying @ plain @ flying) == pytest.approx(0.0, abs=1e-9 * np.abs(plain).max())
    assert float(flying @ weighed @ flying) == pytest.approx(2.5 * body.block.mass.sum(), rel=1e-9)


def test_the_whole_stiffness_of_crushed_tets_may_feed_and_its_positive_part_never_does() -> None:
    energy = TetElasticity(TET_REST, TETS, tet_volumes(TET_REST, TETS), StVK(Material(1000.0, 0.3, 1.0)))
    x = 0.4 * TET_REST
    least = [
        np.linalg.eigvalsh(StiffnessDrag((energy,), 0.1, whole).matrix(x).toarray()).min() for whole in (True, False)
    ]
    assert least[0] < -1.0
    assert least[1] > -1e-9
    assert (
        abs(StiffnessDrag((energy,), 0.1, True).matrix(TET_REST) - StiffnessDrag((energy,), 0.1).matrix(TET_REST)).max()
        < 1e-9
    )


def test_one_axis_can_be_damped_more_than_the_others() -> None:
    system = bar((3, 1, 1), material=Material(2e5, 0.35, 1000.0))
    rest = system.rest
    power = {}
    for axis in "XYZ":
        for times in (1.0, 8.0):
            dials = Settings(poisson=0.35, damp_axis=axis, anisotropy=times).as_dict()
            body = DampedBody(system.blocks[0], dials, Material(2e5, 0.35, 1000.0), 100.0)
            matrix = StrainRate(body).matrix(rest)
            for way in range(3):
                v = np.zeros_like(rest)
                v[:, way] = rest[:, way]
                power[axis, times, way] = float(v.ravel() @ (matrix @ v.ravel()))
    for k, axis in enumerate("XYZ"):
        for way in range(3):
            ratio = power[axis, 8.0, way] / power[axis, 1.0, way]
            assert ratio == pytest.approx(8.0 if way == k else 1.0, rel=1e-9)
