"""Strain-rate dissipation ([SRD]): derivatives, rigid motions, steps and damping ratios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.base.arrays import Array, Index
from dampsim.core.base.errors import ParameterError
from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.literature.damping.damping import DampedBody, Damping, PotentialDamping
from dampsim.core.literature.damping.viscous_dampings import (
    Dissipation,
    PowerLawDissipation,
    RayleighDamping,
    StiffnessDamping,
    StrainRateDamping,
    StrainRatePotential,
    viscosities,
)
from dampsim.core.literature.integrators import IntegratorStepper
from dampsim.core.literature.integrators.methods import BackwardEuler, ImplicitMidpoint
from dampsim.core.literature.papers.compare import bar
from dampsim.core.literature.papers.flat_scenes import cloth
from dampsim.core.literature.papers.rate_step import PositionJacobian, RateStep
from dampsim.core.materials import ElasticMaterial, StVK, TetElasticity
from dampsim.core.materials.rod_bending import SMALL_ANGLE, AngleStrain, TangentStrain, rod_bending_strains
from dampsim.core.materials.strain_energy import StrainEnergy, isotropic_moduli
from dampsim.core.materials.strains import BiotStrain, GreenStrain, SpatialStrain, SpringStrain, Strain
from dampsim.core.materials.tetrahedra import tet_volumes
from dampsim.core.measure.release import deflect, without_gravity
from dampsim.core.scene.parameters import Settings
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State

RNG = np.random.default_rng(5)
TET_REST, TETS = box_tets((1.0, 0.8, 0.6), (1, 1, 1))
FLAT_REST = RNG.random((4, 2)) + np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
FACES: Index = np.array([[0, 1, 2], [1, 3, 2]])
LINKS: Index = np.array([[0, 1], [1, 2]])
ROD: Index = np.array([[0, 1, 2]])


def with_zero_z(flat: Array) -> Array:
    return np.column_stack([flat, np.zeros(len(flat))])


ROD_REST = np.array([[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [2.0, 0.9, 0.4]])
# Each strain, its elements' rest positions, and its number of components.
STRAINS: dict[str, tuple[Strain, Array, int]] = {
    "green tets": (GreenStrain(TET_REST, TETS), TET_REST, 6),
    "green triangles": (GreenStrain(FLAT_REST, FACES), with_zero_z(FLAT_REST), 3),
    "biot tets": (BiotStrain(TET_REST, TETS), TET_REST, 6),
    "biot triangles": (BiotStrain(FLAT_REST, FACES), with_zero_z(FLAT_REST), 3),
    "springs": (SpringStrain(np.array([1.0, 0.7]), LINKS), ROD_REST, 1),
    "rod angle": (AngleStrain(np.array([0.8]), ROD), ROD_REST, 1),
    "rod tangent": (TangentStrain(np.array([0.8]), ROD), ROD_REST, 3),
}
RATES = {**STRAINS, "spatial tets": (SpatialStrain(TET_REST, TETS), TET_REST, 6)}


def randomly_deformed(rest: Array, size: float = 0.15) -> Array:
    return rest + size * RNG.standard_normal(rest.shape)


def viscosity(components: int) -> Array:
    half = RNG.standard_normal((components, components))
    return np.asarray(half @ half.T + 0.1 * np.eye(components))


def dissipation(name: str) -> tuple[Dissipation, Array]:
    strain, rest, count = RATES[name]
    weights = RNG.uniform(0.5, 2.0, len(strain.elements))
    return Dissipation(strain, viscosity(count), weights, len(rest)), rest


def finite_difference(function: Callable[[Array], Array], x: Array, way: Array, step: float = 1e-6) -> Array:
    return np.asarray((function(x + step * way) - function(x - step * way)) / (2.0 * step))


@pytest.mark.parametrize("name", STRAINS)
def test_strain_derivatives_match_finite_differences(name: str) -> None:
    strain, rest, _ = STRAINS[name]
    x, way = randomly_deformed(rest), RNG.standard_normal(rest.shape)

    def corners(positions: Array) -> Array:
        return positions[strain.elements]

    flat = way[strain.elements].reshape(len(strain.elements), -1, 1)
    exact = (strain.gradient(corners(x)) @ flat)[:, :, 0]
    np.testing.assert_allclose(finite_difference(lambda p: strain.values(corners(p)), x, way), exact, atol=1e-7)
    stress = RNG.standard_normal(exact.shape)
    numeric = finite_difference(lambda p: np.einsum("mc,mcw->mw", stress, strain.gradient(corners(p))), x, way, 1e-5)
    np.testing.assert_allclose((strain.contracted_hessian(corners(x), stress) @ flat)[:, :, 0], numeric, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in RATES if name != "rod tangent"])
def test_rigid_motion_is_undamped(name: str) -> None:
    for _ in range(100):
        potential, rest = dissipation(name)
        x = randomly_deformed(rest, 0.3)
        v = RNG.standard_normal(3) + np.cross(RNG.standard_normal(3), x)
        # Relative to the force of a deformation at the same speed.
        usual = np.abs(potential.force(x, RNG.standard_normal(x.shape))).max()
        parts = (potential.strain, potential.viscosity, potential.weights, potential.node_count)
        for one in (potential, PowerLawDissipation(*parts, 4.0, 2.0)):
            assert np.abs(one.force(x, v)).max() < 1e-11 * usual * max(float(np.abs(v).max()), 1.0)


@pytest.mark.parametrize("angle", [0.0, 0.01, SMALL_ANGLE])
def test_nearly_straight_rod_spin_damping(angle: float) -> None:
    """The vector of [SRD] (24) rotates with the rod, so a spin has a strain rate proportional to the bend angle."""
    damping = Dissipation(TangentStrain(np.array([1.0]), ROD), np.eye(3), np.ones(1), 3)
    x = folded_rod(angle)[0]
    for _ in range(100):
        spin = RNG.standard_normal(3)
        v = RNG.standard_normal(3) + np.cross(spin, x)
        # With unit viscosity and lengths the middle node gets twice the force of the ends.
        assert np.abs(damping.force(x, v)).max() <= 2.1 * angle * float(np.linalg.norm(spin)) + 1e-12


@pytest.mark.parametrize("name", RATES)
def test_dissipation_force_removes_energy(name: str) -> None:
    """The force is the potential's negative gradient by velocities, and the matrix is positive semidefinite."""
    potential, rest = dissipation(name)
    x, v = randomly_deformed(rest), RNG.standard_normal(rest.shape)
    matrix = potential.matrix(x)
    np.testing.assert_allclose(potential.force(x, v), -(matrix @ v.ravel()).reshape(v.shape), atol=1e-10)
    assert float(np.vdot(potential.force(x, v), v)) < 0.0
    assert np.linalg.eigvalsh(matrix.toarray()).min() > -1e-9 * abs(matrix).max()


def power_law(name: str, exponent: float) -> tuple[PowerLawDissipation, Array]:
    quadratic, rest = dissipation(name)
    parts = (quadratic.strain, quadratic.viscosity, quadratic.weights, quadratic.node_count)
    return PowerLawDissipation(*parts, exponent, 2.0), rest


@pytest.mark.parametrize("exponent", [1.0, 1.5, 3.0, 4.0])
@pytest.mark.parametrize("name", RATES)
def test_power_law_derivatives_match_differences(name: str, exponent: float) -> None:
    """The force is the potential's negative gradient by velocities, and its Jacobian never adds energy."""
    potential, rest = power_law(name, exponent)
    x, v, way = randomly_deformed(rest), RNG.standard_normal(rest.shape), RNG.standard_normal(rest.shape)
    slope = finite_difference(lambda u: np.array(potential.value(x, u)), v, way)
    force = potential.force(x, v)
    assert float(np.vdot(force, way)) == pytest.approx(-float(slope), rel=1e-5, abs=1e-6)
    assert float(np.vdot(force, v)) < 0.0
    jacobian = potential.velocity_jacobian(x, v)
    numeric = finite_difference(lambda u: potential.force(x, u), v, way)
    np.testing.assert_allclose(
        (jacobian @ way.ravel()).reshape(way.shape), numeric, atol=1e-6 * max(np.abs(numeric).max(), 1.0)
    )
    assert np.linalg.eigvalsh(-jacobian.toarray()).min() > -1e-9 * abs(jacobian).max()
    assert abs(jacobian - jacobian.T).max() < 1e-9 * abs(jacobian).max()
    # The strain in space has a rate only, which depends on positions in another way.
    if name in STRAINS:
        whole = (potential.position_jacobian(x, v, include_unsymmetric=True) @ way.ravel()).reshape(way.shape)
        numeric = finite_difference(lambda p: potential.force(p, v), x, way)
        np.testing.assert_allclose(whole, numeric, atol=1e-4 * np.abs(numeric).max())


@pytest.mark.parametrize("name", RATES)
def test_power_of_two_is_quadratic_damping(name: str) -> None:
    potential, rest = power_law(name, 2.0)
    quadratic = Dissipation(potential.strain, potential.viscosity, potential.weights, potential.node_count)
    x, v = randomly_deformed(rest), RNG.standard_normal(rest.shape)
    np.testing.assert_allclose(potential.force(x, v), quadratic.force(x, v), rtol=1e-12)
    matrix = quadratic.matrix(x)
    assert abs(potential.velocity_jacobian(x, v) + matrix).max() < 1e-9 * abs(matrix).max()
    # Slow motion feels the quadratic potential whatever the exponent.
    slow = 1e-8 * v
    for exponent in (1.0, 4.0):
        law = replace(potential, exponent=exponent)
        np.testing.assert_allclose(law.force(x, slow), quadratic.force(x, slow), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize(("exponent", "power"), [(0.9, 1.0), (np.nan, 1.0), (2.0, 0.0), (2.0, np.nan)])
def test_power_law_refuses_invalid_values(exponent: float, power: float) -> None:
    quadratic, _ = dissipation("springs")
    parts = (quadratic.strain, quadratic.viscosity, quadratic.weights, quadratic.node_count)
    with pytest.raises(ParameterError, match="exponent"):
        PowerLawDissipation(*parts, exponent, power)


@pytest.mark.parametrize("name", STRAINS)
def test_position_jacobian_matches_finite_differences(name: str) -> None:
    potential, rest = dissipation(name)
    x, v, way = randomly_deformed(rest), RNG.standard_normal(rest.shape), RNG.standard_normal(rest.shape)
    whole = (potential.position_jacobian(x, v, include_unsymmetric=True) @ way.ravel()).reshape(way.shape)
    numeric = finite_difference(lambda p: potential.force(p, v), x, way, 1e-6)
    np.testing.assert_allclose(whole, numeric, atol=1e-4 * np.abs(numeric).max())
    part = potential.position_jacobian(x, v, include_unsymmetric=False)
    assert abs(part - part.T).max() < 1e-6 * abs(part).max()
    # The clamped geometric part of the force only resists.
    if name.startswith("green"):
        clamped = -potential.position_jacobian(
            x, v, include_unsymmetric=False, without_compression_stress=True
        ).toarray()
        assert np.linalg.eigvalsh(clamped).min() > -1e-9 * np.abs(clamped).max()


@pytest.mark.parametrize("name", STRAINS)
def test_strain_energy_derivatives(name: str) -> None:
    strain, rest, count = STRAINS[name]
    energy = StrainEnergy(strain, viscosity(count), RNG.uniform(0.5, 2.0, len(strain.elements)))
    x, way = randomly_deformed(rest), RNG.standard_normal(rest.shape)
    numeric = finite_difference(lambda p: np.array(energy.value_gradient(p)[0]), x, way, 1e-6)
    assert float(np.vdot(energy.value_gradient(x)[1], way)) == pytest.approx(float(numeric), rel=1e-6)
    numeric = finite_difference(lambda p: energy.value_gradient(p)[1], x, way, 1e-5).ravel()
    np.testing.assert_allclose(energy.hessian(x, False) @ way.ravel(), numeric, atol=1e-4 * np.abs(numeric).max())


def test_green_strain_energy_equals_stvk() -> None:
    material = ElasticMaterial(1000.0, 0.3, 1.0)
    volumes = tet_volumes(TET_REST, TETS)
    energy = StrainEnergy(GreenStrain(TET_REST, TETS), isotropic_moduli(material.lam, material.mu, 3), volumes)
    other = TetElasticity(TET_REST, TETS, volumes, StVK(material))
    x = randomly_deformed(TET_REST)
    assert energy.value_gradient(x)[0] == pytest.approx(other.value_gradient(x)[0], rel=1e-12)
    np.testing.assert_allclose(energy.value_gradient(x)[1], other.value_gradient(x)[1], atol=1e-9)
    assert abs(energy.hessian(x, False) - other.hessian(x, False)).max() < 1e-8


def folded_rod(angle: float) -> Array:
    return np.array([[[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]]])


def test_rod_strains_agree_at_switch() -> None:
    """Both rod strains agree at the switch angle, and straight rods have finite forces."""
    lengths = np.array([1.0])
    below, above = folded_rod(SMALL_ANGLE - 1e-9), folded_rod(SMALL_ANGLE + 1e-9)
    assert [type(kind) for kind, _ in rod_bending_strains(below, lengths, ROD)] == [TangentStrain]
    assert [type(kind) for kind, _ in rod_bending_strains(above, lengths, ROD)] == [AngleStrain]
    v = RNG.standard_normal((3, 3))
    v[:, 2] = 0.0
    found = []
    for corners, kind in ((below, TangentStrain), (above, AngleStrain)):
        strain = kind(lengths, ROD)
        energy = StrainEnergy(strain, np.eye(strain.values(corners).shape[1]), np.ones(1))
        damping = Dissipation(strain, energy.moduli, np.ones(1), 3)
        found.append((energy.value_gradient(corners[0]), damping.force(corners[0], v)))
    # tan theta is theta to first order. At the switch the next term is theta^2, and 3 theta^2 in the slope.
    off = SMALL_ANGLE**2
    assert found[0][0][0] == pytest.approx(found[1][0][0], rel=off)
    np.testing.assert_allclose(found[0][0][1], found[1][0][1], rtol=2.0 * off, atol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=3.0 * off, atol=1e-9)
    straight = folded_rod(0.0)
    energy = StrainEnergy(TangentStrain(lengths, ROD), np.eye(3), np.ones(1))
    assert energy.value_gradient(straight[0])[0] == 0.0
    assert np.isfinite(energy.hessian(straight[0], False).toarray()).all()
    assert np.abs(Dissipation(TangentStrain(lengths, ROD), np.eye(3), np.ones(1), 3).force(straight[0], v)).max() > 0.0


def test_spatial_strain_rate_under_stretch() -> None:
    """The rate of deformation of x -> a x at rate r is r/a, that of Green's strain r a."""
    for stretch in (0.5, 1.0, 2.0):
        x, v = stretch * TET_REST, TET_REST
        for strain, expected in (
            (SpatialStrain(TET_REST, TETS), 1.0 / stretch),
            (GreenStrain(TET_REST, TETS), stretch),
            (BiotStrain(TET_REST, TETS), 1.0),
        ):
            rate = strain.gradient(x[TETS]) @ v[TETS].reshape(len(TETS), -1, 1)
            np.testing.assert_allclose(rate[:, :3, 0], expected, rtol=1e-9)
            np.testing.assert_allclose(rate[:, 3:, 0], 0.0, atol=1e-9)


def test_traditional_viscosities_match_young_table() -> None:
    """Table 4.2 of Young has the formulas' values over the root of two."""
    phi, psi = viscosities(3.0, 1.0, 1.0, 1.0)
    assert psi == pytest.approx(1.0 / np.pi, rel=1e-12)
    assert psi / np.sqrt(2.0) == pytest.approx(0.22508, abs=5e-6)
    assert phi > 0.0
    # At a Poisson's ratio of 1/3, lambda = 2 mu, phi vanishes; below that it is negative.
    assert viscosities(2.0, 1.0, 1.0, 1.0)[0] == pytest.approx(0.0, abs=1e-12)
    assert viscosities(1.0, 1.0, 1.0, 1.0)[0] < 0.0


@pytest.mark.parametrize("exponent", [2.0, 4.0])
@pytest.mark.parametrize("newmark", [False, True])
def test_implicit_damping_step_every_jacobian(newmark: bool, exponent: float) -> None:
    """A step with damping at its end has the same result with each Jacobian."""
    system, rng = cloth(4, np.arange(4)), np.random.default_rng(0)
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    damping: StrainRatePotential = Dissipation(energy.strain, 0.05 * energy.moduli, energy.weights, len(system.rest))
    if exponent != 2.0:
        damping = PowerLawDissipation(
            energy.strain, 0.05 * energy.moduli, energy.weights, len(system.rest), exponent, 1e3
        )
    x, v = system.rest + 0.02 * rng.standard_normal(system.rest.shape), rng.standard_normal(system.rest.shape)
    x[system.pinned], v[system.pinned] = system.rest[system.pinned], 0.0
    made = {one: RateStep(system, energy, damping, one, False, newmark).step(x, v, 0.005) for one in PositionJacobian}
    assert all(one.converged for one in made.values())
    for one in made.values():
        np.testing.assert_allclose(one.velocities, made[PositionJacobian.WHOLE].velocities, atol=1e-8)
    # The step's own equation: forces at its end, or their mean over the step.
    end = made[PositionJacobian.WHOLE]
    mean_velocity = end.velocities
    after = -energy.value_gradient(end.positions)[1] + damping.force(end.positions, end.velocities)
    if newmark:
        after = 0.5 * (after - energy.value_gradient(x)[1] + damping.force(x, v))
        mean_velocity = 0.5 * (v + end.velocities)
    free = ~system.is_fixed
    change = 0.005 * (after / system.mass[:, None] + system.gravity)
    np.testing.assert_allclose((end.velocities - v)[free], change[free], atol=1e-9)
    np.testing.assert_allclose(end.positions, x + 0.005 * mean_velocity, atol=1e-12)
    # Newton's method with the exact Jacobian converges quadratically; other matrices take longer.
    assert made[PositionJacobian.WHOLE].iterations <= (7 if exponent == 2.0 else 10)
    assert all(
        made[PositionJacobian.WHOLE].iterations < made[one].iterations
        for one in PositionJacobian
        if one is not PositionJacobian.WHOLE
    )


def test_implicit_and_lagged_damping_converge() -> None:
    """DampSim takes C at the beginning of a step: a difference of second order per step."""
    system, rng = cloth(4, np.arange(4)), np.random.default_rng(0)
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    damping = Dissipation(energy.strain, 0.05 * energy.moduli, energy.weights, len(system.rest))
    x, v = system.rest.copy(), 0.3 * rng.standard_normal(system.rest.shape)
    v[system.pinned] = 0.0
    state, place = State(0.0, x, v, np.zeros_like(x)), system.rest[system.pinned]
    off = []
    for h in (1e-5, 5e-6):
        lagged = IntegratorStepper(BackwardEuler, system, PotentialDamping(damping), minimise_newton)
        after, _ = lagged.step(state, (BlockInputs(place, place),), h, Controls((BackwardEulerLaw(),), 1.0, 1e-12))
        off.append(np.abs(after.velocities - RateStep(system, energy, damping).step(x, v, h).velocities).max())
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.15)


def test_damping_is_rotation_invariant() -> None:
    potential, rest = dissipation("green tets")
    x, v = randomly_deformed(rest), RNG.standard_normal(rest.shape)
    turn = Rotation.from_rotvec([1.0, 2.0, -0.5]).as_matrix()
    np.testing.assert_allclose(potential.force(x @ turn.T, v @ turn.T), potential.force(x, v) @ turn.T, atol=1e-10)


@pytest.mark.slow
def test_damping_ratio_of_first_mode() -> None:
    ratio = 0.08
    system = bar((10, 2, 2), material=ElasticMaterial(2e5, 0.35, 1000.0))
    region = system.regions[0]
    material, dials = ElasticMaterial(2e5, 0.35, 1000.0), Settings(damping_ratio=ratio, poisson=0.35).as_dict()
    body = DampedBody(system.blocks[0], dials, material, region.eigenvalue)
    start = deflect(without_gravity(system), 0.01)
    for kind in (StrainRateDamping, RayleighDamping):
        stepping = IntegratorStepper(ImplicitMidpoint, system, kind(body))
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
        # The first mode dominates; higher modes decay sooner.
        assert decrement / np.hypot(2.0 * np.pi, decrement) == pytest.approx(ratio, rel=0.03)


def damping_matrix(kind: type[Damping], **dials: float) -> tuple[Array, DampedBody]:
    """Return the dense damping matrix at rest of a bar with given settings, and the bar."""
    material = ElasticMaterial(2e5, 0.35, 1000.0)
    system = bar((2, 1, 1), clamped=False, material=material)
    values = Settings(poisson=0.35, **dials).as_dict()  # type: ignore[arg-type]
    body = DampedBody(system.blocks[0], values, material, 100.0)
    matrix = kind(body).matrix(system.rest)
    assert matrix is not None
    return matrix.toarray(), body


def test_volume_and_shear_damped_separately() -> None:
    plain, body = damping_matrix(StrainRateDamping)
    rest, material = body.block.rest, body.material
    volume = float(np.prod(np.ptp(rest, axis=0)))
    beta = 2.0 * 0.1 / 10.0
    for lam, mu in ((0.0, 1.0), (5.0, 0.0), (3.0, 7.0)):
        matrix, _ = damping_matrix(StrainRateDamping, lambda_d=lam, mu_d=mu)
        # Uniform growth v = x: tr eps' = 3; shear v = (y, 0, 0): eps' has 1/2 twice.
        grown, sheared = rest.ravel(), (rest[:, [1]] * np.array([1.0, 0.0, 0.0])).ravel()
        powers = [float(v @ matrix @ v) / (beta * volume) for v in (grown, sheared)]
        expected = [9.0 * lam * material.lam + 6.0 * mu * material.mu, mu * material.mu]
        np.testing.assert_allclose(powers, expected, rtol=1e-9, atol=1e-9 * material.lam)
    assert np.array_equal(damping_matrix(StrainRateDamping, lambda_d=1.0, mu_d=1.0)[0], plain)


def test_viscosities_in_pascal_seconds() -> None:
    """Dialled values are the viscosities of [SRD] (15), whatever the stiffness and the damping ratio."""
    values = {"viscosity_by": "VALUES", "lambda_d_value": 30.0, "mu_d_value": 20.0}
    for more in ({}, {"damping_ratio": 5.0}, {"lambda_d": 9.0, "mu_d": 0.0}):
        matrix, body = damping_matrix(StrainRateDamping, **values, **more)  # type: ignore[arg-type]
        rest = body.block.rest
        volume = float(np.prod(np.ptp(rest, axis=0)))
        for field, expected in ((rest, 9.0 * 30.0 + 6.0 * 20.0), (rest[:, [1]] * np.array([1.0, 0.0, 0.0]), 20.0)):
            power = float(field.ravel() @ matrix @ field.ravel())
            assert power == pytest.approx(expected * volume, rel=1e-12)


def test_rayleigh_alpha_adds_mass_matrix() -> None:
    plain, body = damping_matrix(RayleighDamping)
    weighed, _ = damping_matrix(RayleighDamping, alpha=2.5)
    mass = np.diag(body.block.mass.repeat(3))
    np.testing.assert_allclose(weighed - plain, 2.5 * mass, atol=1e-12 * np.abs(plain).max())
    # Only alpha slows a translation: rigid motions have no stiffness at rest.
    flying = np.tile([1.0, 0.0, 0.0], len(body.block.rest))
    assert float(flying @ plain @ flying) == pytest.approx(0.0, abs=1e-9 * np.abs(plain).max())
    assert float(flying @ weighed @ flying) == pytest.approx(2.5 * body.block.mass.sum(), rel=1e-9)


def test_stiffness_damping_of_crushed_tets() -> None:
    """The exact stiffness of crushed tetrahedra may add energy; the projected one never does."""
    energy = TetElasticity(TET_REST, TETS, tet_volumes(TET_REST, TETS), StVK(ElasticMaterial(1000.0, 0.3, 1.0)))
    x = 0.4 * TET_REST
    least = [
        np.linalg.eigvalsh(StiffnessDamping((energy,), 0.1, whole).matrix(x).toarray()).min() for whole in (True, False)
    ]
    assert least[0] < -1.0
    assert least[1] > -1e-9
    assert (
        abs(
            StiffnessDamping((energy,), 0.1, True).matrix(TET_REST) - StiffnessDamping((energy,), 0.1).matrix(TET_REST)
        ).max()
        < 1e-9
    )


def test_anisotropic_strain_rate_damping() -> None:
    system = bar((3, 1, 1), material=ElasticMaterial(2e5, 0.35, 1000.0))
    rest = system.rest
    power = {}
    for axis in "XYZ":
        for times in (1.0, 8.0):
            dials = Settings(poisson=0.35, damp_axis=axis, anisotropy=times).as_dict()
            body = DampedBody(system.blocks[0], dials, ElasticMaterial(2e5, 0.35, 1000.0), 100.0)
            matrix = StrainRateDamping(body).matrix(rest)
            for way in range(3):
                v = np.zeros_like(rest)
                v[:, way] = rest[:, way]
                power[axis, times, way] = float(v.ravel() @ (matrix @ v.ravel()))
    for k, axis in enumerate("XYZ"):
        for way in range(3):
            ratio = power[axis, 8.0, way] / power[axis, 1.0, way]
            assert ratio == pytest.approx(8.0 if way == k else 1.0, rel=1e-9)
