"""Energies: derivatives, rest, rotations and projection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.materials import (
    ELASTIC_MODELS,
    MEMBRANES,
    DeadLoad,
    ElasticMaterial,
    Energy,
    Fabric,
    Membrane,
    Pressure,
    RodBending,
    Sewing,
    ShellBending,
    SoftPins,
    TetElasticity,
)
from dampsim.core.materials.fibres import FibreEnergy
from dampsim.core.materials.tetrahedra import tet_volumes

pytestmark = pytest.mark.kernel

REST, TETS = box_tets((1.0, 0.5, 0.4), (2, 1, 1))
MATERIAL = ElasticMaterial(young=1000.0, poisson=0.4, density=1.0)
RNG = np.random.default_rng(1)
BENT = REST @ np.array([[1.2, 0.3, 0.0], [-0.2, 0.9, 0.1], [0.1, 0.0, 1.1]]) + 0.05 * RNG.standard_normal(REST.shape)


def elastic(model: type) -> TetElasticity:
    return TetElasticity(REST, TETS, tet_volumes(REST, TETS), model(MATERIAL))


# On the box's nodes: three triangles of its floor, one of them flipped; a floor with a wall; and bent rods.
FLAT = np.array([[0, 4, 2], [6, 4, 2], [4, 8, 6]])
CURVED = np.array([[0, 4, 2], [4, 6, 2], [6, 4, 7], [4, 5, 7]])
CHAIN = np.array([[0, 4, 8], [4, 8, 10], [1, 5, 11]])
FABRIC = Fabric(300.0, 0.3)


WOVEN = Fabric(300.0, 0.3, 0.2)


def membrane(model: type[Membrane], fabric: Fabric = FABRIC) -> Membrane:
    return model(REST, CURVED, fabric, warp=np.tile([0.6, 0.64, 0.48], (len(CURVED), 1)))


def fibre_energy(length: float, most: float) -> FibreEnergy:
    """Return the energy of slanted fibres that contract to a length, with a largest compression."""
    ways = np.tile(np.array([0.6, 0.64, 0.48]), (len(TETS), 1))
    return FibreEnergy.from_directions(REST, TETS, ways, 1000.0 * tet_volumes(REST, TETS), np.inf).with_contraction(
        length, most
    )


THIN: dict[str, Energy] = {
    **{model.name: membrane(model) for model in MEMBRANES},
    **{f"{model.name}, woven": membrane(model, WOVEN) for model in MEMBRANES},
    "ShellBending, flat": ShellBending(REST * np.array([1.0, 1.0, 0.0]), FLAT, 20.0),
    "ShellBending, curved": ShellBending(REST, CURVED, 20.0),
    "RodBending": RodBending.from_rest_shape(REST, CHAIN, np.array([10.0, 20.0, 30.0])),
}
ENERGIES: dict[str, Energy] = {
    **{model.__name__: elastic(model) for model in ELASTIC_MODELS},
    **THIN,
    "Fibres, pulling": fibre_energy(0.6, 0.1),
    "Fibres, pushing": fibre_energy(1.6, 0.45),
    "SoftPins": SoftPins(np.array([0, 3]), np.array([10.0, 20.0]), np.array([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5]])),
    # A tetrahedron: the mean of all nodes cancels only for closed surfaces.
    "Pressure": Pressure(np.array([[0, 2, 4], [0, 4, 1], [0, 1, 2], [1, 4, 2]]), 200.0),
    "Sewing": Sewing(np.array([[0, 4], [1, 4], [2, 5]]), np.array([200.0, 300.0, 500.0]), len(REST)),
    "DeadLoad": DeadLoad(RNG.standard_normal(REST.shape)),
}


def folded_strip(*angles: float) -> np.ndarray:
    """Return the points of a strip of triangles that is folded by an angle, rad, at each of its hinges."""
    points = [np.array([0.0, -0.4, 0.0]), np.array([0.1, 0.5, 0.0]), np.array([0.9, -0.45, 0.0])]
    for angle in angles:
        a, b, c = points[-3:]
        axis = (c - b) / np.linalg.norm(c - b)
        # The third point from the end rotated by pi about the edge gives a flat strip; less gives a fold.
        points.append(Rotation.from_rotvec((np.pi - angle) * axis).apply(a - b) + b + 0.2 * (c - b))
    return np.array(points)


STRIP = np.array([[0, 1, 2], [2, 1, 3], [2, 3, 4], [4, 3, 5], [4, 5, 6]])
CREASED = ShellBending(folded_strip(0.2, -0.1, 0.3, 0.1), STRIP, 20.0)


@pytest.mark.parametrize("fold", [2.3, 2.9, 3.1])
def test_derivatives_of_nearly_closed_fold(fold: float) -> None:
    energy, x = CREASED, folded_strip(fold, 0.5, -fold, 0.4)
    way, step = RNG.standard_normal(x.shape), 1e-6
    (above, slope), (below, other) = (energy.value_gradient(x + sign * step * way) for sign in (1.0, -1.0))
    gradient, product = energy.value_gradient(x)[1], energy.hessian(x, False) @ way.ravel()
    # Truncation error: step^2 times third derivatives, below 1e-8 of the slopes.
    assert (above - below) / (2 * step) == pytest.approx(float(np.vdot(gradient, way)), rel=1e-6)
    np.testing.assert_allclose((slope - other).ravel() / (2 * step), product, atol=1e-6 * np.abs(product).max())
    assert np.linalg.eigvalsh(energy.hessian(x, True).toarray()).min() > -1e-9 * np.abs(product).max()


def test_bending_energy_continuous_over_full_turn() -> None:
    """A jump there once stopped the line search: a strip that fell on its end could not be simulated."""
    # The rest shape is folded by 0.2 rad to the other side.
    before, after = (folded_strip(np.pi + 0.2 + change, 0.5, 0.3, 0.4) for change in (-1e-9, 1e-9))
    assert CREASED.excess_angles(before)[0] == pytest.approx(-np.pi, abs=1e-8)
    assert CREASED.excess_angles(after)[0] == pytest.approx(np.pi, abs=1e-8)
    values = [CREASED.value_gradient(x)[0] for x in (before, after)]
    # The slope over 1e-9 rad changes the energy by less.
    assert values[1] == pytest.approx(values[0], rel=1e-8)


@pytest.mark.parametrize("name", ENERGIES)
def test_gradient_matches_finite_differences(name: str) -> None:
    energy = ENERGIES[name]
    way = RNG.standard_normal(REST.shape)
    gradient = energy.value_gradient(BENT)[1]
    slope, size = float(np.vdot(gradient, way)), float(np.abs(gradient * way).sum())
    step = 1e-5
    numeric = (energy.value_gradient(BENT + step * way)[0] - energy.value_gradient(BENT - step * way)[0]) / (2 * step)
    # Central differences: truncation step^2 and rounding eps/step, both below 1e-8 of the energies, whose slopes may
    # nearly cancel.
    assert numeric == pytest.approx(slope, rel=1e-7, abs=1e-7 * max(size, 1.0))


@pytest.mark.parametrize("name", ENERGIES)
def test_hessian_matches_finite_differences(name: str) -> None:
    energy = ENERGIES[name]
    way = RNG.standard_normal(REST.shape)
    product = energy.hessian(BENT, False) @ way.ravel()
    step = 1e-5
    numeric = (energy.value_gradient(BENT + step * way)[1] - energy.value_gradient(BENT - step * way)[1]) / (2 * step)
    np.testing.assert_allclose(numeric.ravel(), product, atol=1e-7 * max(np.abs(product).max(), 1.0))


@pytest.mark.parametrize("bent", [0.0, 1.0])
@pytest.mark.parametrize("bend", [0.0, 1e-4, 2e-3, 0.1, 1.0])
def test_rod_hessian_at_any_angle(bent: float, bend: float) -> None:
    """The closed form agrees with differences of the gradient for straight, slightly bent and bent rods."""
    rng, k = np.random.default_rng(8), np.arange(30)
    rest = np.stack([0.02 * k, bent * 0.02 * rng.standard_normal(30), 0.0 * k], axis=1)
    rod = RodBending.from_rest_shape(rest, np.stack([k[:-2], k[1:-1], k[2:]], 1), rng.uniform(1.0, 3.0, 28))
    x = rest + 0.02 * bend * rng.standard_normal(rest.shape)
    found, step, columns = rod.hessian(x, False).toarray(), 1e-8, []
    for column in range(x.size):
        forward, backward = x.copy().ravel(), x.copy().ravel()
        forward[column] += step
        backward[column] -= step
        ends = [rod.value_gradient(one.reshape(x.shape))[1] for one in (forward, backward)]
        columns.append((ends[0] - ends[1]).ravel() / (2.0 * step))
    wanted = np.array(columns)
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("model", ELASTIC_MODELS)
def test_elastic_energy_zero_under_rigid_motion(model: type) -> None:
    turned = REST @ Rotation.from_rotvec([0.3, -1.0, 2.0]).as_matrix().T + np.array([5.0, 0.0, -3.0])
    value, gradient = elastic(model).value_gradient(turned)
    assert abs(value) < 1e-11 * MATERIAL.young
    assert np.abs(gradient).max() < 1e-11 * MATERIAL.young


@pytest.mark.parametrize("far", [0.0, 1000.0])
@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("model", ELASTIC_MODELS)
def test_rest_hessian_matches_nearby_hessian(model: type, project: bool, far: float) -> None:
    """The shortcut for equal elements at rest agrees with the general assembly."""
    rest, dice = REST + far, np.random.default_rng(2)
    energy = TetElasticity(rest, TETS, dice.uniform(0.1, 1.0, len(TETS)), model(MATERIAL))
    there = energy.hessian(rest, project).toarray()
    # A strain of 1e-6 changes stiffnesses by a few 1e-6. At rest all elements share one computation.
    beside = energy.hessian(rest + 1e-6 * dice.standard_normal(rest.shape), project).toarray()
    np.testing.assert_allclose(there, beside, atol=1e-4 * np.abs(there).max())
    assert np.abs(there - beside).max() > 0.0


@pytest.mark.parametrize("name", THIN)
def test_thin_energies_zero_under_rigid_motion(name: str) -> None:
    flat = np.array([1.0, 1.0, 0.0 if "flat" in name else 1.0])
    turned = (REST * flat) @ Rotation.from_rotvec([0.3, -1.0, 2.0]).as_matrix().T + np.array([5.0, 0.0, -3.0])
    value, gradient = THIN[name].value_gradient(turned)
    # Rounding of 300 N/m in a metre, five metres away.
    assert abs(value) < 1e-9
    assert np.abs(gradient).max() < 1e-9


@pytest.mark.parametrize("model", MEMBRANES, ids=lambda one: one.name)
def test_membrane_small_strain_plane_stress(model: type[Membrane]) -> None:
    rest, faces = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([[0, 1, 2]])
    strain = 1e-4 * np.array([[1.0, 0.4], [0.4, -0.5]])
    x = np.column_stack([rest[:, :2] @ (np.eye(2) + strain), np.zeros(3)])
    forces = model(rest, faces, FABRIC).value_gradient(x)[1]
    stretch, nu = FABRIC.stretch_modulus, FABRIC.poisson
    hooke = stretch / (1 - nu**2) * ((1 - nu) * strain + nu * np.trace(strain) * np.eye(2))
    # Forces at the axes' ends are the stress columns over 0.5 m^2; the next term is quadratic in the strain.
    np.testing.assert_allclose(forces[1:, :2], 0.5 * hooke, atol=10.0 * stretch * 1e-8)


@pytest.mark.parametrize("turn", [0.0, 0.4])
@pytest.mark.parametrize("model", MEMBRANES, ids=lambda one: one.name)
def test_woven_moduli_by_direction(model: type[Membrane], turn: float) -> None:
    """Along the yarns a strip has the fabric's modulus, and shear between them a fifth of a film's."""
    rest, faces = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([[0, 1, 2]])
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    energy = model(rest, faces, WOVEN, warp=np.array([[*axes[:, 0], 0.7]]))

    def stress(strain: np.ndarray) -> np.ndarray:
        x = np.column_stack([rest[:, :2] @ (np.eye(2) + axes @ strain @ axes.T), np.zeros(3)])
        # Forces at the axes' ends are the stress columns over 0.5 m^2.
        return np.asarray(axes.T @ (2.0 * energy.value_gradient(x)[1][1:, :2].T) @ axes)

    e = 1e-5
    along, across = (stress(e * np.diag(one)) / e for one in ([1.0, 0.0], [0.0, 1.0]))
    shear = stress(e * np.array([[0.0, 1.0], [1.0, 0.0]])) / e
    # A strip contracts until nothing pulls across it. The next terms are of the order of the strain.
    assert along[0, 0] - along[1, 1] * across[0, 0] / across[1, 1] == pytest.approx(300.0, rel=1e-3)
    assert shear[0, 1] == pytest.approx(0.2 * 2.0 * FABRIC.mu, rel=1e-3)


def test_yarns_stiffen_when_straight() -> None:
    """Beyond 1.5%, a yarn is eight times as stiff."""
    rest, faces = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([[0, 1, 2]])
    energy = MEMBRANES[0](rest, faces, WOVEN)
    pulls = [2.0 * energy.value_gradient(rest * [1.0 + e, 1.0, 1.0])[1][1, 0] for e in (0.0, 0.015, 0.025)]
    soft = 2.0 * WOVEN.mu + WOVEN.lam
    assert pulls[1] == pytest.approx(0.015 * (soft + WOVEN.yarn_modulus), rel=1e-9)
    assert pulls[2] - pulls[1] == pytest.approx(0.01 * (soft + 8.0 * WOVEN.yarn_modulus), rel=1e-9)
    assert Fabric(300.0, 0.3).yarn_modulus == 0.0


@pytest.mark.parametrize("model", ELASTIC_MODELS)
def test_small_strains_obey_hookes_law(model: type) -> None:
    strain = 1e-4 * np.array([[1.0, 0.4, -0.2], [0.4, -0.5, 0.3], [-0.2, 0.3, 0.7]])
    F = (np.eye(3) + strain)[:, :, None]
    _, stress = model(MATERIAL).density_stress(F)
    hooke = MATERIAL.lam * np.trace(strain) * np.eye(3) + 2.0 * MATERIAL.mu * strain
    # The next term of the law is of second order in the strain.
    np.testing.assert_allclose(stress[:, :, 0], hooke, atol=10.0 * MATERIAL.young * 1e-8)


@pytest.mark.parametrize("name", ENERGIES)
def test_projected_hessian_is_positive_semidefinite(name: str) -> None:
    crushed = BENT * np.array([0.3, 1.0, 1.0])
    matrix = ENERGIES[name].hessian(crushed, True).toarray()
    values = np.linalg.eigvalsh(matrix)
    assert values.min() >= -1e-9 * max(values.max(), 1.0)


def test_stable_neo_hookean_restores_inverted_tet() -> None:
    rest, tets = box_tets((1.0, 1.0, 1.0), (1, 1, 1))
    energy = TetElasticity(rest, tets, tet_volumes(rest, tets), ELASTIC_MODELS[0](MATERIAL))
    flipped = rest * np.array([-0.2, 1.0, 1.0])
    value, gradient = energy.value_gradient(flipped)
    assert np.isfinite(value)
    assert float(np.vdot(gradient, rest - flipped)) < 0.0
