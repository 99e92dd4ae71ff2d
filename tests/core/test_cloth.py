"""Cloth and rope bodies against the theory of plates, rods and hanging chains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hanging_bodies import flag
from scipy.linalg import eigh
from scipy.optimize import brentq

from builders import STOUT_COTTON, scene, static_body
from dampsim.core.base.errors import MeshError
from dampsim.core.bodies.cloth import POISSON, ClothKind
from dampsim.core.bodies.fabrics import FABRICS
from dampsim.core.bodies.kind import BASE_YOUNG
from dampsim.core.bodies.rope import RopeKind, consecutive_edges
from dampsim.core.geometry.mesh.rigid_motion import rigid_mode_basis
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.literature.damping.damping import DampedBody, PotentialDamping
from dampsim.core.literature.damping.viscous_dampings import (
    BendingRateDamping,
    Dissipation,
    StiffnessDamping,
    StrainRateDamping,
)
from dampsim.core.literature.papers.flat_scenes import cloth
from dampsim.core.materials import DeadLoad, ElasticMaterial, Fabric, RodBending, ShellBending, StVKMembrane
from dampsim.core.materials.strain_energy import isotropic_moduli
from dampsim.core.materials.strains import SurfaceGreenStrain
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import Settings
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.simulation.method_selection import make_stepper
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.modes import smallest_eigenvalue
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.steppers.static import solve_static_equilibrium
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.state import BlockHistory, State
from dampsim.core.system.system import assemble_system, build_system
from dampsim.core.system.term import Potential, StiffnessScaling
from shapes import sheet, sphere

# A plate of 1 mm that is clamped at one end.
CARD: dict[str, Any] = {"thickness": 1.0, "stiffness": 1e6, "density": 500.0}


def strip(segments: int, length: float = 0.3, width: float = 0.05, **more: Any) -> Body:
    """Return a strip along x that is clamped by its first row of faces, which lies before the origin."""
    pitch = length / segments
    x, y = np.linspace(-pitch, length, segments + 2), np.array([0.0, 0.5 * width, width])
    a, b = np.meshgrid(x, y, indexing="ij")
    k = (np.arange(segments + 1)[:, None] * 3 + np.arange(2)).ravel()
    faces = np.concatenate([np.stack([k, k + 3, k + 4], 1), np.stack([k, k + 4, k + 1], 1)])
    surface = Surface("Strip", np.column_stack([a.ravel(), b.ravel(), 0.0 * a.ravel()]), faces)
    return static_body(surface, (surface.vertices[:, 0] < 1e-9).astype(float), kind="CLOTH", **{**CARD, **more})


def rod(nodes: int, length: float = 0.3, clamped: bool = True, **more: Any) -> Body:
    """Return a rod along x from the origin; an additional edge before the origin clamps it."""
    pitch = length / (nodes - 1)
    x = np.arange(-1 if clamped else 0, nodes) * pitch
    surface = Surface("Rod", np.column_stack([x, 0.0 * x, 0.0 * x]), np.zeros((0, 3), dtype=np.int64))
    k = np.arange(len(x))
    pins = more.pop("pins", (x < 1e-9).astype(float))
    return static_body(surface, pins, kind="ROPE", edges=np.stack([k[:-1], k[1:]], 1), **more)


def build_block(body: Body) -> BodyDiscretization:
    return (ClothKind if body.kind == "CLOTH" else RopeKind).build(body).block


def hanging_positions(body: Body) -> np.ndarray:
    return Simulation(scene(body, last=1)).first_frame().state.positions


def frequency(body: Body) -> float:
    """Return the frequency of the first mode at rest, rad/s."""
    block = build_block(body)
    free, factor = np.flatnonzero(~block.is_fixed), body.settings.young / BASE_YOUNG
    return float(np.sqrt(factor * smallest_eigenvalue(block.stiffness_at_rest(False), block.mass, free, 0)))


def rigidity(body: Body) -> float:
    """Return E I of a rod in N m^2, or B of a sheet in N m."""
    t, young = 1e-3 * body.settings.thickness, body.settings.young
    plate = t**3 / (12.0 * (1.0 - POISSON**2))
    return float(body.settings.bending * young * (np.pi * t**4 / 64.0 if body.kind == "ROPE" else plate))


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("thickness", [0.1, 1.0, 4.0])
def test_fabric_settings_match_measured_values(name: str, thickness: float) -> None:
    """At any thickness, a square metre weighs, stretches and bends alike. The settings have three digits."""
    fabric = FABRICS[name]
    body = flag(3, **fabric.settings_at(thickness))
    assert rigidity(body) == pytest.approx(fabric.rigidity, rel=0.02)
    assert 1e-3 * thickness * body.settings.density == pytest.approx(fabric.area_density, rel=0.01)
    assert 1e-3 * thickness * body.settings.young == pytest.approx(fabric.stretch, rel=0.01)


@pytest.mark.parametrize(("segments", "close"), [(10, 0.012), (20, 0.003), (40, 0.0008)])
def test_clamped_strip_matches_beam(segments: int, close: float) -> None:
    """With Poisson's ratio 0, B is a beam's E t^3/12 per width; the error falls with the square of the segments."""
    block, length = build_block(strip(segments)), 0.3
    free = np.flatnonzero(~block.is_fixed)
    bending = ShellBending(block.rest, block.groups[0], 1.0, block.is_fixed, 0.0)
    assert bending.coordinate_hessian is not None
    stiffness, load = bending.coordinate_hessian.toarray()[np.ix_(free, free)], block.mass[free].sum() / length
    # The last row of nodes before the clamp has the mass of half a segment.
    load = float(block.mass.sum() / (length + length / segments)) / 0.05
    sag = np.linalg.solve(stiffness, block.mass[free])[-3:].mean()
    assert sag / (load * length**4 / 8.0) == pytest.approx(1.0, abs=close)
    squared = eigh(stiffness, np.diag(block.mass[free]), eigvals_only=True)[0]
    assert np.sqrt(squared) == pytest.approx(1.8751**2 / np.sqrt(load) / length**2, rel=close)


def test_strip_sag_between_beam_and_plate() -> None:
    body = strip(10)
    found = hanging_positions(replace(body, settings=replace(body.settings, gravity_weight=1e-3)))
    load, bending = body.settings.density * 1e-3, rigidity(body)
    ratio = -found[-3:, 2].mean() / (9.81e-3 * load * 0.3**4 / (8.0 * bending))
    # The ratio of a beam's to a plate's rigidity is 1 - nu^2. Ten segments add 1%.
    assert 1.0 < ratio < 1.01 / (1.0 - POISSON**2)


@pytest.mark.parametrize(("nodes", "close"), [(11, 0.011), (21, 0.003), (41, 0.001)])
def test_clamped_rod_matches_beam(nodes: int, close: float) -> None:
    """Sag and first frequency are those of a beam."""
    body = rod(nodes, thickness=3.0, stiffness=1e6, density=1000.0, gravity_weight=1e-3)
    length, load = 0.3, 1000.0 * np.pi * 9e-6 / 4.0
    theory = 9.81e-3 * load * length**4 / (8.0 * rigidity(body))
    assert -hanging_positions(body)[-1, 2] / theory == pytest.approx(1.0, abs=close)
    assert frequency(body) == pytest.approx(1.8751**2 * np.sqrt(rigidity(body) / load) / length**2, rel=close)


@pytest.mark.parametrize(("segments", "close"), [(20, 2e-3), (40, 5e-4)])
def test_large_rod_deflection_matches_elastica(segments: int, close: float) -> None:
    """A dead tip load of 10 E I/L^2: tables of the elastica give a drop of 0.8106 and a reach of 0.4450."""
    body = rod(segments + 1, length=1.0, thickness=10.0, stiffness=1e7)
    block, load = build_block(body), np.zeros((segments + 2, 3))
    load[-1, 2] = -10.0 * rigidity(body)
    loaded = replace(block, terms=(*block.terms, Potential(DeadLoad(load), StiffnessScaling.FIXED)))
    system = assemble_system((loaded,), np.zeros(3), None)
    factors = np.array([body.settings.young / BASE_YOUNG])
    tip = solve_static_equilibrium(
        make_stepper(system), State.at_rest(system.rest), system.stationary_inputs(), 1e-8, factors
    ).positions[-1]
    assert (-tip[2], tip[0]) == pytest.approx((0.8106, 0.4450), rel=close)


@pytest.mark.parametrize(
    "nodes", [pytest.param(21, marks=pytest.mark.slow), 41, pytest.param(81, marks=pytest.mark.slow)]
)
def test_rope_between_pins_is_catenary(nodes: int) -> None:
    span = 0.8
    s = np.linspace(0.0, 1.0, nodes)
    points = np.column_stack([span * s, 0.0 * s, -0.3 * (1.0 - np.abs(2.0 * s - 1.0))])
    k = np.arange(nodes)
    body = static_body(
        Surface("Chain", points, np.zeros((0, 3), dtype=np.int64)), np.isin(k, [0, nodes - 1]).astype(float),
        kind="ROPE", edges=np.stack([k[:-1], k[1:]], 1), thickness=2.0, stiffness=1e6, bending=0.0,
    )  # fmt: skip
    c = brentq(lambda c: 2.0 * c * np.sinh(0.5 * span / c) - 1.0, 0.05, 5.0)
    # The exact sag is 0.26544 m; the chain has straight links.
    assert -hanging_positions(body)[:, 2].min() == pytest.approx(c * (np.cosh(0.5 * span / c) - 1.0), rel=2e-3)


@pytest.mark.parametrize("angle", [0.0, 30.0, 45.0, 90.0])
def test_sheet_bending_is_isotropic(angle: float) -> None:
    """On a cylinder of 20 m, over B/2 per m^2 and 1/R^2; outermost edges, a fortieth of all, have no hinge."""
    flat, R = sheet(41), 20.0
    along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    across = np.array([-along[1], along[0]])
    u, w = flat.vertices[:, :2] @ along, flat.vertices[:, :2] @ across
    plane = R * np.sin(u / R)[:, None] * along + w[:, None] * across
    x = np.column_stack([plane, R * (1.0 - np.cos(u / R))])
    energy = ShellBending(flat.vertices, flat.triangles, 1.0, poisson=0.0).value_gradient(x)[0]
    assert 0.97 < energy / (0.5 / R**2) < 1.001


def test_cotton_stretch_under_own_weight() -> None:
    """With one step per frame; the mean tension is half of the weight: rho g L^2/(2 E t), 0.2%."""
    low = -hanging_positions(flag(17, **STOUT_COTTON))[:, 2].min() - 1.0
    assert low == pytest.approx(0.2 * 9.81 / (2.0 * 500.0), rel=0.02)


def test_falling_cotton_edge_stretch_bounded() -> None:
    """Below 1% with one substep at 24 frames per second; 0.73% at 10,000 vertices, docs/validation/speed.md."""
    flat = sheet(17)
    body = static_body(
        flat, (flat.vertices[:, 0] < 1e-9).astype(float), kind="CLOTH", start_settled=False, **STOUT_COTTON
    )
    pairs = np.concatenate([flat.triangles[:, [k, k - 1]] for k in range(3)])
    frames = [frame.state.positions for frame in Simulation(scene(body, last=30)).frames()]
    lengths = np.array([np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1) for x in frames])
    assert frames[-1][:, 2].min() < -0.8
    assert (lengths / lengths[0]).max() < 1.01


def test_curved_rest_shape_has_no_force() -> None:
    flat = sheet(9)
    bent = flat.vertices + np.array([0.0, 0.0, 0.3]) * np.sin(3.0 * flat.vertices[:, :1])
    body = static_body(replace(flat, vertices=bent), np.zeros(len(bent)), kind="CLOTH", **FABRICS["Denim"].settings)
    gradient = sum(
        term.energy_for(build_block(body).stationary_inputs(), BlockHistory()).value_gradient(bent)[1]
        for term in build_block(body).terms
    )
    assert np.abs(gradient).max() < 1e-9


def test_shrink_shortens_rest_lengths() -> None:
    for body in (flag(5, shrink=10.0), rod(6, shrink=10.0, pins=np.zeros(7))):
        block = build_block(body)
        value = sum(energy.value_gradient(0.9 * block.rest)[0] for energy in block.energies)
        assert abs(value) < 1e-12
        assert block.elastic_energy(block.rest) > 1e-4


def test_pressurised_ball_matches_laplace() -> None:
    """p R = 2 T for the mean tension T of a ball's skin; small strains of E t/(1 - nu) in each direction."""
    ball = sphere(400)
    pins = np.zeros(400)
    pins[0] = 1.0
    body = static_body(ball, pins, kind="CLOTH", pressure=20.0, thickness=1.0, stiffness=2000.0, gravity_weight=0.0)
    x = Simulation(scene(body, last=60)).first_frame().state.positions
    volume = np.einsum(
        "ij,ij->", *(x[ball.triangles[:, 0]], np.cross(x[ball.triangles[:, 1]], x[ball.triangles[:, 2]]))
    )
    before = np.einsum(
        "ij,ij->", ball.vertices[ball.triangles[:, 0]],
        np.cross(ball.vertices[ball.triangles[:, 1]], ball.vertices[ball.triangles[:, 2]]),
    )  # fmt: skip
    strain = (volume / before) ** (1.0 / 3.0) - 1.0
    # The polyhedron is a little flatter than a ball, and strains are half a percent.
    assert strain == pytest.approx(20.0 / 2.0 * (1.0 - POISSON) / 2000.0, rel=0.05)


def test_invalid_cloth_errors_state_fix() -> None:
    """Pressure in an open sheet, and cloth without area."""
    with pytest.raises(MeshError, match="Flag: the sheet is open, so that it holds no air; close it"):
        ClothKind.build(flag(4, pressure=1.0))
    line = Surface("Line", np.eye(3) * np.array([[1.0], [2.0], [3.0]]) @ np.ones((3, 3)), np.array([[0, 1, 2]]))
    with pytest.raises(MeshError, match="Line: all faces are thinner than a hair; choose Rope or Springs"):
        ClothKind.build(static_body(line, kind="CLOTH"))


def test_duplicate_and_loose_cloth_vertices() -> None:
    """Duplicate vertices stay joined; vertices without faces follow the animation."""
    flat = sheet(3)
    doubled = np.concatenate([flat.vertices, flat.vertices[[4]], [[5.0, 5.0, 5.0]]])
    faces = flat.triangles.copy()
    faces[-1][faces[-1] == 4] = 9
    model = ClothKind.build(static_body(Surface("Seam", doubled, faces), kind="CLOTH"))
    assert len(model.block.rest) == 9
    moved = model.block.rest + np.arange(9)[:, None] * 0.1
    shown = model.skin(moved, doubled)
    np.testing.assert_array_equal(shown[9], shown[4])
    np.testing.assert_array_equal(shown[10], doubled[10])


def test_rope_continues_along_straightest_edges() -> None:
    """A T of edges: the bar is one rope, and the stem is attached to it."""
    rest = np.array([[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 0.0, -2.0]])
    edges = np.array([[0, 1], [1, 2], [1, 3], [3, 4]])
    found = {tuple(sorted(row)) for row in consecutive_edges(rest, edges).tolist()}
    assert found == {(0, 1, 2), (1, 3, 4)}


def test_cloth_viscosities_in_newton_seconds() -> None:
    """Dialled values are those of [SRD] (15) per area, at any stiffness; bending is damped by the ratio."""
    flat = sheet(5)
    block = BodyDiscretization(
        "Sheet", flat.vertices, np.ones(25), (flat.triangles,),
        (Potential(StVKMembrane(flat.vertices, flat.triangles, Fabric(9.0, 0.3))),), np.zeros(0, dtype=np.int64),
        np.zeros(0),
    )  # fmt: skip
    dials = Settings(viscosity_by="VALUES", lambda_d_value=30.0, mu_d_value=20.0).as_dict()
    x = flat.vertices
    for factor in (1.0, 7.0):
        C = StrainRateDamping(DampedBody(block, dials, ElasticMaterial(1e5, 0.3, 1.0), 9.0, factor)).matrix(x)
        plane = np.ptp(x, axis=0) > 1e-9
        area = float(np.prod(np.ptp(x, axis=0)[plane]))
        first, second = np.flatnonzero(plane)
        sheared = np.zeros_like(x)
        sheared[:, first] = x[:, second]
        for field, expected in ((x, 4.0 * 30.0 + 4.0 * 20.0), (sheared, 20.0)):
            assert float(field.ravel() @ (C @ field.ravel())) == pytest.approx(expected * area, rel=1e-12)


def test_strain_rate_damping_ignores_rotation() -> None:
    """Bending and stretching rates are damped; rigid rotations of deformed elements are not."""
    rng = np.random.default_rng(0)
    flat = sheet(5)
    x = flat.vertices + 0.1 * rng.standard_normal(flat.vertices.shape)
    k = np.arange(25)
    parts = [
        BendingRateDamping(ShellBending(flat.vertices, flat.triangles, 2.0), 0.3),
        BendingRateDamping(RodBending.from_rest_shape(x, np.stack([k[:-2], k[1:-1], k[2:]], 1), np.ones(23)), 0.3),
        Dissipation(
            SurfaceGreenStrain(
                StVKMembrane(flat.vertices, flat.triangles, Fabric(9.0, 0.3)).shape_gradients, flat.triangles
            ),
            isotropic_moduli(3.0, 4.0, 2), np.ones(len(flat.triangles)), 25,
        ),
    ]  # fmt: skip
    rigid = rigid_mode_basis(x, np.zeros((0, 3)), np.ones(25)).reshape(75, -1)
    for part in parts:
        C = part.matrix(x).toarray()
        assert np.linalg.eigvalsh(C).min() > -1e-12 * np.abs(C).max()
        assert np.abs(C @ rigid).max() < 1e-12 * np.abs(C).max()
    # By finite differences: the power is twice the quadratic form of the angles' rates with K_b.
    shell, v, h = ShellBending(flat.vertices, flat.triangles, 2.0), rng.standard_normal(x.shape), 1e-6
    J = shell.angle_jacobian(x)
    angles = (shell._dihedral.values((x + s * h * v)[shell.hinges.nodes])[:, 0] for s in (1.0, -1.0))
    rate = np.subtract(*angles) / (2.0 * h)
    np.testing.assert_allclose(J @ v.ravel(), rate, atol=1e-6 * np.abs(rate).max())
    lost = v.ravel() @ (parts[0].matrix(x) @ v.ravel())
    assert lost == pytest.approx(0.3 * rate @ shell.stiffness @ rate, rel=1e-6)


@pytest.mark.slow
def test_cloth_swing_strain_rate_versus_rayleigh() -> None:
    """[SRD] figure 3: 17 x 17, beta 0.15 s, steps of 5 ms; mean kinetic energies over the undamped one's.

    Strain-rate damping keeps the swing, Rayleigh damping does not.
    """
    flat = cloth(17, np.arange(17))
    block, rest = flat.blocks[0], flat.rest
    (faces,) = block.groups
    energy = StVKMembrane(rest, faces, Fabric(150.0, 0.5))
    upright = np.column_stack([np.zeros(len(rest)), rest[:, 1], -rest[:, 0]])
    system = build_system(
        rest, faces, block.mass, (energy,), flat.gravity, np.arange(17), np.full(17, np.inf), has_eigenvalues=False
    )
    drag = 0.15 * isotropic_moduli(energy.fabric.lam, energy.fabric.mu, 2)
    dampings = {
        "none": None,
        "rate": PotentialDamping(
            Dissipation(SurfaceGreenStrain(energy.shape_gradients, faces), drag, energy.weights, len(rest))
        ),
        "rayleigh": PotentialDamping(StiffnessDamping((energy,), 0.15)),
    }

    def mean(name: str, start: np.ndarray, steps: int) -> float:
        one = dampings[name]
        steps_of = Stepper(system, minimise_newton, one.matrix if one else None)
        state, total = State.at_rest(start), 0.0
        controls = Controls(tuple(BackwardEulerLaw() for _ in system.regions), 1.0, 1e-3)
        for _ in range(steps):
            state, report = steps_of.step(state, system.stationary_inputs(state.positions), 0.005, controls)
            assert report.outcome is Outcome.CONVERGED
            total += 0.5 * float(system.mass @ (state.velocities**2).sum(axis=1))
        return total / steps

    hanging = {name: mean(name, upright, 60) for name in dampings}
    assert hanging["rate"] == pytest.approx(hanging["rayleigh"], rel=0.05)
    assert hanging["rate"] < 0.1 * hanging["none"]
    swinging = {name: mean(name, rest, 150) for name in dampings}
    assert swinging["rate"] > 0.9 * swinging["none"]
    assert swinging["rayleigh"] < 0.6 * swinging["none"]
