"""The product against the papers' formulas in references/, written a second time: equal to rounding.

Whatever is in a registry must have its reference here.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.transform import Rotation

from dampsim.core.damping.clusters import CLUSTERS, Mesh
from dampsim.core.damping.damping import Blockwise, ByPotential, DampedBody, Damping
from dampsim.core.damping.dissipation import Dissipation
from dampsim.core.damping.registry import DAMPINGS
from dampsim.core.damping.spring import fastest
from dampsim.core.damping.strain_rate import STRAINS
from dampsim.core.damping.torque import TORQUE_SCHEMES
from dampsim.core.elements.bending import Angle, Tangent
from dampsim.core.elements.strains import Green, Stretch, components, tensors
from dampsim.core.energies import ELASTIC_MODELS, Material, SoftPins
from dampsim.core.energies.springs import springs
from dampsim.core.energies.strain_energy import StrainEnergy, without_compression
from dampsim.core.energies.strain_energy import isotropic as components_of
from dampsim.core.geometry.rigid import rigid_basis
from dampsim.core.integrators import INTEGRATORS, Integration, Integrator
from dampsim.core.papers.bar import bar
from dampsim.core.papers.flat_scenes import cloth
from dampsim.core.scene.parameters import PARAMETERS, Settings
from dampsim.core.solvers.problem import Outcome
from dampsim.core.stepping.carrier import Moment, pieces
from dampsim.core.stepping.controls import Controls
from dampsim.core.stepping.first_mode import FirstModeLaw
from dampsim.core.stepping.inertia import region_terms
from dampsim.core.stepping.law import BackwardEulerLaw, Coefficients, FixedLaw
from dampsim.core.stepping.step import Stepper
from dampsim.core.stepping.step_problem import StepProblem
from dampsim.core.stepping.waveform import WaveformLaw
from dampsim.core.system.block import Block
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.links import Joints
from dampsim.core.system.state import State
from dampsim.core.system.system import System, assemble, build_system
from dampsim.core.system.term import Potential, pin_springs
from references import elastic, laws, rates, steps, velocities
from test_damping import squashed, states

# Sums of a few hundred products lose two or three digits of sixteen; the papers' formulas are met to this part.
CLOSE = 1e-10
H = 1.0 / 60.0
POISSON, DENSITY = 0.37, 900.0
ACTING = {method.name: method for method in DAMPINGS if method.velocities is not Damping.velocities}
PUSHING = {method.name: method for method in DAMPINGS if method.matrix is not Damping.matrix}
MATRICES = {"STRAIN_RATE", "RAYLEIGH", "TRADITIONAL"}


def same(found: np.ndarray, wanted: np.ndarray, close: float = CLOSE) -> None:
    found = np.asarray(found.toarray() if isinstance(found, csr_matrix) else found)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= close * np.abs(wanted).max()


def test_everything_in_a_registry_has_a_reference() -> None:
    assert set(velocities.VELOCITIES) == set(ACTING)
    assert set(MATRICES) == set(PUSHING)
    assert set(ACTING) | set(PUSHING) == {method.name for method in DAMPINGS}
    assert set(velocities.TORQUES) == set(TORQUE_SCHEMES)
    assert set(velocities.CLUSTERS) == set(CLUSTERS)
    assert set(rates.RATES) == set(STRAINS)
    assert set(elastic.DENSITIES) == {model.name for model in ELASTIC_MODELS}
    assert set(steps.INTEGRATORS) == {one.name for one in INTEGRATORS}


# Dampings that act on velocities.


def made(name: str, system: System, stiffness: float = 1.0, eigenvalue: float = 90.0, **dials: object) -> Damping:
    """With the stiffness as dialled, a factor on the block's own of 1e5 Pa."""
    values = Settings(damping_by=name, poisson=POISSON, **dials).as_dict()  # type: ignore[arg-type]
    method = {**ACTING, **PUSHING}[name]
    chosen = {key: values[key] for key in method.parameters}
    material = Material(1e5 * stiffness, POISSON, DENSITY)
    return method(DampedBody(system.blocks[0], chosen, material, eigenvalue, stiffness))


def broken() -> System:
    """Two pieces: bars beside each other, with masses of all sizes."""
    plain = squashed(False)
    (elements,) = plain.blocks[0].groups
    count = len(plain.rest)
    rest = np.concatenate([plain.rest, 0.7 * plain.rest + [0.0, 1.0, 0.0]])
    block = replace(
        plain.blocks[0], rest=rest, mass=np.concatenate([plain.mass, 0.3 * plain.mass[::-1]]),
        groups=(np.concatenate([elements, elements + count]),), terms=(),
    )  # fmt: skip
    return replace(plain, blocks=(block,))


def compared(name: str, system: System, h: float = H, close: float = CLOSE, **dials: object) -> None:
    damping = made(name, system, **dials)
    for state in states(system, 4):
        rng = np.random.default_rng(9)
        # What explicit methods hand over is ahead of the velocities before.
        ahead = state.velocities + 0.5 * rng.standard_normal(state.velocities.shape) * np.abs(state.velocities).max()
        body = velocities.Body(
            system.mass, system.blocks[0].groups[0], state.positions, state.velocities, ahead, h
        )  # fmt: skip
        wanted = velocities.VELOCITIES[name](body, damping.body.dials)
        same(damping.velocities(state.positions, state.velocities, ahead, h), wanted, close)


def test_point_damping_takes_gamma_from_a_node_of_mean_mass() -> None:
    for gamma in (0.1, 0.6, 1.0):
        compared("POINT", squashed(False), gamma=gamma)


@pytest.mark.parametrize("name", ["SPRING", "SPRING_WHOLE"])
@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("sweeps", [1, 2, 7])
def test_springs_damp_as_the_matrices_of_the_paper(name: str, current: bool, sweeps: int) -> None:
    for gamma in (0.3, 1.0):
        compared(name, squashed(False), gamma=gamma, damp_current=current, sweeps=sweeps)


def test_the_fastest_spring_of_a_large_mesh_is_found_as_that_of_a_small_one() -> None:
    system = bar((4, 2, 2))
    mesh = Mesh.of(system.mass, system.blocks[0].groups)
    body = velocities.Body(system.mass, system.blocks[0].groups[0], system.rest, system.rest, system.rest, H)
    E = velocities.incidence(body)
    values = np.linalg.eigvals(E @ E.T / system.mass[:, None]).real
    # The iteration for more than 24 nodes ends at 1e-6.
    assert fastest(mesh) == pytest.approx(values.max(), rel=1e-5)


@pytest.mark.parametrize("clusters", [choice.name for choice in PARAMETERS["clusters"].choices])
@pytest.mark.parametrize("torque", [choice.name for choice in PARAMETERS["torque"].choices])
def test_direct_damping_is_the_papers_in_every_cluster_and_with_every_scheme(clusters: str, torque: str) -> None:
    system = broken() if clusters == "PIECES" else squashed(False)
    # The solver of the programme is content with less, and a step of least squares mends its sums.
    close = 1e-9 if torque == "PROGRAMME" else CLOSE
    compared("DIRECT", system, close=close, clusters=clusters, torque=torque, gamma=0.45)


@pytest.mark.parametrize("torque", TORQUE_SCHEMES)
def test_direct_damping_of_the_whole_step_is_the_limit_of_all_sweeps(torque: str) -> None:
    compared("DIRECT", squashed(True), close=1e-8, clusters="BODY", torque=torque, gamma=1.0)


def test_a_factor_above_one_is_never_taken_along_edges() -> None:
    """Two nodes: along their only edge both factors would be half; of three equal ones less still; so is the cap."""
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    tets = np.array([[0, 1, 2, 3]])
    block = Block("Tet", x, np.ones(4), (tets,), (), np.zeros(0, dtype=np.int64), np.zeros(0))
    system = assemble((block,), np.zeros(3), None, modal=False)
    for torque in ("EDGES", "EDGES_PRINTED"):
        compared("DIRECT", system, clusters="BODY", torque=torque, gamma=0.2)


# Dampings by forces.


def deformed(system: System, count: int = 3, size: float = 0.06) -> list[np.ndarray]:
    """Some of the elements are turned over."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(count):
        turn = Rotation.random(random_state=rng).as_matrix()
        found.append((system.rest + size * rng.standard_normal(system.rest.shape)) @ turn.T)
    return found


def solid(model: str) -> System:
    kind = next(one for one in ELASTIC_MODELS if one.name == model)
    return bar((2, 1, 1), clamped=False, material=Material(1e5, POISSON, DENSITY), model=kind)


@pytest.mark.parametrize("strain", STRAINS)
@pytest.mark.parametrize(("axis", "times"), [("X", 1.0), ("Y", 6.0), ("Z", 2.0)])
def test_strain_rate_damping_is_the_papers_potential_of_each_strain(strain: str, axis: str, times: float) -> None:
    system = solid("StableNeoHookean")
    damping = made(
        "STRAIN_RATE", system, 2.5, strain=strain, damp_axis=axis, anisotropy=times, damping_ratio=0.3
    )  # fmt: skip
    beta = 2 * 0.3 / np.sqrt(90.0)
    for x in deformed(system, size=0.04):
        wanted = rates.strain_rate(
            system.rest, system.blocks[0].groups[0], x, 2.5e5, POISSON, beta, strain, axis, times
        )  # fmt: skip
        # The root of F^T F loses what a nearly flat element has in common with a flat one.
        same(damping.matrix(x), wanted, 1e-8 if strain == "BIOT" else CLOSE)


@pytest.mark.parametrize("model", elastic.DENSITIES)
def test_rayleigh_damping_is_the_positive_stiffness_as_dialled(model: str) -> None:
    system = solid(model)
    damping = made("RAYLEIGH", system, 2.5, damping_ratio=0.3)
    (tets,) = system.blocks[0].groups
    for x in deformed(system):
        arguments = (model, system.rest, tets, x, 1e5, POISSON)
        wanted = 2.5 * 2 * 0.3 / np.sqrt(90.0) * elastic.tet_hessian(*arguments, project=True)
        same(damping.matrix(x), wanted)
        # The states are such that the projection counts.
        raw = elastic.tet_hessian(*arguments, project=False)
        assert np.abs(elastic.tet_hessian(*arguments, project=True) - raw).max() > 1e-3 * np.abs(raw).max()


def test_rayleigh_in_the_papers_words_is_the_reference_of_the_stiffness() -> None:
    system = solid("StVK")
    (tets,) = system.blocks[0].groups
    x = deformed(system)[0]
    wanted = rates.rayleigh("StVK", system.rest, tets, x, 1e5, POISSON, 0.02)
    dials = made("RAYLEIGH", system, eigenvalue=100.0, damping_ratio=0.1)
    same(dials.matrix(x), wanted)


def test_traditional_damping_has_the_viscosities_of_the_thesis() -> None:
    system = solid("StVK")
    damping = made("TRADITIONAL", system, 2.5, wavelength=0.6)
    for x in deformed(system):
        wanted = rates.traditional(
            system.rest, system.blocks[0].groups[0], x, 2.5e5, POISSON, DENSITY, 0.6
        )  # fmt: skip
        same(damping.matrix(x), wanted)


def chain() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, edges, lengths and W of a few springs, some of them compressed."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 3))
    edges = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [1, 3], [3, 4]])
    lengths = np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1) * rng.uniform(0.6, 1.6, len(edges))
    return x, edges, lengths, rng.uniform(20.0, 80.0, len(edges))


def test_springs_of_a_body_are_damped_by_their_own_stiffness_as_dialled() -> None:
    x, edges, lengths, W = chain()
    energy = springs(edges, lengths, W / lengths)
    system = build_system(
        x, edges, np.ones(5), (energy,), np.zeros(3), np.zeros(0, dtype=np.int64), np.zeros(0), modal=False
    )  # fmt: skip
    factor = 2.5 * 2 * 0.3 / np.sqrt(90.0)
    wanted = rates.dissipation(
        lambda m, y, v: rates.length_rate(lengths[m], y, v), [factor * w * np.eye(1) for w in W], edges, x
    )
    same(made("STRAIN_RATE", system, 2.5, damping_ratio=0.3).matrix(x), wanted)
    same(
        made("RAYLEIGH", system, 2.5, damping_ratio=0.3).matrix(x),
        factor * elastic.spring_hessian(x, edges, lengths, W, True),
    )


def test_the_rates_of_triangles_springs_and_rods_are_the_papers() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 3))
    weights = np.array([0.7, 1.3])
    flat, faces = rng.standard_normal((4, 2)), np.array([[0, 1, 2], [1, 3, 2]])
    V = components_of(3.0, 2.0, 2)
    wanted = rates.dissipation(
        lambda m, y, v: rates.green_rate(flat[faces[m]], y, v),
        [w * rates.isotropic(3.0, 2.0, 2) for w in weights], faces, x,
    )  # fmt: skip
    same(Dissipation(Green(flat, faces), V, weights, 4).matrix(x), wanted)
    wanted = rates.dissipation(
        lambda m, y, v: rates.stretch_rate(flat[faces[m]], y, v),
        [w * rates.isotropic(3.0, 2.0, 2) for w in weights], faces, x,
    )  # fmt: skip
    same(Dissipation(STRAINS["BIOT"](flat, faces), V, weights, 4).matrix(x), wanted, 1e-9)
    lengths = np.array([0.8, 1.1])
    links, rods = np.array([[0, 1], [2, 1]]), np.array([[0, 1, 2], [1, 2, 3]])
    for kind, rate, elements, c in (
        (Stretch, rates.length_rate, links, 1),
        (Angle, rates.angle_rate, rods, 1),
        (Tangent, rates.tangent_rate, rods, 3),
    ):
        wanted = rates.dissipation(
            lambda m, y, v, rate=rate: rate(lengths[m], y, v),  # type: ignore[misc]
            [5.0 * w * np.eye(c) for w in weights], elements, x,
        )  # fmt: skip
        same(Dissipation(kind(lengths, elements), 5.0 * np.eye(c), weights, 4).matrix(x), wanted)


def test_a_dissipations_stress_force_and_jacobians_are_the_papers() -> None:
    """(4.2), (4.4): the stress as a tensor, the force by it, and its slope along the imaginary axis."""
    system = solid("StVK")
    rest, (tets,) = system.rest, system.blocks[0].groups
    x, v = deformed(system)[0], np.random.default_rng(3).standard_normal(system.rest.shape)
    weights = np.array(rates.volumes(rest, tets))
    damping = Dissipation(Green(rest, tets), components_of(3.0, 2.0, 3), weights, len(rest))
    V = rates.isotropic(3.0, 2.0, 3)
    stress = np.array([(V @ rates.green_rate(rest[t], x[t], v[t]).ravel()).reshape(3, 3) for t in tets])
    same(tensors(damping.stress(x, v), 3), stress)
    weighted = [w * V for w in weights]
    same(damping.force(x, v), rates.green_force(rest, tets, weighted, x, v))
    whole = elastic.slopes(lambda y: rates.green_force(rest, tets, weighted, y, v).ravel(), x)
    same(damping.by_positions(x, v, whole=True), whole)

    def geometric(S: np.ndarray) -> np.ndarray:
        """-w d2 eps/dx2 S: the strain's second derivative, by its slope's, of the stress that stays."""
        total = np.zeros((x.size, x.size))
        for one, tet, w in zip(S, tets, weights, strict=True):
            shape = elastic.slopes(lambda y, tet=tet: elastic.gradient(rest[tet], y), x[tet])  # type: ignore[misc]
            H = np.einsum("rak,ab,rbl->kl", shape, one, shape)
            total[np.ix_(elastic.dof(tet), elastic.dof(tet))] -= w * H
        return total

    same(damping.by_positions(x, v, whole=False), geometric(stress))
    clamped = np.array([elastic.positive(one) for one in stress])
    same(damping.by_positions(x, v, whole=False, clamped=True), geometric(clamped))
    same(tensors(without_compression(components(stress)), 3), clamped)


# Elasticity.


@pytest.mark.parametrize("model", elastic.DENSITIES)
def test_densities_stresses_and_stiffnesses_are_the_papers(model: str) -> None:
    kind = next(one for one in ELASTIC_MODELS if one.name == model)
    density, stress = elastic.DENSITIES[model]
    rng = np.random.default_rng(0)
    F = np.eye(3)[:, :, None] + 0.6 * rng.standard_normal((3, 3, 12))
    material = kind(Material(7e3, POISSON, DENSITY))
    energies, stresses = material.density_stress(F.copy())
    for k in range(F.shape[2]):
        one = F[:, :, k]
        assert energies[k] == pytest.approx(float(density(one, 7e3, POISSON)), rel=CLOSE)
        same(stresses[:, :, k], stress(one, 7e3, POISSON))
        same(stress(one, 7e3, POISSON), elastic.slopes(lambda G: density(G, 7e3, POISSON), one).reshape(3, 3))
        same(material.stiffness(F)[k], elastic.slopes(lambda G: stress(G, 7e3, POISSON).ravel(), one))


@pytest.mark.parametrize("model", elastic.DENSITIES)
@pytest.mark.parametrize("project", [False, True])
def test_the_stiffness_of_tetrahedra_is_the_papers(model: str, project: bool) -> None:
    system = solid(model)
    (energy,) = system.blocks[0].energies
    (tets,) = system.blocks[0].groups
    for x in deformed(system):
        wanted = elastic.tet_hessian(model, system.rest, tets, x, 1e5, POISSON, project)
        same(energy.hessian(x, project), wanted)
        stress = elastic.DENSITIES[model][1]
        force = np.zeros(x.size)
        for tet, w in zip(tets, rates.volumes(system.rest, tets), strict=True):
            F = elastic.gradient(system.rest[tet], x[tet])
            B = elastic.slopes(lambda y, tet=tet: elastic.gradient(system.rest[tet], y).ravel(), x[tet])  # type: ignore[misc]
            force[elastic.dof(tet)] += w * B.T @ stress(F, 1e5, POISSON).ravel()
        same(energy.value_gradient(x)[1].ravel(), force)


def test_springs_soft_pins_and_links_are_the_formulas() -> None:
    x, edges, lengths, W = chain()
    energy = springs(edges, lengths, W / lengths)
    sizes = np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1)
    value, gradient = energy.value_gradient(x)
    assert value == pytest.approx(0.5 * float(W @ (sizes / lengths - 1) ** 2), rel=CLOSE)
    same(-gradient, elastic.spring_force(x, edges, lengths, W))
    for project in (False, True):
        same(energy.hessian(x, project), elastic.spring_hessian(x, edges, lengths, W, project))
    pins = SoftPins(np.array([1, 4]), np.array([3.0, 7.0]), x[[0, 2]])
    value, gradient = pins.value_gradient(x)
    assert value == pytest.approx(1.5 * ((x[1] - x[0]) ** 2).sum() + 3.5 * ((x[4] - x[2]) ** 2).sum(), rel=CLOSE)
    same(gradient, np.stack([0 * x[0], 3 * (x[1] - x[0]), 0 * x[0], 0 * x[0], 7 * (x[4] - x[2])]))
    rows = np.array([[0.3, 0.7, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, -0.4, -0.6], [0.0, 1.0, 0.0, 0.0, -1.0]])
    gaps, k = np.array([0.5, 0.0, 4.0]), np.array([10.0, 20.0, 30.0])
    rigid, owners, factors = np.array([False, True, True]), np.array([[0, 1]] * 3), np.array([1.5, 4.0])
    links = Joints(csr_matrix(rows), k, gaps, rigid, owners)
    # A rigid link goes with the stiffer of its blocks.
    strength = np.array([10.0, 80.0, 120.0])
    value, gradient = links.value_gradient(x, factors)
    assert value == pytest.approx(elastic.link_energy(x, rows, gaps, strength), rel=CLOSE)
    same(gradient, elastic.link_gradient(x, rows, gaps, strength))
    exact = elastic.slopes(lambda y: elastic.link_gradient(y, rows, gaps, strength).ravel(), x)
    same(links.hessian(x, factors, False), exact)
    same(links.hessian(x, factors, True), _projected_links(x, rows, gaps, strength))


def _projected_links(x: np.ndarray, rows: np.ndarray, gaps: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Each link's 3 x 3 block without its negative part; it lies between two points."""
    total = np.zeros((x.size, x.size))
    for row, L, s in zip(rows, gaps, k, strict=True):
        one = elastic.slopes(lambda d, L=L, s=s: elastic.link_gradient(d, np.eye(1), [L], [s]), (row @ x)[None])  # type: ignore[misc]
        spread = np.kron(row[None], np.eye(3))
        total += spread.T @ elastic.positive(one.reshape(3, 3)) @ spread
    return total


# Integrators.


def scene(damped: str | None) -> tuple[steps.Scene, System, Damping]:
    x, edges, lengths, W = chain()
    mass = np.array([0.8, 1.5, 0.6, 1.1, 2.0])
    pinned, stiffness = np.array([0, 2, 4]), np.array([np.inf, np.inf, 35.0])
    terms = (Potential(springs(edges, lengths, W / lengths)), *pin_springs(pinned, stiffness))
    block = Block("Chain", x, mass, (edges,), terms, pinned, stiffness)
    gravity = np.array([0.5, -1.0, -9.0])
    system = assemble((block,), gravity, None, modal=False)
    viscosity = 0.07 * W
    drag = ByPotential(Dissipation(Stretch(lengths, edges), np.eye(1), viscosity, len(x)))
    dials = {"gamma": 0.4, "damp_current": True, "sweeps": 2}

    class Both(Damping):
        """A force and a change of velocities at once, which tells at which of them each integrator looks."""

        def __init__(self) -> None:
            self._slow = None if damped is None else made(damped, system, **dials)

        def velocities(self, positions, before, predicted, h):  # type: ignore[no-untyped-def]
            return predicted if self._slow is None else self._slow.velocities(positions, before, predicted, h)

        def matrix(self, positions):  # type: ignore[no-untyped-def]
            return drag.matrix(positions)

    def slow(positions: np.ndarray, before: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        body = velocities.Body(mass, edges, positions, before, predicted, 0.02)
        return predicted if damped is None else velocities.VELOCITIES[damped](body, dials)

    soft = {4: 35.0}
    reference = steps.Scene(mass, edges, lengths, W, viscosity, soft, np.array([0, 2]), gravity, 1.7, slow)
    return reference, system, Both()


@pytest.mark.parametrize("damped", [None, "POINT", "SPRING"])
@pytest.mark.parametrize("name", steps.INTEGRATORS)
def test_a_step_of_every_integrator_is_its_equation(name: str, damped: str | None) -> None:
    reference, system, damping = scene(damped)
    integrator = next(one for one in INTEGRATORS if one.name == name)
    stepping = Integration(integrator, system, damping)
    rng = np.random.default_rng(5)
    for _ in range(3):
        x = system.rest + 0.1 * rng.standard_normal(system.rest.shape)
        v = 2.0 * rng.standard_normal(x.shape)
        end = x + 0.05 * rng.standard_normal(x.shape)
        inputs = (BlockInputs(x[system.pinned], end[system.pinned]),)
        state = State(0.3, x, v, np.zeros_like(x))
        controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-14, 1.7)
        after, report = stepping.step(state, inputs, 0.02, controls)
        assert report.outcome is Outcome.CONVERGED
        places, speeds = steps.INTEGRATORS[name](reference, steps.Start(x, v, x, end, 0.02))
        assert after.time == pytest.approx(0.32)
        # What the minimisation leaves of its residual: its floor is the rounding of positions.
        same(after.positions, places, 1e-11)
        same(after.velocities, speeds, 1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda one: one.name)
def test_the_declared_order_holds_where_the_drag_changes_with_the_places(integrator: type[Integrator]) -> None:
    """Springs that turn as they swing: their strain rate's C is another one in every step."""
    _, system, damping = scene(None)
    place, ends = system.rest[system.pinned], []
    controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-12)
    for count in (100, 200, 400):
        state = State.at_rest(system.rest)
        stepping = Integration(integrator, system, damping)
        for _ in range(count):
            state, report = stepping.step(state, (BlockInputs(place, place),), 0.5 / count, controls)
            assert report.outcome is Outcome.CONVERGED
        ends.append(state.positions)
    coarse, fine = (float(np.abs(b - a).max()) for a, b in itertools.pairwise(ends))
    # Halving the step once more would bring it nearer.
    assert np.log2(coarse / fine) == pytest.approx(integrator.order, abs=0.15)


def test_dampings_of_many_bodies_act_on_each_alone() -> None:
    system = squashed(False)
    count = len(system.rest)
    one, other = made("POINT", system, gamma=0.5), made("STRAIN_RATE", system)
    both = Blockwise([(slice(0, count), one), (slice(count, 2 * count), other), (slice(2 * count, 3 * count), None)])
    x, v = np.tile(system.rest, (3, 1)), np.random.default_rng(0).standard_normal((3 * count, 3))
    slowed = both.velocities(x, v, v, H)
    same(slowed[:count], one.velocities(x[:count], v[:count], v[:count], H))
    assert (slowed[count:] == v[count:]).all()
    matrix = both.matrix(x)
    assert matrix is not None
    wanted = np.zeros((9 * count, 9 * count))
    wanted[3 * count : 6 * count, 3 * count : 6 * count] = other.matrix(system.rest).toarray()  # type: ignore[union-attr]
    same(matrix, wanted)


# Laws, and the terms of a substep.


def numbers(found: Coefficients) -> dict[str, np.ndarray]:
    return {one.name: np.asarray(getattr(found, one.name)) for one in fields(found) if one.name != "waveform"}


@pytest.mark.parametrize("frequency", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("whip", [1.05, 1.8])
@pytest.mark.parametrize("h", [1 / 24, 1 / 300])
def test_the_waveforms_coefficients_are_the_formulas_at_any_step(frequency: float, whip: float, h: float) -> None:
    a, lam = 4.0, 250.0
    law = WaveformLaw(a, frequency, lam, whip=whip)
    for found, formula in ((law.coefficients(h), laws.waveform), (law.calmer(h), laws.calmer)):
        wanted = formula(a, frequency, whip, lam, h)
        for name, value in numbers(found).items():
            # 1 - B/B_inf is a difference of nearly equal numbers where the stiffest swings hardly faster.
            assert float(value) == pytest.approx(wanted[name], rel=1e-9, abs=1e-13), name
    for t in (-h, 0.0, 0.1, 1.0):
        assert law.released(t) == pytest.approx(laws.released(a, frequency, t), rel=1e-12)
    # A painted part of the time is a law that much faster.
    parts = np.array([1.0, 0.5, 0.2])
    painted = replace(law, pace=parts)
    for name, formula in (("coefficients", laws.waveform), ("calmer", laws.calmer)):
        calm = name == "calmer" and frequency * h / parts.min() > np.pi / 5
        for key, values in numbers(getattr(painted, name)(h)).items():
            # One part that turns too far calms all of them.
            each = [
                formula(a / p, 0.0 if calm and key in ("kappa", "s", "q") else frequency / p, whip, lam, h)[key]
                for p in parts
            ]
            np.testing.assert_allclose(np.broadcast_to(values, 3), each, rtol=1e-9, atol=1e-13, err_msg=key)


@pytest.mark.parametrize("frequency", [0.0, 3.0, 12.0])
def test_the_first_laws_coefficients_are_the_formulas(frequency: float) -> None:
    a, lam, h = 4.0, 250.0, 1 / 30
    law = FirstModeLaw(a, frequency, lam)
    wanted = laws.first_mode(a, frequency, lam, h)
    assert law.coefficients(h).kappa == pytest.approx(wanted["kappa"], rel=1e-12)
    assert law.coefficients(h).s == pytest.approx(wanted["s"], rel=1e-12)
    fast = laws.first_mode(a / 0.5, frequency / 0.5, lam, h)
    painted = replace(law, pace=np.array([0.5])).coefficients(h)
    assert float(np.ravel(painted.kappa)[0]) == pytest.approx(fast["kappa"], rel=1e-12)
    assert float(np.ravel(painted.s)[0]) == pytest.approx(fast["s"], rel=1e-12)


@pytest.mark.parametrize("phi", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("painted", [False, True])
def test_the_first_laws_terms_are_the_operators_of_physics_however_the_pins_move(phi: float, painted: bool) -> None:
    """One pin, about which the bar may swing: (2.3) to (2.8) with full matrices."""
    rng = np.random.default_rng(6)
    plain = bar((2, 1, 1), clamped=False)
    block = plain.blocks[0]
    gravity = np.array([1.0, 2.0, -9.0])
    system = build_system(
        block.rest, block.groups[0], block.mass, block.energies, gravity, np.array([0]), np.array([np.inf])
    )
    (region,) = system.regions
    assert region.rigid_modes == 3
    x = system.rest + 0.02 * rng.standard_normal(system.rest.shape)
    v, reference = rng.standard_normal(x.shape), 0.3 * rng.standard_normal(x.shape)
    h, shift = 0.02, np.array([0.01, -0.02, 0.03])
    inputs = (BlockInputs(x[[0]], x[[0]] + shift),)
    state = State(0.0, x, v, reference)
    s: float | np.ndarray = rng.uniform(0.1, 0.4, len(region.free)) if painted else 0.3
    terms = region_terms(
        Moment.of(system, state, inputs, h), region, pieces(system, region), Coefficients(0.6, s), np.array([phi])
    )
    free, mass = region.free, system.mass[region.free]
    # One pin leaves the turn open: it only carries along.
    c = np.tile(shift / h, (len(free), 1))
    u = v[free] - c + c - reference[free]
    arms = x[free] - x[0]
    fields_here = laws.crossed(arms)
    inner = u - (laws.projection(fields_here, mass) @ u.ravel()).reshape(-1, 3)
    Q = laws.coasted(arms, mass, (mass[:, None] * np.cross(arms, u)).sum(axis=0), h)
    same(terms.predicted, c + arms @ (Q - np.eye(3)).T / h + 0.6 * inner @ Q.T, 1e-9)
    same(terms.reference, c)
    ahead = x[free] + h * c + arms @ (Q - np.eye(3)).T - (x[0] + shift)
    swings = laws.crossed(ahead)
    P = laws.projection(swings, mass)
    push = (mass[:, None] * (c - reference[free]) / h).ravel()
    load = (mass[:, None] * gravity).ravel() - phi * push - (1 - phi) * P.T @ push
    same(terms.load.ravel(), load, 1e-9)
    Y = terms.columns.reshape(3 * len(free), -1)
    operator = np.diag(terms.inertia.repeat(3)) + Y @ np.diag(terms.signs) @ Y.T
    same(operator, laws.inertia(swings, mass, np.broadcast_to(s, len(free)), h), 1e-9)
    R = rigid_basis(ahead, np.zeros((1, 3)), mass).reshape(3 * len(free), -1)
    same(R @ R.T * mass.repeat(3), P, 1e-9)


@pytest.mark.parametrize("phi", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("frequency", [0.0, 6.0])
@pytest.mark.parametrize("turns", [False, True])
def test_what_a_waveform_substep_minimises_is_the_formula_with_all_it_remembers(
    phi: float, frequency: float, turns: bool
) -> None:
    """A clamped bar: the slope of (2.24) with (2.34) to (2.36) and, in the first substep, (2.38)."""
    rng = np.random.default_rng(7)
    plain = bar((2, 1, 1))
    system = replace(plain, gravity=np.array([1.0, 2.0, -9.0]))
    (energy,) = system.blocks[0].energies
    free, h, e, lam = np.flatnonzero(~system.fixed), 0.02, 1.7, system.regions[0].eigenvalue
    mass = system.mass[free][:, None]
    law = WaveformLaw(5.0, frequency, lam)
    k = laws.waveform(5.0, frequency, 1.05, lam, h)
    stepper, controls = Stepper(system), Controls((law,), phi, 1e-12, e)
    x = system.rest.copy()
    x[free] += 0.01 * rng.standard_normal((len(free), 3))
    place = system.rest[system.pinned]
    state = State(0.0, x, np.zeros_like(x), np.zeros_like(x))
    own = rate = np.zeros((len(free), 3))
    turned, moved, reference = np.eye(3), np.zeros(3), np.zeros((len(free), 3))
    for step in range(3):
        angle = 0.1 * (step + 1) if turns else 0.0
        turn = Rotation.from_rotvec(angle * np.array([0.48, -0.6, 0.64])).as_matrix()
        shift = rng.standard_normal(3) * 0.02
        end = place @ turn.T + shift
        inputs = (BlockInputs(place, end),)
        home = system.rest[free] @ turned.T + moved
        c_home, c = (home @ turn.T + shift - home) / h, (x[free] @ turn.T + shift - x[free]) / h
        wide = (angle / 2 / np.sin(angle / 2)) ** 2 if angle else 1.0
        A = wide * (c_home - reference) @ turn.T / h
        g = e * energy.value_gradient(x)[1][free]
        dead = (1 - k["theta"]) * g - k["sigma"] * h * rate
        if step == 0:
            dead = (1 - k["theta"]) * g - k["sigma"] * k["fresh"] * (g - mass * system.gravity)
        ahead = x[free] + h * c
        predicted = (ahead - x[free]) / h + k["kappa"] * own @ turn.T
        problem = StepProblem(stepper, state, inputs, h, controls)
        for _ in range(2):
            v = rng.standard_normal((len(free), 3))
            y = x.copy()
            y[system.pinned], y[free] = end, x[free] + h * v
            there = k["theta"] * e * energy.value_gradient(y)[1][free]
            load = mass * (system.gravity - phi * k["throw"] * A)
            slope = mass / k["s"] * (v - predicted) + there + dead @ turn.T - load
            same(problem.value_gradient(v)[1], slope, 1e-9)
        state, report = stepper.step(state, inputs, h, controls)
        assert report.outcome is Outcome.CONVERGED
        own = (state.positions[free] - ahead) / h
        rate = (e * energy.value_gradient(state.positions)[1][free] - g @ turn.T) / h
        x, place, reference = state.positions, end, c_home
        turned, moved = turn @ turned, turn @ moved + shift


def test_fixed_laws_are_their_numbers() -> None:
    found = FixedLaw(0.3, 0.2).coefficients(0.01)
    assert (found.kappa, found.s, found.theta, found.sigma, found.throw) == (0.3, 0.2, 1.0, 0.0, 1.0)
    plain = BackwardEulerLaw().coefficients(0.01)
    assert (plain.kappa, plain.s) == (1.0, 0.01)
    assert plain.is_backward_euler(0.01)
    assert not found.is_backward_euler(0.01)


def test_a_strains_energy_of_triangles_is_the_papers() -> None:
    system = cloth(3, np.zeros(0, dtype=np.int64))
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    flat, (faces,) = system.rest[:, :2], system.blocks[0].groups
    x = system.rest + 0.1 * np.random.default_rng(8).standard_normal(system.rest.shape)
    area, V = 0.125, rates.isotropic(100.0, 50.0, 2)
    value = sum(0.5 * area * (e := rates.green_strain(flat[face], x[face]).ravel()) @ V @ e for face in faces)
    assert energy.value_gradient(x)[0] == pytest.approx(float(value), rel=CLOSE)
    # The stress of a strain is what its rate's would be if the strain was gone in a second.
    force = np.zeros_like(x)
    for face in faces:
        S = (V @ rates.green_strain(flat[face], x[face]).ravel()).reshape(2, 2)
        B = elastic.slopes(lambda y, face=face: elastic.gradient(flat[face], y), x[face])  # type: ignore[misc]
        pull = np.einsum("ra,ab,rbk->k", elastic.gradient(flat[face], x[face]), S, B)
        force[face] += area * pull.reshape(-1, 3)
    same(energy.value_gradient(x)[1], force)
