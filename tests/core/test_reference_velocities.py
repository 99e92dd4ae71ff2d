"""Dampings that act on velocities equal references/velocities.py to rounding: [Sch]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from damping_cases import MATRIX_METHODS, RELATIVE_TOLERANCE, VELOCITY_METHODS, assert_close, make_damping
from dampsim.core.literature.damping import torque
from dampsim.core.literature.damping.clusters import CLUSTERS, Mesh, ring_clusters, whole_body_cluster
from dampsim.core.literature.damping.damping import BlockwiseDamping, removed_fraction, retained_fraction
from dampsim.core.literature.damping.torque import TORQUE_SCHEMES
from dampsim.core.literature.damping.velocity_dampings import largest_edge_eigenvalue
from dampsim.core.literature.papers.compare import bar
from dampsim.core.scene.parameters import PARAMETERS
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.system import System, assemble_system
from references import velocities
from test_damping import random_bar, random_states

H = 1.0 / 60.0


def test_inexact_programme_leaves_no_torque(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver of linear programmes stops at 1e-7; the remaining sum and torque are removed."""
    exact = torque.linprog

    def inexact(*of: object, **more: object) -> object:
        found = exact(*of, **more)
        found.x = found.x + 1e-5 * np.random.default_rng(1).standard_normal(len(found.x))
        return found

    monkeypatch.setattr(torque, "linprog", inexact)
    system = random_bar(False)
    mesh, x = Mesh.from_elements(system.mass, system.blocks[0].groups), random_states(system, 1)[0].positions
    forces = np.random.default_rng(2).standard_normal(x.shape)
    made = torque.remove_torque(forces, x, whole_body_cluster(mesh), "PROGRAMME")
    size = np.abs(made).sum()
    assert np.abs(made.sum(axis=0)).max() < 1e-12 * size
    assert np.abs(np.cross(x - x.mean(axis=0), made).sum(axis=0)).max() < 1e-12 * size


def test_large_mesh_needs_no_dense_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest eigenvalue of a star of n equal masses is n/m."""
    count = 200
    edges = np.stack([np.zeros(count - 1, dtype=np.int64), np.arange(1, count)], axis=1)
    dense = csr_matrix.toarray

    def small_only(matrix: csr_matrix) -> np.ndarray:
        assert matrix.shape[0] < count
        return np.asarray(dense(matrix))

    monkeypatch.setattr(csr_matrix, "toarray", small_only)
    found = largest_edge_eigenvalue(Mesh(np.full(count, 0.5), edges, ()))
    assert found == pytest.approx(2.0 * count, rel=1e-6)


def test_velocity_dampings_have_references() -> None:
    assert set(velocities.VELOCITIES) == set(VELOCITY_METHODS)
    assert set(velocities.TORQUES) == set(TORQUE_SCHEMES)
    assert set(velocities.CLUSTERS) == set(CLUSTERS)


def separate_bars() -> System:
    """Return two separate bars with masses of all sizes."""
    plain = random_bar(False)
    (elements,) = plain.blocks[0].groups
    count = len(plain.rest)
    rest = np.concatenate([plain.rest, 0.7 * plain.rest + [0.0, 1.0, 0.0]])
    block = replace(
        plain.blocks[0], rest=rest, mass=np.concatenate([plain.mass, 0.3 * plain.mass[::-1]]),
        groups=(np.concatenate([elements, elements + count]),), terms=(),
    )  # fmt: skip
    return replace(plain, blocks=(block,))


def assert_matches_reference(
    name: str, system: System, h: float = H, close: float = RELATIVE_TOLERANCE, **dials: object
) -> None:
    damping = make_damping(name, system, **dials)
    for state in random_states(system, 4):
        rng = np.random.default_rng(9)
        # Explicit methods pass predicted velocities that differ from those before the step.
        ahead = state.velocities + 0.5 * rng.standard_normal(state.velocities.shape) * np.abs(state.velocities).max()
        body = velocities.Body(
            system.mass, system.blocks[0].groups[0], state.positions, state.velocities, ahead, h
        )  # fmt: skip
        wanted = velocities.VELOCITIES[name](body, damping.body.dials)
        assert_close(damping.damp_velocities(state.positions, state.velocities, ahead, h), wanted, close)


def test_point_damping_matches_paper() -> None:
    """Point damping removes gamma of the velocity of a node with mean mass."""
    for gamma in (0.1, 0.6, 1.0):
        assert_matches_reference("POINT", random_bar(False), gamma=gamma)


@pytest.mark.parametrize("name", ["SPRING", "SPRING_WHOLE"])
@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("sweeps", [1, 2, 7])
def test_spring_damping_matches_matrices(name: str, current: bool, sweeps: int) -> None:
    for gamma in (0.3, 1.0):
        assert_matches_reference(name, random_bar(False), gamma=gamma, damp_current=current, sweeps=sweeps)


def test_largest_edge_eigenvalue_of_large_mesh() -> None:
    system = bar((4, 2, 2))
    mesh = Mesh.from_elements(system.mass, system.blocks[0].groups)
    body = velocities.Body(system.mass, system.blocks[0].groups[0], system.rest, system.rest, system.rest, H)
    E = velocities.incidence(body)
    values = np.linalg.eigvals(E @ E.T / system.mass[:, None]).real
    # The iteration for more than 24 nodes has a tolerance of 1e-6.
    assert largest_edge_eigenvalue(mesh) == pytest.approx(values.max(), rel=1e-5)


@pytest.mark.parametrize("clusters", [choice.name for choice in PARAMETERS["clusters"].choices])
@pytest.mark.parametrize("torque", [choice.name for choice in PARAMETERS["torque"].choices])
def test_direct_damping_matches_paper(clusters: str, torque: str) -> None:
    """Direct damping matches the paper for all clusters and torque schemes."""
    system = separate_bars() if clusters == "PIECES" else random_bar(False)
    # The linear programme is solved less accurately; a least-squares step corrects its sums.
    close = 1e-9 if torque == "PROGRAMME" else RELATIVE_TOLERANCE
    assert_matches_reference("DIRECT", system, close=close, clusters=clusters, torque=torque, gamma=0.45)


@pytest.mark.parametrize("then", TORQUE_SCHEMES)
def test_direct_damping_sequence_schemes(then: str) -> None:
    """Each stage of a sequence has its own torque scheme."""
    close = 1e-9 if then == "PROGRAMME" else RELATIVE_TOLERANCE
    assert_matches_reference(
        "DIRECT",
        random_bar(False),
        close=close,
        clusters="BODY_THEN_ELEMENTS",
        torque="EDGES",
        torque_then=then,
        gamma=0.45,
    )


@pytest.mark.parametrize("torque", TORQUE_SCHEMES)
def test_direct_damping_with_full_strength(torque: str) -> None:
    """Direct damping with gamma = 1 matches the paper on a deformed bar."""
    assert_matches_reference("DIRECT", random_bar(True), close=1e-8, clusters="BODY", torque=torque, gamma=1.0)


def test_gamma_conversion_between_rates() -> None:
    """Gamma is the fraction that is removed in 1/24 s, (2.19), and the conversion is invertible."""
    for gamma, h in ((0.3, 1 / 24), (0.3, 1 / 60), (0.9, 1 / 12)):
        assert retained_fraction(gamma, h) == pytest.approx(1 - velocities.removed_fraction(h, gamma), rel=1e-14)
        assert removed_fraction(retained_fraction(gamma, h), h) == pytest.approx(gamma, rel=1e-12)
    assert removed_fraction(1.3, 0.1) == 0.0


def test_ring_clusters_of_two_edges() -> None:
    system = random_bar(False)
    (elements,) = system.blocks[0].groups
    body = velocities.Body(system.mass, elements, system.rest, system.rest, system.rest, H)
    near = velocities.neighbours(body)
    wanted = [sorted({n for j in one for n in near[j]}) for one in near]
    found = ring_clusters(Mesh.from_elements(system.mass, (elements,)), 2)
    assert [sorted(found.node_index[found.cluster_index == k].tolist()) for k in range(found.cluster_count)] == wanted


@pytest.mark.parametrize("torque", ["EDGES", "EDGES_PRINTED"])
def test_edge_scheme_factor_at_most_one(torque: str) -> None:
    """An evenly stretched chain, whose edge forces underestimate the force at its ends, would need a factor above 1."""
    rng = np.random.default_rng(5)
    x = np.arange(7.0)[:, None] * [1.0, 0.2, 0.0] + 0.05 * rng.standard_normal((7, 3))
    v = x + 0.02 * rng.standard_normal(x.shape)
    edges = np.stack([np.arange(6), np.arange(1, 7)], axis=1)
    block = BodyDiscretization("Chain", x, np.ones(7), (edges,), (), np.zeros(0, dtype=np.int64), np.zeros(0))
    system = assemble_system((block,), np.zeros(3), None, has_eigenvalues=False)
    body = velocities.Body(block.mass, edges, x, v, v, H)
    damping = make_damping("DIRECT", system, clusters="BODY", torque=torque, gamma=0.3)
    found = damping.damp_velocities(x, v, v, H)
    assert_close(found, velocities.direct(body, damping.body.dials))
    relative = v - v.mean(axis=0)
    forces = -velocities.removed_fraction(H, 0.3) / H * relative
    pairs = [(i, i + 1) for i in range(6)]
    whole = velocities.along_edges(velocities.Cluster(x, relative, forces, block.mass, pairs, H))
    if torque == "EDGES":
        assert -np.sum(relative * whole) > H * np.sum(whole**2)
        assert_close(found, v + H * whole)


def test_blockwise_damping_acts_per_body() -> None:
    """Each block of a system is damped as it would be alone, by every damping of the registry; one has none."""
    system = random_bar(False)
    count = len(system.rest)
    dampings = [make_damping(name, system, **({"damp_current": True} if name == "SPRING" else {}))
                for name in {**VELOCITY_METHODS, **MATRIX_METHODS}]  # fmt: skip
    parts = [slice(k * count, (k + 1) * count) for k in range(len(dampings) + 1)]
    both = BlockwiseDamping([*zip(parts, dampings, strict=False), (parts[-1], None)])
    rng = np.random.default_rng(0)
    x = np.tile(system.rest, (len(parts), 1)) * rng.uniform(0.9, 1.1, (len(parts) * count, 3))
    start, predicted = rng.standard_normal((2, len(x), 3))
    damped, matrix = both.damp_velocities(x, start, predicted, H), both.matrix(x)
    assert matrix is not None
    wanted = np.zeros((x.size, x.size))
    for part, one in zip(parts, dampings, strict=False):
        assert_close(damped[part], one.damp_velocities(x[part], start[part], predicted[part], H))
        own = one.matrix(x[part])
        if own is not None:
            wanted[3 * part.start : 3 * part.stop, 3 * part.start : 3 * part.stop] = own.toarray()
    assert (damped[parts[-1]] == predicted[parts[-1]]).all()
    assert_close(matrix, wanted)
