"""Damping forces equal references/rates.py to rounding: [SRD] and [You]."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_body_types import body

from damping_cases import (
    DENSITY,
    MATRIX_METHODS,
    POISSON,
    RELATIVE_TOLERANCE,
    VELOCITY_METHODS,
    assert_close,
    deformed_positions,
    make_damping,
    solid,
    spring_chain,
)
from dampsim.core.bodies import KINDS
from dampsim.core.bodies.kind import BodyKind
from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.literature.damping.damping import DampedBody, Damping
from dampsim.core.literature.damping.viscous_dampings import STRAINS, Dissipation, PowerLawDissipation, RayleighDamping
from dampsim.core.literature.papers.flat_scenes import cloth
from dampsim.core.materials import ElasticMaterial
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.materials.rod_bending import AngleStrain, TangentStrain, rod_bending_strains
from dampsim.core.materials.strain_energy import isotropic_moduli as components_of
from dampsim.core.materials.strain_energy import tensile_stress
from dampsim.core.materials.strains import GreenStrain, SpringStrain, components_from_tensors, tensors_from_components
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.system import System, build_system
from references import elastic, rates

MATRICES = {"STRAIN_RATE", "RAYLEIGH", "TRADITIONAL"}


def test_force_dampings_have_references() -> None:
    assert set(MATRICES) == set(MATRIX_METHODS)
    assert set(VELOCITY_METHODS) | set(MATRIX_METHODS) == {method.name for method in DAMPINGS}
    assert set(rates.RATES) == set(STRAINS)


@pytest.mark.parametrize("strain", STRAINS)
@pytest.mark.parametrize(("axis", "times"), [("X", 1.0), ("Y", 6.0), ("Z", 2.0)])
def test_strain_rate_damping_matches_paper(strain: str, axis: str, times: float) -> None:
    system = solid("StableNeoHookean")
    damping = make_damping(
        "STRAIN_RATE", system, 2.5, strain=strain, damp_axis=axis, anisotropy=times, damping_ratio=0.3
    )  # fmt: skip
    beta = 2 * 0.3 / np.sqrt(90.0)
    for x in deformed_positions(system, size=0.04):
        wanted = rates.strain_rate(
            system.rest, system.blocks[0].groups[0], x, 2.5e5, POISSON, beta, strain, axis, times
        )  # fmt: skip
        # The square root of F^T F loses digits in nearly flat elements.
        assert_close(damping.matrix(x), wanted, 1e-8 if strain == "BIOT" else RELATIVE_TOLERANCE)


@pytest.mark.parametrize("model", elastic.DENSITIES)
def test_rayleigh_damping_is_projected_stiffness(model: str) -> None:
    system = solid(model)
    damping = make_damping("RAYLEIGH", system, 2.5, damping_ratio=0.3)
    (tets,) = system.blocks[0].groups
    for x in deformed_positions(system):
        arguments = (model, system.rest, tets, x, 1e5, POISSON)
        wanted = 2.5 * 2 * 0.3 / np.sqrt(90.0) * elastic.tet_hessian(*arguments, project=True)
        assert_close(damping.matrix(x), wanted)
        # The projection changes the Hessian in these states.
        raw = elastic.tet_hessian(*arguments, project=False)
        assert np.abs(elastic.tet_hessian(*arguments, project=True) - raw).max() > 1e-3 * np.abs(raw).max()


def test_rayleigh_with_alpha_matches_reference() -> None:
    system = solid("StVK")
    (tets,) = system.blocks[0].groups
    x = deformed_positions(system)[0]
    for alpha in (0.0, 3.0):
        wanted = rates.rayleigh("StVK", system.rest, tets, x, 1e5, POISSON, 0.02)
        wanted = wanted + alpha * np.diag(system.mass.repeat(3))
        dials = {"damping_ratio": 0.1, "alpha": alpha}
        # The default is the stiffness of the material that it was created with.
        assert_close(
            RayleighDamping(DampedBody(system.blocks[0], dials, ElasticMaterial(1e5, POISSON, DENSITY), 100.0)).matrix(
                x
            ),
            wanted,
        )


def test_traditional_damping_matches_thesis() -> None:
    system = solid("StVK")
    damping = make_damping("TRADITIONAL", system, 2.5, wavelength=0.6)
    for x in deformed_positions(system):
        wanted = rates.traditional(
            system.rest, system.blocks[0].groups[0], x, 2.5e5, POISSON, DENSITY, 0.6
        )  # fmt: skip
        assert_close(damping.matrix(x), wanted)


def test_spring_damping_scales_with_stiffness() -> None:
    """The damping of springs is proportional to their stiffness and the damping ratio."""
    x, edges, lengths, W = spring_chain()
    energy = spring_energy(edges, lengths, W / lengths)
    system = build_system(
        x, edges, np.ones(5), (energy,), np.zeros(3), np.zeros(0, dtype=np.int64), np.zeros(0), has_eigenvalues=False
    )  # fmt: skip
    factor = 2.5 * 2 * 0.3 / np.sqrt(90.0)
    wanted = rates.dissipation(
        lambda m, y, v: rates.length_rate(lengths[m], y, v), [factor * w * np.eye(1) for w in W], edges, x
    )
    assert_close(make_damping("STRAIN_RATE", system, 2.5, damping_ratio=0.3).matrix(x), wanted)
    assert_close(
        make_damping("RAYLEIGH", system, 2.5, damping_ratio=0.3).matrix(x),
        factor * elastic.spring_hessian(x, edges, lengths, W, True),
    )


def test_painted_damping_scales_elements() -> None:
    """Each spring, triangle and tetrahedron has the mean of the painted factors at its nodes."""
    rng, beta = np.random.default_rng(8), 2 * 0.3 / np.sqrt(90.0)
    x, edges, lengths, W = spring_chain()
    energy = spring_energy(edges, lengths, W / lengths)
    springs = build_system(
        x, edges, np.ones(5), (energy,), np.zeros(3), np.zeros(0, dtype=np.int64), np.zeros(0), has_eigenvalues=False
    )  # fmt: skip
    painted = rng.uniform(0.0, 1.0, 5)
    factors = [beta * w * painted[[i, j]].sum() / 2.0 for w, (i, j) in zip(W, edges, strict=True)]
    wanted = rates.dissipation(
        lambda m, y, v: rates.length_rate(lengths[m], y, v), [one * np.eye(1) for one in factors], edges, x
    )
    assert_close(painted_damping(springs, painted).matrix(x), wanted)
    system = cloth(3, np.zeros(0, dtype=np.int64))
    flat, (faces,), painted = system.rest[:, :2], system.blocks[0].groups, rng.uniform(0.0, 1.0, len(system.rest))
    x = system.rest + 0.1 * rng.standard_normal(system.rest.shape)
    V = [beta * 0.125 * sum(painted[face]) / 3.0 * rates.isotropic(100.0, 50.0, 2) for face in faces]
    wanted = rates.dissipation(lambda m, y, v: rates.green_rate(flat[faces[m]], y, v), V, faces, x)
    assert_close(painted_damping(system, painted).matrix(x), wanted)
    system = solid("StableNeoHookean")
    tets, x = system.blocks[0].groups[0], deformed_positions(system, 1, 0.04)[0]
    painted = rng.uniform(0.0, 1.0, len(x))
    wanted = sum(
        painted[tet].sum() / 4.0 * rates.strain_rate(system.rest, tet[None], x, 1e5, POISSON, beta, "GREEN", "X", 1.0)
        for tet in tets
    )
    half = painted_damping(system, painted).matrix(x)
    assert_close(half, wanted)
    # Momenta are conserved, whatever is painted.
    spin = np.cross(rng.standard_normal(3), x) + rng.standard_normal(3)
    assert np.abs(half @ spin.ravel()).max() < 1e-10 * np.abs(half).max()


def painted_damping(system: System, painted: np.ndarray) -> Damping:
    """Return the strain-rate damping of a system of one block with painted factors (n,)."""
    block = replace(system.blocks[0], damping_scale=painted)
    return make_damping("STRAIN_RATE", replace(system, blocks=(block,)), damping_ratio=0.3)


@pytest.mark.parametrize("what", [one for one in KINDS if one.name != "WEAVE"], ids=lambda one: one.name)
def test_painted_damping_reaches_nodes(what: type[BodyKind]) -> None:
    for more in ({}, {"struts": "VOLUME"}) if what.name == "SPRINGS" else ({},):
        still = body(what, **more)
        assert what.build(still).block.damping_scale is None
        found = what.build(replace(still, damping_map=np.full(len(still.surface.vertices), 0.3))).block
        np.testing.assert_allclose(found.damping_scale, np.full(len(found.rest), 0.3), rtol=1e-12)


def damping_of_block(block: BodyDiscretization, x: np.ndarray, stiffness: float, **dials: object) -> np.ndarray:
    damping = make_damping("STRAIN_RATE", SimpleNamespace(blocks=(block,)), stiffness, **dials)  # type: ignore[arg-type]
    return np.asarray(damping.matrix(x).toarray())  # type: ignore[union-attr]


def blocks_with_strain_rate() -> dict[str, BodyDiscretization]:
    """Return a block of each kind that strain-rate damping supports, and a solid with fibres."""
    found = {what.name: what.build(body(what)).block for what in KINDS if what.name not in ("WEAVE", "RIGID")}
    solid_kind = next(what for what in KINDS if what.name == "SOLID")
    fibres = np.ones(len(body(solid_kind).surface.vertices))
    found["FIBRES"] = solid_kind.build(replace(body(solid_kind, fibres_along="X"), fibre_map=fibres)).block
    return found


def test_strain_rate_damping_follows_stiffness() -> None:
    """With factors, the damping of every energy is proportional to the stiffness and the damping ratio."""
    for name, block in blocks_with_strain_rate().items():
        x = block.rest + 0.01 * np.random.default_rng(5).standard_normal(block.rest.shape)
        plain = damping_of_block(block, x, 1.0, damping_ratio=0.3)
        assert np.abs(plain).max() > 0.0, name
        assert_close(damping_of_block(block, x, 2.5, damping_ratio=0.3), 2.5 * plain)
        assert_close(damping_of_block(block, x, 1.0, damping_ratio=0.6), 2.0 * plain)


def test_viscosity_values_alone_damp_flesh() -> None:
    """With values, neither the stiffness, nor the damping ratio, nor fibres change the damping of a solid."""
    blocks = blocks_with_strain_rate()
    x = blocks["SOLID"].rest + 0.01 * np.random.default_rng(5).standard_normal(blocks["SOLID"].rest.shape)
    dials = {"viscosity_by": "VALUES", "lambda_d_value": 30.0, "mu_d_value": 20.0}
    plain = damping_of_block(blocks["SOLID"], x, 1.0, damping_ratio=0.1, **dials)
    for name in ("SOLID", "FIBRES"):
        assert_close(damping_of_block(blocks[name], x, 2.5, damping_ratio=0.3, **dials), plain)


def test_triangle_damping_scales_with_moduli() -> None:
    """The damping of triangles is proportional to their moduli and the damping ratio."""
    system = cloth(3, np.zeros(0, dtype=np.int64))
    flat, (faces,) = system.rest[:, :2], system.blocks[0].groups
    x = system.rest + 0.1 * np.random.default_rng(8).standard_normal(system.rest.shape)
    V = 2.5 * 2 * 0.3 / np.sqrt(90.0) * 0.125 * rates.isotropic(100.0, 50.0, 2)
    wanted = rates.dissipation(lambda m, y, v: rates.green_rate(flat[faces[m]], y, v), [V] * len(faces), faces, x)
    assert_close(make_damping("STRAIN_RATE", system, 2.5, damping_ratio=0.3).matrix(x), wanted)


def test_strain_rates_match_papers() -> None:
    """The dissipation of triangles, springs and rods matches the papers."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 3))
    weights = np.array([0.7, 1.3])
    flat, faces = rng.standard_normal((4, 2)), np.array([[0, 1, 2], [1, 3, 2]])
    V = components_of(3.0, 2.0, 2)
    wanted = rates.dissipation(
        lambda m, y, v: rates.green_rate(flat[faces[m]], y, v),
        [w * rates.isotropic(3.0, 2.0, 2) for w in weights], faces, x,
    )  # fmt: skip
    assert_close(Dissipation(GreenStrain(flat, faces), V, weights, 4).matrix(x), wanted)
    wanted = rates.dissipation(
        lambda m, y, v: rates.stretch_rate(flat[faces[m]], y, v),
        [w * rates.isotropic(3.0, 2.0, 2) for w in weights], faces, x,
    )  # fmt: skip
    assert_close(Dissipation(STRAINS["BIOT"](flat, faces), V, weights, 4).matrix(x), wanted, 1e-9)
    lengths = np.array([0.8, 1.1])
    links, rods = np.array([[0, 1], [2, 1]]), np.array([[0, 1, 2], [1, 2, 3]])
    for kind, rate, elements, c in (
        (SpringStrain, rates.length_rate, links, 1),
        (AngleStrain, rates.angle_rate, rods, 1),
        (TangentStrain, rates.tangent_rate, rods, 3),
    ):
        wanted = rates.dissipation(
            lambda m, y, v, rate=rate: rate(lengths[m], y, v),  # type: ignore[misc]
            [5.0 * w * np.eye(c) for w in weights], elements, x,
        )  # fmt: skip
        assert_close(Dissipation(kind(lengths, elements), 5.0 * np.eye(c), weights, 4).matrix(x), wanted)


def test_rod_strain_switches_at_small_angle() -> None:
    """Rods use the tangent strain below 0.1 rad and the angle strain above."""
    for angle, kind in ((0.0999, TangentStrain), (0.1001, AngleStrain)):
        corners = np.array([[[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [np.cos(angle), 0.0, np.sin(angle)]]])
        ((found, _),) = rod_bending_strains(corners, np.ones(1), np.array([[0, 1, 2]]))
        assert type(found) is kind


@pytest.mark.parametrize("exponent", [1.0, 1.7, 2.0, 5.0])
def test_power_law_matches_formula(exponent: float) -> None:
    system = solid("StVK")
    rest, (tets,) = system.rest, system.blocks[0].groups
    x, v = deformed_positions(system)[0], np.random.default_rng(4).standard_normal(system.rest.shape)
    w = rates.volumes(rest, tets)
    V = components_of(3.0, 2.0, 3)
    damping = PowerLawDissipation(GreenStrain(rest, tets), V, np.array(w), len(rest), exponent, 7.0)
    wanted = rates.power_law_force(rest, tets, w, rates.isotropic(3.0, 2.0, 3), exponent, 7.0, x, v)
    assert_close(damping.force(x, v), wanted)


def test_dissipation_derivatives_match_papers() -> None:
    """(4.2), (4.4): the stress as a tensor, its force, and the derivative by a complex step."""
    system = solid("StVK")
    rest, (tets,) = system.rest, system.blocks[0].groups
    x, v = deformed_positions(system)[0], np.random.default_rng(3).standard_normal(system.rest.shape)
    weights = np.array(rates.volumes(rest, tets))
    damping = Dissipation(GreenStrain(rest, tets), components_of(3.0, 2.0, 3), weights, len(rest))
    V = rates.isotropic(3.0, 2.0, 3)
    stress = np.array([(V @ rates.green_rate(rest[t], x[t], v[t]).ravel()).reshape(3, 3) for t in tets])
    assert_close(tensors_from_components(damping.stress(x, v), 3), stress)
    weighted = [w * V for w in weights]
    assert_close(damping.force(x, v), rates.green_force(rest, tets, weighted, x, v))
    whole = elastic.slopes(lambda y: rates.green_force(rest, tets, weighted, y, v).ravel(), x)
    assert_close(damping.position_jacobian(x, v, include_unsymmetric=True), whole)

    def geometric(S: np.ndarray) -> np.ndarray:
        """Return -w d2 eps/dx2 S, the second derivative of the strain times a constant stress."""
        total = np.zeros((x.size, x.size))
        for one, tet, w in zip(S, tets, weights, strict=True):
            shape = elastic.slopes(lambda y, tet=tet: elastic.gradient(rest[tet], y), x[tet])  # type: ignore[misc]
            H = np.einsum("rak,ab,rbl->kl", shape, one, shape)
            total[np.ix_(elastic.dof(tet), elastic.dof(tet))] -= w * H
        return total

    assert_close(damping.position_jacobian(x, v, include_unsymmetric=False), geometric(stress))
    clamped = np.array([elastic.positive_part(one) for one in stress])
    assert_close(
        damping.position_jacobian(x, v, include_unsymmetric=False, without_compression_stress=True), geometric(clamped)
    )
    assert_close(tensors_from_components(tensile_stress(components_from_tensors(stress)), 3), clamped)
