"""Elasticity equals references/elastic.py to rounding: densities, tetrahedra, springs, pins, links, sheets and rods."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from damping_cases import DENSITY, POISSON, RELATIVE_TOLERANCE, assert_close, deformed_positions, solid, spring_chain
from dampsim.core.literature.papers.flat_scenes import annulus, cloth, trapezoid
from dampsim.core.materials import (
    ELASTIC_MODELS,
    MEMBRANES,
    DeadLoad,
    ElasticMaterial,
    Energy,
    Fabric,
    Pressure,
    RodBending,
    ShellBending,
    SoftPins,
)
from dampsim.core.materials.loads_and_springs import Attachments, spring_energy
from dampsim.core.materials.strain_energy import StrainEnergy
from dampsim.core.materials.tetrahedra import lumped_mass
from dampsim.core.system.links import Links, rigid_stiffness
from references import elastic, rates
from shapes import sheet

pytestmark = pytest.mark.kernel


def test_elastic_densities_have_references() -> None:
    assert set(elastic.DENSITIES) == {model.name for model in ELASTIC_MODELS}
    assert set(elastic.MEMBRANES) == {model.name for model in MEMBRANES}


@pytest.mark.parametrize("model", elastic.DENSITIES)
def test_density_derivatives_match_papers(model: str) -> None:
    """Densities, stresses and stiffnesses of the elastic models match the papers."""
    kind = next(one for one in ELASTIC_MODELS if one.name == model)
    density, stress = elastic.DENSITIES[model]
    rng = np.random.default_rng(0)
    F = np.eye(3)[:, :, None] + 0.6 * rng.standard_normal((3, 3, 12))
    material = kind(ElasticMaterial(7e3, POISSON, DENSITY))
    energies, stresses = material.density_stress(F.copy())
    for k in range(F.shape[2]):
        one = F[:, :, k]
        assert energies[k] == pytest.approx(float(density(one, 7e3, POISSON)), rel=RELATIVE_TOLERANCE)
        assert_close(stresses[:, :, k], stress(one, 7e3, POISSON))
        assert_close(stress(one, 7e3, POISSON), elastic.slopes(lambda G: density(G, 7e3, POISSON), one).reshape(3, 3))
        assert_close(material.stiffness(F)[k], elastic.slopes(lambda G: stress(G, 7e3, POISSON).ravel(), one))


@pytest.mark.parametrize("model", elastic.DENSITIES)
@pytest.mark.parametrize("project", [False, True])
def test_tetrahedra_stiffness_and_force_match_papers(model: str, project: bool) -> None:
    system = solid(model)
    (energy,) = system.blocks[0].energies
    (tets,) = system.blocks[0].groups
    for x in deformed_positions(system):
        wanted = elastic.tet_hessian(model, system.rest, tets, x, 1e5, POISSON, project)
        assert_close(energy.hessian(x, project), wanted)
        stress = elastic.DENSITIES[model][1]
        force = np.zeros(x.size)
        for tet, w in zip(tets, rates.volumes(system.rest, tets), strict=True):
            F = elastic.gradient(system.rest[tet], x[tet])
            B = elastic.slopes(lambda y, tet=tet: elastic.gradient(system.rest[tet], y).ravel(), x[tet])  # type: ignore[misc]
            force[elastic.dof(tet)] += w * B.T @ stress(F, 1e5, POISSON).ravel()
        assert_close(energy.value_gradient(x)[1].ravel(), force)


def test_attachments_match_formula() -> None:
    """Each pulls a weighted mean of nodes to the same mean of their targets."""
    x, *_ = spring_chain()
    rows, k = np.array([[0.3, 0.7, 0.0, 0.0, 0.0], [0.0, 0.2, 0.0, 0.3, 0.5]]), np.array([10.0, 25.0])
    targets = np.random.default_rng(6).standard_normal(x.shape)
    attachments = Attachments(csr_matrix(rows), k, targets)
    energy, force = 0.0, np.zeros_like(x)
    for row, stiffness in zip(rows, k, strict=True):
        way = sum(w * (target - node) for w, target, node in zip(row, targets, x, strict=True))
        energy += 0.5 * stiffness * float(way @ way)
        force += stiffness * np.outer(row, way)
    value, gradient = attachments.value_gradient(x)
    assert value == pytest.approx(energy, rel=RELATIVE_TOLERANCE)
    assert_close(-gradient, force)
    assert_close(attachments.hessian(x, False), np.kron(rows.T @ np.diag(k) @ rows, np.eye(3)))
    halved = attachments.with_nodal_scale(np.full(len(x), 0.5))
    assert_close(halved.value_gradient(x)[1], 0.5 * gradient)


def test_springs_pins_and_links_match_formulas() -> None:
    x, edges, lengths, W = spring_chain()
    energy = spring_energy(edges, lengths, W / lengths)
    sizes = np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1)
    value, gradient = energy.value_gradient(x)
    assert value == pytest.approx(0.5 * float(W @ (sizes / lengths - 1) ** 2), rel=RELATIVE_TOLERANCE)
    assert_close(-gradient, elastic.spring_force(x, edges, lengths, W))
    for project in (False, True):
        assert_close(energy.hessian(x, project), elastic.spring_hessian(x, edges, lengths, W, project))
    pins = SoftPins(np.array([1, 4]), np.array([3.0, 7.0]), x[[0, 2]])
    value, gradient = pins.value_gradient(x)
    assert value == pytest.approx(
        1.5 * ((x[1] - x[0]) ** 2).sum() + 3.5 * ((x[4] - x[2]) ** 2).sum(), rel=RELATIVE_TOLERANCE
    )
    assert_close(gradient, np.stack([0 * x[0], 3 * (x[1] - x[0]), 0 * x[0], 0 * x[0], 7 * (x[4] - x[2])]))
    rows = np.array([[0.3, 0.7, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, -0.4, -0.6], [0.0, 1.0, 0.0, 0.0, -1.0]])
    gaps, k = np.array([0.5, 0.0, 4.0]), np.array([10.0, 20.0, 30.0])
    rigid, owners, factors = np.array([False, True, True]), np.array([[0, 1]] * 3), np.array([1.5, 4.0])
    links = Links(csr_matrix(rows), k, gaps, rigid, owners)
    # A rigid link scales with the stiffer one of its blocks.
    strength = np.array([10.0, 80.0, 120.0])
    value, gradient = links.value_gradient(x, factors)
    assert value == pytest.approx(elastic.link_energy(x, rows, gaps, strength), rel=RELATIVE_TOLERANCE)
    assert_close(gradient, elastic.link_gradient(x, rows, gaps, strength))
    exact = elastic.slopes(lambda y: elastic.link_gradient(y, rows, gaps, strength).ravel(), x)
    assert_close(links.hessian(x, factors, False), exact)
    assert_close(links.hessian(x, factors, True), _projected_links(x, rows, gaps, strength))


def _projected_links(x: np.ndarray, rows: np.ndarray, gaps: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the links' Hessian with the positive part of each link's 3 x 3 block between its two points."""
    total = np.zeros((x.size, x.size))
    for row, L, s in zip(rows, gaps, k, strict=True):
        one = elastic.slopes(lambda d, L=L, s=s: elastic.link_gradient(d, np.eye(1), [L], [s]), (row @ x)[None])  # type: ignore[misc]
        spread = np.kron(row[None], np.eye(3))
        total += spread.T @ elastic.positive_part(one.reshape(3, 3)) @ spread
    return total


def test_nodal_scale_is_averaged_per_element() -> None:
    """A nodal scale multiplies each element by the mean over its nodes."""
    x, edges, lengths, W = spring_chain()
    parts = np.array([0.2, 1.0, 0.6, 0.9, 0.1])
    each = parts[edges].mean(axis=1)
    assert_close(
        spring_energy(edges, lengths, W / lengths).with_nodal_scale(parts).value_gradient(x)[1],
        -elastic.spring_force(x, edges, lengths, each * W),
    )
    assert_close(DeadLoad(x).with_nodal_scale(parts).value_gradient(x)[1], -parts[:, None] * x)
    pins = SoftPins(np.array([1, 4]), np.array([3.0, 7.0]), x[[0, 2]]).with_nodal_scale(parts)
    assert_close(pins.value_gradient(x)[1][[1, 4]], np.stack([3.0 * (x[1] - x[0]), 0.7 * (x[4] - x[2])]))
    # Pressure on one triangle: a third of pressure times area on each node, along the normal.
    pressure = Pressure(np.array([[0, 2, 4]]), 30.0).with_nodal_scale(parts)
    corners = x - x.mean(axis=0)
    by_hand = -30.0 * parts[[0, 2, 4]].mean() / 6.0 * np.cross(corners[2], corners[4])
    assert_close(pressure.value_gradient(x)[1][0], by_hand)
    rows, gaps, k = np.array([[0.3, 0.7, -1.0, 0.0, 0.0]]), np.array([0.5]), np.array([10.0])
    links = Links(csr_matrix(rows), k, gaps, np.array([False]), np.array([[0, 0]])).with_nodal_scale(parts)
    # The mean of both points.
    there = 10.0 * 0.5 * (0.3 * 0.2 + 0.7 * 1.0 + 0.6)
    assert_close(links.value_gradient(x, np.ones(1))[1], elastic.link_gradient(x, rows, gaps, np.array([there])))
    system = solid("StVK")
    (energy,) = system.blocks[0].energies
    (tets,) = system.blocks[0].groups
    painted = np.random.default_rng(1).uniform(0.1, 1.0, len(system.rest))
    y = deformed_positions(system)[0]
    alone = [with_scaled_weights(energy, np.eye(len(tets))[m]).value_gradient(y)[1] for m in range(len(tets))]
    wanted = sum(painted[tet].mean() * one for tet, one in zip(tets, alone, strict=True))
    assert_close(energy.with_nodal_scale(painted).value_gradient(y)[1], wanted)


def with_scaled_weights(energy: Energy, parts: np.ndarray) -> Energy:
    """Return the energy with the elements' weights multiplied by parts."""
    other = copy(energy)
    other.weights = energy.weights * parts  # type: ignore[attr-defined]
    return other


def test_energy_rounding_is_eight_ulps() -> None:
    """The rounding of an energy is eight units in the last place of its moduli."""
    eps = np.finfo(float).eps
    _, edges, lengths, W = spring_chain()
    assert spring_energy(edges, lengths, W / lengths).rounding == pytest.approx(8 * eps * W.sum(), rel=1e-12, abs=0.0)
    system = solid("StVK")
    (energy,) = system.blocks[0].energies
    largest = np.abs(elastic.slopes(lambda F: elastic.stvk_stress(F, 1e5, POISSON).ravel(), np.eye(3))).max()
    volume = sum(rates.volumes(system.rest, system.blocks[0].groups[0]))
    assert energy.rounding == pytest.approx(8 * eps * largest * volume, rel=1e-9, abs=0.0)


def test_triangle_rounding_and_lumped_mass() -> None:
    """The rounding of triangles uses their moduli, and lumped masses distribute each element's mass to its corners."""
    (energy,) = cloth(3, np.zeros(0, dtype=np.int64)).blocks[0].energies
    # lambda + 2 mu on the diagonal, of a square metre.
    assert energy.rounding == pytest.approx(8 * np.finfo(float).eps * 200.0, rel=1e-9, abs=0.0)
    tets, weights = np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), np.array([0.3, 0.5])
    np.testing.assert_allclose(
        lumped_mass(tets, weights, 8.0, 6), np.array([0.3, 0.8, 0.8, 0.8, 0.5, 0.0]) * 8.0 / 4.0, rtol=1e-14
    )


def test_rigid_link_stiffness_ratio() -> None:
    """A rigid link is 10,000 times stiffer than its ends."""
    assert rigid_stiffness(np.array([2.0, 30.0])).tolist() == [2e4, 3e5]


def test_strain_energy_of_triangles_matches_papers() -> None:
    system = cloth(3, np.zeros(0, dtype=np.int64))
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    flat, (faces,) = system.rest[:, :2], system.blocks[0].groups
    x = system.rest + 0.1 * np.random.default_rng(8).standard_normal(system.rest.shape)
    area, V = 0.125, rates.isotropic(100.0, 50.0, 2)
    value = sum(0.5 * area * (e := rates.green_strain(flat[face], x[face]).ravel()) @ V @ e for face in faces)
    assert energy.value_gradient(x)[0] == pytest.approx(float(value), rel=RELATIVE_TOLERANCE)
    # The stress of a strain equals the stress of the same strain rate.
    force = np.zeros_like(x)
    for face in faces:
        S = (V @ rates.green_strain(flat[face], x[face]).ravel()).reshape(2, 2)
        B = elastic.slopes(lambda y, face=face: elastic.gradient(flat[face], y), x[face])  # type: ignore[misc]
        pull = np.einsum("ra,ab,rbk->k", elastic.gradient(flat[face], x[face]), S, B)
        force[face] += area * pull.reshape(-1, 3)
    assert_close(energy.value_gradient(x)[1], force)


def test_paper_meshes_have_no_overlaps() -> None:
    """The trapezoid and the annulus consist of triangles with unit sides that do not overlap."""
    triangle = np.sqrt(3) / 4
    for system, count, area in (
        (trapezoid(), 12, 12 * triangle),
        (annulus(), 414, 414 * triangle),
        (cloth(5, np.arange(5)), 32, 1.0),
    ):
        (faces,) = system.blocks[0].groups
        corners = system.rest[faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        assert len(faces) == count
        assert set(faces.ravel()) == set(range(len(system.rest)))
        # The total area equals the covered area, so that no triangles overlap.
        assert 0.5 * np.abs(normals).sum() == pytest.approx(area, rel=1e-12)
        sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
        assert (sides.max(axis=1) < 2.0 * sides.min(axis=1)).all()


def folded_sheet(size: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a slightly folded sheet with random displacements of a size in m."""
    surface = sheet(4)
    lifted = surface.vertices + np.array([0.0, 0.0, 0.3]) * np.sin(3.0 * surface.vertices[:, :1])
    return lifted + size * np.random.default_rng(5).standard_normal(lifted.shape), surface.triangles


@pytest.mark.parametrize("model", MEMBRANES, ids=lambda one: one.name)
def test_woven_energy_matches_formulas(model: type) -> None:
    (rest, faces), (x, _) = folded_sheet(), folded_sheet(0.1)
    warp, fabric = np.array([0.8, 0.5, 0.1]), Fabric(300.0, 0.3, 0.2)
    energy = model(rest, faces, fabric, warp=np.tile(warp, (len(faces), 1)))

    def value(y: np.ndarray) -> np.ndarray:
        film = elastic.membrane_energy(model.name, rest, faces, y, 0.2 * 300.0, 0.3)  # type: ignore[attr-defined]
        return film + elastic.yarn_energy(rest, faces, y, fabric.yarn_modulus, warp)

    found, slope = energy.value_gradient(x)
    assert found == pytest.approx(float(value(x)), rel=RELATIVE_TOLERANCE)
    assert_close(slope.ravel(), elastic.slopes(value, x))


@pytest.mark.parametrize("model", MEMBRANES, ids=lambda one: one.name)
def test_membrane_energy_matches_formulas(model: type) -> None:
    (rest, faces), (x, _) = folded_sheet(), folded_sheet(0.1)
    energy = model(rest, faces, Fabric(300.0, 0.3))

    def value(y: np.ndarray) -> np.ndarray:
        return elastic.membrane_energy(model.name, rest, faces, y, 300.0, 0.3)  # type: ignore[attr-defined]

    found, slope = energy.value_gradient(x)
    assert found == pytest.approx(float(value(x)), rel=RELATIVE_TOLERANCE)
    assert_close(slope.ravel(), elastic.slopes(value, x))
    # One triangle has a third of the stiffness; then all are 10% shorter at rest.
    parts = np.ones(len(faces))
    parts[4] = 1.0 / 3.0
    alone = model(rest, faces[4:5], Fabric(300.0, 0.3)).value_gradient(x)[0]
    painted = model(rest, faces, Fabric(300.0, 0.3), parts).value_gradient(x)[0]
    assert painted == pytest.approx(found - 2.0 / 3.0 * alone, rel=RELATIVE_TOLERANCE)
    short = energy.with_length_scale(np.full(len(faces), 0.9)).value_gradient(0.9 * rest)
    assert abs(short[0]) < 1e-10
    assert np.abs(short[1]).max() < 1e-10


def test_shell_bending_matches_formula() -> None:
    (rest, faces), (x, _) = folded_sheet(), folded_sheet(0.05)
    wanted = elastic.shell_energy(rest, faces, x, 2.0, 0.3)
    assert ShellBending(rest, faces, 2.0).value_gradient(x)[0] == pytest.approx(wanted, rel=RELATIVE_TOLERANCE)
    # The orientation of the triangles does not matter, even if it is mixed.
    mixed = faces.copy()
    mixed[[1, 6, 7]] = mixed[[1, 6, 7]][:, ::-1]
    assert ShellBending(rest, mixed, 2.0).value_gradient(x)[0] == pytest.approx(wanted, rel=RELATIVE_TOLERANCE)


def test_flat_shell_matrix_for_small_angles() -> None:
    """The constant bending matrix of a flat sheet matches the formula for small angles."""
    flat = sheet(4)
    x = flat.vertices + 1e-5 * np.random.default_rng(2).standard_normal(flat.vertices.shape) * np.array([0, 0, 1])
    mixed = flat.triangles.copy()
    mixed[[1, 6, 7]] = mixed[[1, 6, 7]][:, ::-1]
    wanted = elastic.shell_energy(flat.vertices, flat.triangles, x, 2.0, 0.3)
    for faces in (flat.triangles, mixed):
        bending = ShellBending(flat.vertices, faces, 2.0)
        assert bending.coordinate_hessian is not None
        # Angles are 1e-4: their squares are neglected, and arccos has a relative error of 1e-8/1e-4.
        assert bending.value_gradient(x)[0] == pytest.approx(wanted, rel=1e-3)


def test_rod_bending_matches_formula() -> None:
    """The bending energy of rods matches the formula, and a pinned edge adds no length."""
    rng = np.random.default_rng(3)
    k = np.arange(6)
    triples, stiffness = np.stack([k[:-2], k[1:-1], k[2:]], 1), np.array([2.0, 3.0, 4.0, 5.0])
    straight = np.column_stack([np.cumsum(rng.uniform(0.5, 1.5, 6)), np.zeros((6, 2))])
    for rest in (straight, straight + 0.2 * rng.standard_normal(straight.shape)):
        x = rest + 0.3 * rng.standard_normal(rest.shape)
        sides = np.linalg.norm(np.diff(rest, axis=0), axis=1)
        lengths = sides[:-1] + sides[1:]
        rod = RodBending.from_rest_shape(rest, triples, stiffness)
        assert rod.value_gradient(x)[0] == pytest.approx(
            elastic.rod_energy(rest, triples, x, stiffness, lengths), rel=RELATIVE_TOLERANCE
        )
        fixed = k < 2
        lengths[0] = sides[1]
        clamped = RodBending.from_rest_shape(rest, triples, stiffness, fixed)
        assert clamped.value_gradient(x)[0] == pytest.approx(
            elastic.rod_energy(rest, triples, x, stiffness, lengths), rel=RELATIVE_TOLERANCE
        )
