"""Plastic flow equals references/plastic.py element by element; energies after flow equal their formulas."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from damping_cases import POISSON, assert_close, solid
from dampsim.core.materials import Corotational, Fabric, ShellBending, StVKMembrane, TetElasticity
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.materials.plastic_flow import BendingFlow, SpringFlow, TensorFlow, YieldSurface
from dampsim.core.objective.plastic_update import PlasticUpdate
from dampsim.core.scene.parameters import Settings
from dampsim.core.simulation.plastic_rest_shapes import plasticity_per_block
from references import elastic, plastic
from shapes import sheet

pytestmark = pytest.mark.kernel

CASES = [
    YieldSurface(0.05, 0.3, 9.0),
    YieldSurface(0.05, 0.8, 0.12),
    YieldSurface(0.0, 1.0, 9.0),
    YieldSurface(0.4, 0.5, 0.2),
]


def deform_randomly(rest: np.ndarray, size: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rest @ (np.eye(3) + size * rng.standard_normal((3, 3))) + 0.02 * size * rng.standard_normal(rest.shape)


def random_flow(count: int, size: int, seed: int = 1) -> np.ndarray:
    """Return a random flow with rotations; for solids its determinant is 1."""
    found = np.eye(size) + 0.15 * np.random.default_rng(seed).standard_normal((count, size, size))
    return found / np.cbrt(np.linalg.det(found))[:, None, None] if size == 3 else found


@pytest.mark.parametrize("yielding", CASES)
@pytest.mark.parametrize("size", [0.1, 0.4])
def test_tetrahedra_flow_matches_formula(yielding: YieldSurface, size: float) -> None:
    system = solid("StableNeoHookean")
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, TetElasticity)
    flow = TensorFlow(energy)
    before = random_flow(len(energy.tets), 3)
    x = deform_randomly(system.rest, size, 2)
    after = flow.updated_flow(before, x, yielding)
    moved = 0
    for k, tet in enumerate(energy.tets):
        F = elastic.gradient(system.rest[tet], x[tet])
        wanted = plastic.element_flow(F, before[k], yielding.limit, yielding.flow_fraction, yielding.max_strain)
        assert_close(after[k], wanted)
        moved += bool(np.abs(wanted - before[k]).max() > 1e-6)
    assert moved > 0 or yielding.limit > size
    assert_close(np.linalg.det(after), np.ones(len(after)))


@pytest.mark.parametrize("law", [Corotational, StVKMembrane])
@pytest.mark.parametrize("yielding", CASES)
def test_membrane_flow_matches_formula(law: type, yielding: YieldSurface) -> None:
    surface = sheet(5)
    energy = law(surface.vertices, surface.triangles, Fabric(500.0, 0.3))
    before = random_flow(len(surface.triangles), 2)
    x = deform_randomly(surface.vertices, 0.3, 3)
    after = TensorFlow(energy).updated_flow(before, x, yielding)
    deformation = energy.deformation_gradients(x).transpose(1, 2, 0)
    for k in range(len(before)):
        assert_close(
            after[k],
            plastic.element_flow(
                deformation[k], before[k], yielding.limit, yielding.flow_fraction, yielding.max_strain
            ),
        )
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("yielding", CASES)
def test_spring_flow_matches_formula(yielding: YieldSurface) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 3))
    edges = np.array(list(pairwise(range(9))))
    lengths = np.linalg.norm(np.diff(x, axis=0), axis=1) * np.exp(rng.uniform(-0.6, 0.6, 8))
    before = rng.uniform(-0.1, 0.1, 8)
    after = SpringFlow(spring_energy(edges, lengths, np.full(8, 50.0))).updated_flow(before, x, yielding)
    for k, (i, j) in enumerate(edges):
        now = float(np.linalg.norm(x[i] - x[j]))
        wanted = plastic.spring_flow(
            now, lengths[k], before[k], yielding.limit, yielding.flow_fraction, yielding.max_strain
        )
        assert after[k] == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize(
    "yielding", [YieldSurface(0.01, 0.3, 9.0), YieldSurface(0.01, 0.9, 0.02), YieldSurface(0.0, 1.0, 9.0)]
)
def test_fold_flow_matches_formula(yielding: YieldSurface, curved: bool) -> None:
    rest, triangles = sheet(5).vertices.copy(), sheet(5).triangles
    rng = np.random.default_rng(4)
    rest[:, :2] += 0.04 * rng.standard_normal((len(rest), 2))
    if curved:
        rest[:, 2] = 0.2 * rest[:, 0] ** 2
    fixed = rest[:, 0] < 0.3
    thickness = 0.01
    bending = ShellBending(rest, triangles, 1e-3, fixed)
    flow = BendingFlow(bending, rest, thickness)
    nodes = bending.hinges.nodes
    before = 0.1 * rng.standard_normal(len(nodes))
    x = rest + 0.08 * rng.standard_normal(rest.shape)
    after = flow.updated_flow(before, x, yielding)
    edges = [(int(min(a, b)), int(max(a, b))) for a, b in nodes[:, :2]]
    angles = {}
    for edge, (a, b, c, d), p in zip(edges, nodes, before, strict=True):
        angles[edge] = float(fold_angle(x[[a, b, c, d]]) - fold_angle(rest[[a, b, c, d]]) - p)
    held = fixed[triangles].all(axis=1)
    assert held.any()
    wanted = plastic.fold_flow(
        rest, triangles, held, angles, dict(zip(edges, before, strict=True)), thickness,
        yielding.limit, yielding.flow_fraction, yielding.max_strain,
    )  # fmt: skip
    for edge, found in zip(edges, after, strict=True):
        assert found == pytest.approx(wanted[edge], rel=1e-9, abs=1e-12)
    assert not np.array_equal(after, before)


def test_equivalent_strain_between_flows() -> None:
    """The plastic strain between two flows vanishes for equal ones; by default the other one is the modelled shape."""
    surface, rng = sheet(5), np.random.default_rng(6)
    (tets,) = solid("StableNeoHookean").blocks[0].energies
    assert isinstance(tets, TetElasticity)
    membrane = Corotational(surface.vertices, surface.triangles, Fabric(500.0, 0.3))
    bending = ShellBending(surface.vertices, surface.triangles, 1e-3)
    springs = spring_energy(np.array([[0, 1], [1, 2]]), np.ones(2), np.full(2, 50.0))
    cases = (
        (TensorFlow(tets), random_flow(len(tets.tets), 3)),
        (TensorFlow(membrane), random_flow(len(surface.triangles), 2)),
        (SpringFlow(springs), rng.standard_normal(2)),
        (BendingFlow(bending, surface.vertices, 0.01), 0.1 * rng.standard_normal(len(bending.hinges.nodes))),
    )
    for rule, flow in cases:
        size = rule.equivalent_strain(flow)
        assert size.min() > 0.0
        assert rule.equivalent_strain(flow, flow).max() < 1e-12
        assert_close(rule.equivalent_strain(flow, rule.zero_flow()), size)
        assert_close(rule.equivalent_strain(rule.zero_flow(), flow), size)


def fold_angle(corners: np.ndarray) -> float:
    """Return the signed angle between two triangles at their edge, from the angle of their normals."""
    a, b, c, d = corners
    first, second = np.cross(b - a, c - a), np.cross(d - a, b - a)
    sign = np.sign(np.cross(first, second) @ (b - a))
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    return float(sign * np.arccos(np.clip(cosine, -1.0, 1.0)))


@pytest.mark.parametrize("model", elastic.DENSITIES)
def test_energy_after_flow_is_elastic_part(model: str) -> None:
    system = solid(model)
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, TetElasticity)
    flow, x = random_flow(len(energy.tets), 3), deform_randomly(system.rest, 0.2, 5)
    density = elastic.DENSITIES[model][0]

    def whole(at: np.ndarray) -> np.ndarray:
        total: np.ndarray = np.zeros(())
        for k, tet in enumerate(energy.tets):
            F_e = elastic.gradient(system.rest[tet], at[tet]) @ np.linalg.inv(flow[k])
            volume = abs(np.linalg.det(system.rest[tet][1:] - system.rest[tet][0])) / 6
            total = total + volume * density(F_e, 1e5, POISSON)
        return total

    value, gradient = energy.with_flow(flow).value_gradient(x)
    assert value == pytest.approx(float(whole(x)), rel=1e-9)
    assert_close(gradient.ravel(), elastic.slopes(whole, x))


def test_spring_force_after_flow() -> None:
    """A spring that has flowed exerts the force of as much material at its new rest length."""
    x = np.array([[0.0, 0.0, 0.0], [1.3, 0.0, 0.0]])
    edges, lengths, k = np.array([[0, 1]]), np.array([1.0]), 40.0
    flow = np.array([np.log(1.2)])
    _, gradient = SpringFlow(spring_energy(edges, lengths, np.array([k]))).energy_after(flow).value_gradient(x)
    # The same volume in 1.2 times the length has 1/1.2 of the cross-section.
    assert gradient[1, 0] == pytest.approx(k / 1.2 * (1.3 / 1.2 - 1.0), rel=1e-12)


def test_creased_sheet_has_no_moment() -> None:
    rest, triangles = sheet(4).vertices, sheet(4).triangles
    bending = ShellBending(rest, triangles, 1e-3)
    x = rest.copy()
    x[:, 2] = 0.3 * np.abs(rest[:, 0] - 1.0 / 3.0)
    crease = bending.with_flow(bending.with_flow(np.zeros(len(bending.hinges.nodes))).excess_angles(x))
    value, gradient = crease.value_gradient(x)
    assert value == pytest.approx(0.0, abs=1e-18)
    assert np.abs(gradient).max() < 1e-12
    flat, pull = crease.value_gradient(rest)
    assert flat > 1e-5
    assert np.abs(pull).max() > 1e-5


def test_zero_flow_changes_no_force() -> None:
    system = solid("StableNeoHookean")
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, TetElasticity)
    x = deform_randomly(system.rest, 0.2, 6)
    assert_close(energy.with_flow(TensorFlow(energy).zero_flow()).value_gradient(x)[1], energy.value_gradient(x)[1])
    rest, triangles = sheet(5).vertices, sheet(5).triangles
    membrane = Corotational(rest, triangles, Fabric(500.0, 0.3))
    y = deform_randomly(rest, 0.2, 7)
    assert_close(
        membrane.with_flow(TensorFlow(membrane).zero_flow()).value_gradient(y)[1], membrane.value_gradient(y)[1]
    )


def test_inverted_or_degenerate_elements_keep_flow() -> None:
    system = solid("StableNeoHookean")
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, TetElasticity)
    over = system.rest * np.array([1.0, 1.0, -1.5])
    flow = TensorFlow(energy)
    assert np.array_equal(flow.updated_flow(flow.zero_flow(), over, CASES[0]), flow.zero_flow())
    surface = sheet(4)
    sheets = TensorFlow(Corotational(surface.vertices, surface.triangles, Fabric(500.0, 0.3)))
    flat = surface.vertices * np.array([1.0, 1e-9, 1.0])
    assert np.array_equal(sheets.updated_flow(sheets.zero_flow(), flat, CASES[0]), sheets.zero_flow())
    wire = SpringFlow(spring_energy(np.array([[0, 1]]), np.array([1.0]), np.array([1.0])))
    assert np.array_equal(wire.updated_flow(wire.zero_flow(), np.zeros((2, 3)), CASES[0]), wire.zero_flow())


@pytest.mark.parametrize("h", [0.01, 0.1])
def test_plastic_dials_have_units(h: float) -> None:
    """Yield and limit are in percent, and creep is a rate per second."""
    dials = Settings(plastic_yield=5.0, plastic_creep=3.0, plastic_most=40.0)
    flows, none, reset = plasticity_per_block(
        [dials, replace(dials, plastic_yield=0.0), replace(dials, plastic_reset=True)], h
    )
    assert flows.yield_surface is not None
    assert flows.yield_surface.limit == pytest.approx(0.05)
    assert flows.yield_surface.flow_fraction == pytest.approx(1.0 - np.exp(-3.0 * h))
    assert flows.yield_surface.max_strain == pytest.approx(0.4)
    assert none == PlasticUpdate()
    assert reset == PlasticUpdate(reset=True)
