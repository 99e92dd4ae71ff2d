"""Methods of core.literature.damping.DAMPINGS, and the properties in [Sch] of those that act on velocities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.literature.damping import DAMPINGS, DampedBody, Damping
from dampsim.core.literature.damping.clusters import CLUSTERS, Mesh, nearest_clusters, whole_body_cluster
from dampsim.core.literature.damping.damping import retained_fraction
from dampsim.core.literature.damping.torque import (
    TORQUE_SCHEMES,
    DampingForces,
    remove_torque,
    torque_free_radial,
    torque_free_rays,
)
from dampsim.core.literature.damping.velocity_dampings import (
    damp_relative_velocities,
    edge_incidence,
    largest_edge_eigenvalue,
    ray_origin_weights,
)
from dampsim.core.literature.integrators import INTEGRATORS, Integrator, IntegratorStepper
from dampsim.core.literature.papers.compare import bar
from dampsim.core.materials import ElasticMaterial
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.measure.release import angular_momentum, linear_momentum
from dampsim.core.scene.parameters import Settings
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System, assemble_system
from dampsim.core.system.term import Potential

H = 1.0 / 24.0
STATES = 200
VELOCITY_METHODS = [method for method in DAMPINGS if method.damp_velocities is not Damping.damp_velocities]
# Each method with all of its choices.
CASES = [
    *((method, {}) for method in VELOCITY_METHODS),
    *(
        pytest.param(
            method,
            {"clusters": clusters, "torque": torque},
            marks=pytest.mark.slow if torque == "PROGRAMME" else (),
        )
        for method in VELOCITY_METHODS
        if "torque" in method.parameters
        for clusters in (*CLUSTERS, "BODY_THEN_ELEMENTS")
        for torque in TORQUE_SCHEMES
        # A linear programme per cluster takes minutes with many clusters; two kinds are enough.
        if torque != "PROGRAMME" or clusters in ("BODY", "PIECES")
    ),
]
# Schemes of the paper that may add energy; docs/validation has counts.
ENERGY_ADDING = ("EDGES_PRINTED", "PROGRAMME")
# Schemes that slow rotation, according to the paper.
SPIN_DAMPING = ("NONE",)


def case_id(value: object) -> str:
    return "-".join(value.values()) if isinstance(value, dict) else str(getattr(value, "name", value))


def random_bar(slivers: bool) -> System:
    """Return a free bar with varied masses; with slivers, half of its layers are 500 times thinner than the others."""
    system = bar((3, 2, 1), clamped=False, material=ElasticMaterial(1e5, 0.35, 1000.0))
    rest = system.rest.copy()
    if slivers:
        x = np.unique(rest[:, 0])
        thin = np.concatenate([[0.0], np.cumsum(np.where(np.arange(len(x) - 1) % 2, 0.001, 0.5))])
        rest[:, 0] = thin[np.searchsorted(x, rest[:, 0])]
    mass = system.mass * np.random.default_rng(3).uniform(0.2, 5.0, len(rest))
    return replace(system, blocks=(replace(system.blocks[0], rest=rest, mass=mass),))


def make_damping(method: type[Damping], system: System, **dials: object) -> Damping:
    values = Settings(damping_by=method.name, poisson=0.35, **dials).as_dict()  # type: ignore[arg-type]
    chosen = {name: values[name] for name in method.parameters}
    return method(DampedBody(system.blocks[0], chosen, ElasticMaterial(1e5, 0.35, 1000.0), 100.0))


def random_states(system: System, count: int = STATES) -> list[State]:
    """Return random states: deformed, rotated and moving, at all scales."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        turn = Rotation.random(random_state=rng).as_matrix()
        x = (system.rest + 0.1 * rng.standard_normal(system.rest.shape)) @ turn.T + rng.standard_normal(3)
        v = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal(x.shape) + 3.0 * rng.standard_normal(3)
        v = v + np.cross(10.0 ** rng.uniform(-2, 1) * rng.standard_normal(3), x)
        found.append(State(0.0, x, v, np.zeros_like(x)))
    return found


def kinetic_energy(system: System, v: np.ndarray) -> float:
    return 0.5 * float(system.mass @ (v**2).sum(axis=1))


@pytest.mark.parametrize(
    ("gamma", "slivers"), [(0.5, True), *(pytest.param(1.0, one, marks=pytest.mark.slow) for one in (True, False))]
)
@pytest.mark.parametrize(("method", "dials"), CASES, ids=case_id)
def test_momenta_conserved_and_energy_not_added(
    method: type[Damping], dials: dict[str, str], gamma: float, slivers: bool
) -> None:
    system = random_bar(slivers)
    damping = make_damping(method, system, gamma=gamma, **dials)
    lost = 0.0
    for state in random_states(system):
        v = damping.damp_velocities(state.positions, state.velocities, state.velocities, H)
        after = replace(state, velocities=v)
        size = float(system.mass @ np.linalg.norm(state.velocities, axis=1))
        if method.conserves_linear_momentum:
            change = linear_momentum(system, after) - linear_momentum(system, state)
            assert np.abs(change).max() < 1e-12 * size
        if method.conserves_angular_momentum and dials.get("torque") not in SPIN_DAMPING:
            reach = float(np.abs(state.positions - state.positions.mean(axis=0)).max())
            turned = angular_momentum(system, after) - angular_momentum(system, state)
            assert np.abs(turned).max() < 1e-10 * size * reach
        if method.is_dissipative and dials.get("torque") not in ENERGY_ADDING:
            assert kinetic_energy(system, v) <= kinetic_energy(system, state.velocities) * (1.0 + 1e-12)
        lost = max(lost, 1.0 - kinetic_energy(system, v) / kinetic_energy(system, state.velocities))
    # The method damps at all.
    assert lost > 0.01


@pytest.mark.parametrize("integrator", [one for one in INTEGRATORS if not one.is_implicit], ids=lambda one: one.name)
@pytest.mark.parametrize(("method", "dials"), CASES, ids=case_id)
def test_explicit_damping_keeps_equilibrium(
    method: type[Damping], dials: dict[str, str], integrator: type[Integrator]
) -> None:
    """The predicted velocities of pins are those of their motion: a body that hangs at rest stays at rest."""
    mass, stiffness, gravity = np.array([1.0, 2.0, 0.5]), np.array([300.0, 200.0]), np.array([0.0, 0.0, -9.81])
    weight = -gravity[2] * np.array([mass[1] + mass[2], mass[2]])
    hanging = -np.array([0.0, *np.cumsum(0.5 * (1.0 + weight / stiffness))])[:, None] * [0.0, 0.0, 1.0]
    edges, pinned = np.array([[0, 1], [1, 2]]), np.array([0])
    terms = (Potential(spring_energy(edges, np.full(2, 0.5), stiffness)),)
    block = BodyDiscretization("Chain", hanging, mass, (edges,), terms, pinned, np.array([np.inf]))
    system = assemble_system((block,), gravity, None, has_eigenvalues=False)
    stepping = IntegratorStepper(integrator, system, make_damping(method, system, gamma=0.7, **dials))
    inputs = (BlockInputs(hanging[pinned], hanging[pinned]),)
    controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-9)
    after, _ = stepping.step(State.at_rest(hanging), inputs, 0.01, controls)
    np.testing.assert_allclose(after.velocities, 0.0, atol=1e-12)


@pytest.mark.parametrize("method", VELOCITY_METHODS)
def test_gamma_independent_of_frame_rate(method: type[Damping]) -> None:
    system = random_bar(False)
    state = random_states(system, 1)[0]
    whole = make_damping(method, system, gamma=0.6).damp_velocities(
        state.positions, state.velocities, state.velocities, H
    )
    v = state.velocities
    for _ in range(64):
        v = make_damping(method, system, gamma=0.6).damp_velocities(state.positions, v, v, H / 64)
    left = kinetic_energy(system, v - v.mean(axis=0)) / kinetic_energy(
        system, state.velocities - state.velocities.mean(axis=0)
    )
    once = kinetic_energy(system, whole - whole.mean(axis=0)) / kinetic_energy(
        system, state.velocities - state.velocities.mean(axis=0)
    )
    # Exact for a single factor; many small steps of springs and radii damp a little more than a large one.
    assert left == pytest.approx(once, rel=1e-9 if method.name == "DIRECT" else 0.35)


def test_direct_damping_gamma_one_leaves_rigid() -> None:
    for slivers in (False, True):
        system = random_bar(slivers)
        damping = make_damping(next(m for m in DAMPINGS if m.name == "DIRECT"), system, gamma=1.0)
        for state in random_states(system):
            v = damping.damp_velocities(state.positions, state.velocities, state.velocities, H)
            x = state.positions - state.positions.mean(axis=0)
            fields = np.concatenate(
                [np.tile(np.eye(3), (len(x), 1, 1)), -np.cross(np.eye(3)[None], x[:, None])], axis=1
            )
            basis = fields.transpose(0, 2, 1).reshape(3 * len(x), 6)
            rest = v.ravel() - basis @ np.linalg.lstsq(basis, v.ravel(), rcond=None)[0]
            assert np.abs(rest).max() < 1e-11 * np.abs(state.velocities).max()


def test_spring_sweeps_converge_at_spectral_rate() -> None:
    """Sweeps of springs without projection converge to direct damping at the rate of the spectrum."""
    system = random_bar(False)
    mesh = Mesh.from_elements(system.mass, system.blocks[0].groups)
    state = random_states(system, 1)[0]
    mean = whole_body_cluster(mesh).mean_per_cluster(state.velocities)[0]
    gamma = 0.9
    strength = (1.0 - retained_fraction(gamma, H)) / largest_edge_eigenvalue(mesh)
    E = edge_incidence(mesh).toarray()
    root = 1.0 / np.sqrt(system.mass)
    values = np.linalg.eigvalsh(root[:, None] * (E @ E.T) * root)
    assert values[-1] == pytest.approx(largest_edge_eigenvalue(mesh), rel=1e-5)
    # The slowest relative motion decays, and all factors are within the stability bound.
    factors = np.abs(1.0 - strength * values[1:])
    assert strength * values[-1] < 2.0
    spring = next(m for m in DAMPINGS if m.name == "SPRING_WHOLE")
    errors = []
    for sweeps in (200, 201, 2000):
        v = make_damping(spring, system, gamma=gamma, sweeps=sweeps).damp_velocities(
            state.positions, state.velocities, state.velocities, H
        )
        errors.append(float(np.sqrt(system.mass @ ((v - mean) ** 2).sum(axis=1))))
    assert errors[1] / errors[0] == pytest.approx(factors.max(), rel=1e-3)
    # 1800 sweeps multiply the error of the rate by as many.
    assert errors[2] == pytest.approx(errors[0] * factors.max() ** 1800, rel=0.05)
    assert errors[2] < 1e-6 * errors[0]


@pytest.mark.parametrize("method", DAMPINGS, ids=lambda m: m.name)
def test_damping_metadata_and_matrix_symmetry(method: type[Damping]) -> None:
    """Each method has a description, reads declared parameters only, and has a symmetric positive matrix."""
    assert method.name == method.name.upper()
    assert len(method.description) > 20
    assert not method.description.endswith(".")
    damping = make_damping(method, random_bar(False))
    x = random_bar(False).rest
    matrix = damping.matrix(x)
    acts = method.damp_velocities is not Damping.damp_velocities
    assert acts or matrix is not None
    if matrix is not None:
        assert abs(matrix - matrix.T).max() < 1e-9 * abs(matrix).max()
        values = np.linalg.eigvalsh(matrix.toarray())
        assert values.min() > -1e-9 * values.max()


def direct_damping(system: System, gamma: float, centre: np.ndarray | None = None, **dials: object) -> Damping:
    block = replace(system.blocks[0], ray_origin_weights=centre)
    return make_damping(
        next(m for m in DAMPINGS if m.name == "DIRECT"), replace(system, blocks=(block,)), gamma=gamma, **dials
    )


@pytest.mark.parametrize(("first", "then"), [("EDGES", "RADII"), ("RADII", "NONE"), ("NONE", "EDGES_PRINTED")])
def test_direct_damping_sequence_equals_two_stages(first: str, then: str) -> None:
    """[Sch] section 5: global with (a), then local with (b)."""
    system = random_bar(False)
    for clusters in ("ELEMENTS", "RINGS"):
        both = direct_damping(system, 0.7, clusters=f"BODY_THEN_{clusters}", torque=first, torque_then=then)
        whole = direct_damping(system, 0.7, clusters="BODY", torque=first)
        parts = direct_damping(system, 0.7, clusters=clusters, torque=then)
        same = direct_damping(system, 0.7, clusters=f"BODY_THEN_{clusters}", torque=first)
        for state in random_states(system, 5):
            x, v = state.positions, state.velocities
            wanted = parts.damp_velocities(x, v, whole.damp_velocities(x, v, v, H), H)
            # The same operations in the same order.
            assert np.array_equal(both.damp_velocities(x, v, v, H), wanted)
            assert np.abs(same.damp_velocities(x, v, v, H) - wanted).max() > 1e-3 * np.abs(v).max()


def test_direct_damping_without_torque_scheme() -> None:
    """[Sch] (7): all motion relative to the centre of mass vanishes, rotation too."""
    system = random_bar(True)
    damping = direct_damping(system, 1.0, torque="NONE")
    for state in random_states(system, 20):
        mean = system.mass @ state.velocities / system.mass.sum()
        after = damping.damp_velocities(state.positions, state.velocities, state.velocities, H)
        # Rounding of sums of 24 nodes.
        assert np.abs(after - mean).max() < 1e-13 * np.abs(state.velocities).max()


def end_weights(system: System) -> np.ndarray:
    """Return weights that fall from 1 at one end of the bar to 0 in its middle."""
    x = system.rest[:, 0]
    return np.clip(1.0 - 2.0 * (x - x.min()) / np.ptp(x), 0.0, 1.0)


@pytest.mark.parametrize("clusters", ["BODY", "ELEMENTS"])
def test_ray_damping_matches_formula(clusters: str) -> None:
    """[Sch] 3.3.2, against sums written out node by node; momenta stay and energy falls."""
    system = random_bar(False)
    painted = end_weights(system)
    damping = direct_damping(system, 0.8, centre=painted, clusters=clusters, torque="RAYS")
    mesh = Mesh.from_elements(system.mass, system.blocks[0].groups)
    groups = [np.arange(len(system.mass))] if clusters == "BODY" else list(system.blocks[0].groups[0])
    often = np.bincount(np.concatenate(groups), minlength=len(system.mass))
    for state in random_states(system, 10):
        x, v = state.positions, state.velocities
        change = np.zeros_like(v)
        for nodes in groups:
            mass = system.mass[nodes] / often[nodes]
            alpha = mass * painted[nodes] if (mass * painted[nodes]).sum() > 0.0 else mass.copy()
            alpha /= alpha.sum()
            middle, own = alpha @ x[nodes], v[nodes] - mass @ v[nodes] / mass.sum()
            rays = []
            for place, f in zip(x[nodes], -0.8 * mass[:, None] * own, strict=True):
                # A node that alone is painted is the centre and has no ray.
                length = np.linalg.norm(place - middle)
                r = (place - middle) / length if length > 0.0 else np.zeros(3)
                rays.append((f @ r) * r)
            f = np.array(rays) - np.outer(alpha, np.sum(rays, axis=0))
            # The c in [0, 1] with the least kinetic energy of v + c f/m.
            least = -(own * f).sum() / ((f**2).sum(axis=1) / mass).sum()
            change[nodes] += min(max(least, 0.0), 1.0) * f / system.mass[nodes, None]
        after = damping.damp_velocities(x, v, v, H)
        assert np.abs(after - v - change).max() < 1e-12 * np.abs(v).max()
        moved = replace(state, velocities=after)
        size = float(system.mass @ np.linalg.norm(v, axis=1))
        assert np.abs(linear_momentum(system, moved) - linear_momentum(system, state)).max() < 1e-12 * size
        assert np.abs(angular_momentum(system, moved) - angular_momentum(system, state)).max() < 1e-12 * size
        assert kinetic_energy(system, after) < kinetic_energy(system, v)
        plain = direct_damping(system, 0.8, clusters=clusters, torque="RADII").damp_velocities(x, v, v, H)
        # The result differs from damping with the centre of mass.
        assert np.abs(after - plain).max() > 1e-3 * np.abs(v).max()
    assert mesh.mass.sum() == pytest.approx(system.mass.sum())


def test_rays_with_uniform_weights_are_radii() -> None:
    system = random_bar(True)
    (state,) = random_states(system, 1)
    for clusters in (
        whole_body_cluster(Mesh.from_elements(system.mass, system.blocks[0].groups)),
        CLUSTERS["RINGS"](Mesh.from_elements(system.mass, system.blocks[0].groups)),
    ):
        v = state.velocities[clusters.node_index]
        relative = v - clusters.mean_per_cluster(v)[clusters.cluster_index]
        field = DampingForces(
            clusters, -0.3 / H * clusters.mass[:, None] * relative, state.positions[clusters.node_index], relative, H
        )
        wanted = torque_free_radial(field)
        everywhere, nowhere = (ray_origin_weights(clusters, np.full(len(system.mass), weight)) for weight in (0.6, 0.0))
        for shares in (None, everywhere, nowhere):
            np.testing.assert_allclose(
                torque_free_rays(replace(field, ray_weights=shares)), wanted, atol=1e-12 * np.abs(wanted).max()
            )


@pytest.mark.parametrize("scheme", [name for name in TORQUE_SCHEMES if name not in SPIN_DAMPING])
def test_balanced_forces_have_no_resultant(scheme: str) -> None:
    """[Sch] section 4: constraints, point damping. Gravity, which accelerates all nodes alike, leaves nothing."""
    system = random_bar(False)
    whole = whole_body_cluster(Mesh.from_elements(system.mass, system.blocks[0].groups))
    rng = np.random.default_rng(5)
    for state in random_states(system, 5):
        x = state.positions
        pull = np.zeros_like(x)
        pull[3] = [0.0, 0.0, 40.0]
        for forces in (pull, -2.0 * state.velocities, rng.standard_normal(x.shape)):
            found = remove_torque(forces, x, whole, scheme)
            size = np.abs(forces).sum()
            assert np.abs(found.sum(axis=0)).max() < 1e-12 * size
            arms = x - x.mean(axis=0)
            assert np.abs(np.cross(arms, found).sum(axis=0)).max() < 1e-12 * size * np.abs(arms).max()
            assert np.abs(found).max() > 1e-3 * np.abs(forces).max()
        assert (
            np.abs(remove_torque(np.outer(system.mass, [0.0, 0.0, -9.81]), x, whole, scheme)).max()
            < 1e-11 * system.mass.sum()
        )


def test_rigid_balancing_matches_dense_projection() -> None:
    """(d): f - M R (R^T M R)^-1 R^T f, with the six rigid fields R; the factor of (a) is optimal."""
    system = random_bar(True)
    mesh = Mesh.from_elements(system.mass, system.blocks[0].groups)
    rng, mass = np.random.default_rng(6), system.mass.repeat(3)
    for state in random_states(system, 5):
        x = state.positions
        f = rng.standard_normal(x.shape)
        fields = np.concatenate([np.tile(np.eye(3), (len(x), 1, 1)), -np.cross(np.eye(3)[None], x[:, None])], axis=1)
        R = fields.transpose(0, 2, 1).reshape(3 * len(x), 6)
        weighed = mass[:, None] * R
        wanted = f.ravel() - weighed @ np.linalg.solve(R.T @ weighed, R.T @ f.ravel())
        # Normal equations of rigid fields far from the origin lose some digits.
        np.testing.assert_allclose(remove_torque(f, x, whole_body_cluster(mesh), "RIGID").ravel(), wanted, atol=1e-9)
        inner = (f - np.outer(system.mass, f.sum(axis=0)) / system.mass.sum()).ravel()
        edges = remove_torque(f, x, whole_body_cluster(mesh), "EDGES").ravel()
        apart = [float(((inner - c * edges) ** 2 / mass).sum()) for c in (0.99, 1.0, 1.01)]
        assert apart[1] < apart[0]
        assert apart[1] < apart[2]


@pytest.mark.parametrize("clusters", ["ELEMENTS", "RINGS"])
def test_forces_shared_between_overlapping_clusters(clusters: str) -> None:
    """Forces balanced in each cluster are balanced in total; without a scheme they lose their mean by mass."""
    system = random_bar(False)
    parts = CLUSTERS[clusters](Mesh.from_elements(system.mass, system.blocks[0].groups))
    (state,) = random_states(system, 1)
    x, f = state.positions, np.random.default_rng(7).standard_normal(state.positions.shape)
    for scheme in ("RIGID", "EDGES", "RADII"):
        found = remove_torque(f, x, parts, scheme)
        assert np.abs(found.sum(axis=0)).max() < 1e-12 * np.abs(f).sum()
        assert np.abs(np.cross(x - x.mean(axis=0), found).sum(axis=0)).max() < 1e-12 * np.abs(f).sum() * np.ptp(x)
    mass, often = system.mass, np.bincount(parts.node_index, minlength=len(system.mass))
    wanted = np.zeros_like(f)
    for k in range(parts.cluster_count):
        nodes = parts.node_index[parts.cluster_index == k]
        m, own = mass[nodes] / often[nodes], f[nodes] / often[nodes, None]
        wanted[nodes] += own - np.outer(m / m.sum(), own.sum(axis=0))
    np.testing.assert_allclose(remove_torque(f, x, parts, "NONE"), wanted, atol=1e-13)


@pytest.mark.parametrize("torque", ["RADII", "RIGID"])
@pytest.mark.parametrize("kind", ["whole", "nearest"])
def test_point_cloud_is_damped_without_edges(kind: str, torque: str) -> None:
    """Particles without a mesh keep both momenta, and their relative motion decays."""
    rng = np.random.default_rng(3)
    x, mass = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40)
    clusters = nearest_clusters(mass, x, 8)
    if kind == "whole":
        clusters = whole_body_cluster(clusters.mesh)

    def momenta(v: np.ndarray) -> np.ndarray:
        return np.concatenate([mass @ v, (mass[:, None] * np.cross(x, v)).sum(axis=0)])

    def energy(v: np.ndarray) -> float:
        return 0.5 * float(mass @ (v**2).sum(axis=1))

    start = v = rng.standard_normal((40, 3))
    energies = [energy(v)]
    for _ in range(30):
        v = damp_relative_velocities(clusters, x, v, 0.5, 0.01, torque)
        energies.append(energy(v))
        assert energies[-1] <= energies[-2] * (1.0 + 1e-12)
    np.testing.assert_allclose(momenta(v), momenta(start), atol=1e-9)
    # Along the radii of the whole cloud, motion around the centre remains.
    assert energies[-1] < 0.8 * energies[0]
    if torque == "RIGID":
        spin = np.cross([0.3, -0.2, 0.5], x) + np.array([1.0, 0.0, 2.0])
        np.testing.assert_allclose(damp_relative_velocities(clusters, x, spin, 1.0, 0.01, torque), spin, atol=1e-9)
