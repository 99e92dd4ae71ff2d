"""Preconditioner of a step with contacts: the inverse of (1.5) plus the contacts' stiffness."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any, cast

import creatures
import numpy as np
import pytest
from scipy.linalg import LinAlgWarning, block_diag
from scipy.sparse import csr_matrix
from scipy.spatial.transform import Rotation
from test_contact_reports import plane

from builders import gridded_box, scene, static_body
from dampsim.core.contact import contact_preconditioner
from dampsim.core.contact.contact_preconditioner import ComplianceBlock, ContactPreconditioner, InverseColumns
from dampsim.core.objective.contact_problem import ActiveContacts
from dampsim.core.objective.step_problem import StepProblem
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.factorisation import LowRank, LowRankUpdate
from dampsim.core.solvers.lbfgs import minimise_lbfgs
from dampsim.core.solvers.objective import Minimum, Tolerance

# Columns of the inverse are stored in single precision.
SINGLE = 2e-5


def random_spd(rng: np.random.Generator, size: int) -> np.ndarray:
    root = rng.normal(size=(size, size))
    return root @ root.T + size * np.eye(size)


def test_free_spring_body_preconditioner_not_singular() -> None:
    """The static solve of a free body of springs on the floor raises no LinAlgWarning."""
    # With hardly any inertia its compliance is 10^16 times that of its contacts.
    body = creatures.with_settings(creatures.looper(2), start_settled=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        first = Simulation(creatures.walk_scene(body, 0.2)).first_frame()
    # It stands on its feet, a contact distance above the floor.
    assert 0.0 < first.shapes["Looper"][:, 2].min() < 0.01


@pytest.mark.parametrize("low", [0, 3])
@pytest.mark.parametrize("bodies", [1, 2])
@pytest.mark.parametrize(
    ("count", "dense", "small"), [(5, 400, 45), (5, 0, 45), (20, 400, 45), (20, 0, 45), (20, 0, 9999)]
)
def test_woodbury_contacts_match_dense_inverse(
    low: int, bodies: int, count: int, dense: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five contacts have a lower rank than their nodes have degrees of freedom, twenty a higher one.
    monkeypatch.setattr(contact_preconditioner, "_MAX_SMALL_BLOCKS", 32 if small == 45 else 0)
    monkeypatch.setattr(contact_preconditioner, "_SMALL_BLOCK", small)
    monkeypatch.setattr(contact_preconditioner, "_DENSE_SIZE", dense)
    monkeypatch.setattr(contact_preconditioner, "_DENSE_PRODUCTS", 1_000_000 * dense)
    rng = np.random.default_rng(low)
    nodes = 12
    body = np.arange(nodes) * bodies // nodes
    A = block_diag(*(random_spd(rng, 3 * int((body == k).sum())) for k in range(bodies)))
    columns = 0.5 * rng.normal(size=(3 * nodes, low))
    signs = np.tile(np.array([1.0, 1.0, -1.0])[:low], (bodies, 1))
    update = LowRank(columns, signs, body.repeat(3))
    base = LowRankUpdate(lambda right: np.linalg.solve(A, right), update)
    # Contacts couple nodes of both bodies, on a few nodes only.
    slots = np.array([1, 2, 5, 6, 8, 9, 11])
    weights = np.zeros((count, nodes))
    for row in weights:
        row[rng.choice(slots, 4, replace=False)] = rng.normal(size=4)
    blocks = np.array([random_spd(rng, 3) * rng.choice([0.01, 1.0, 100.0]) for _ in range(count)])
    # (w x 1)^T L for each row's B = L L^T.
    ways = [np.kron(row[slots], np.linalg.cholesky(block).T) for row, block in zip(weights, blocks, strict=True)]
    resisted = csr_matrix(np.concatenate(ways))
    compliance = InverseColumns(lambda right: np.linalg.solve(A, right), nodes, np.arange(nodes))
    parts = []
    for k in range(bodies):
        places = np.flatnonzero(body[slots] == k)
        own = compliance.block(slots[places]).reshape(3 * len(places), -1)
        parts.append(ComplianceBlock(places, own - base.correction_at(slots[places]).astype(np.float32)))
    inverse = ContactPreconditioner(base, parts, resisted, slots)
    C = np.zeros((3 * nodes, 3 * nodes))
    for row, block in zip(weights, blocks, strict=True):
        C += np.kron(np.outer(row, row), block)
    apart = block_diag(*(columns[body.repeat(3) == k] for k in range(bodies)))
    wanted = np.linalg.inv(A + apart @ np.diag(signs.ravel()) @ apart.T + C)
    found = np.stack([inverse(one) for one in np.eye(3 * nodes)], axis=1)
    np.testing.assert_allclose(found, wanted, atol=SINGLE * np.abs(np.linalg.inv(A)).max())
    step = rng.normal(size=(nodes, 3))
    np.testing.assert_allclose(inverse.stiffness_times(step).ravel(), C @ step.ravel(), atol=1e-9 * np.abs(C).max())


@pytest.mark.parametrize("large", [1e3, 1e9, 1e16])
def test_huge_compliance_preconditioner_is_positive(large: float) -> None:
    # One common translation; its rounding error exceeds all other entries.
    rng = np.random.default_rng(4)
    inverse = np.eye(12) + large * np.kron(np.ones((4, 4)), np.eye(3))
    base = LowRankUpdate(lambda right: inverse @ right, LowRank.of(4, [], []))
    resisted = csr_matrix(rng.normal(size=(9, 12)))
    contact_preconditioner = ContactPreconditioner(
        base, [ComplianceBlock(np.arange(4), inverse.astype(np.float32))], resisted, np.arange(4)
    )
    for way in rng.normal(size=(20, 12)):
        assert np.isfinite(contact_preconditioner(way)).all()
        assert way @ contact_preconditioner(way) > 0.0


def test_inverse_columns_independent_of_queries() -> None:
    rng = np.random.default_rng(2)
    A = random_spd(rng, 3 * 30)
    nodes = np.sort(rng.choice(30, 21, replace=False))

    def solve(right: np.ndarray) -> np.ndarray:
        return np.linalg.solve(A, right)

    asked, fresh = InverseColumns(solve, 30, nodes), InverseColumns(solve, 30, nodes)
    asked.block(nodes[[3, 20, 7]])
    asked.block(nodes[[20, 3]])
    last = nodes[[7, 0, 12]]
    dof = (3 * last[:, None] + np.arange(3)).ravel()
    wanted = np.linalg.inv(A)[np.ix_(dof, dof)]
    np.testing.assert_allclose(asked.block(last).reshape(9, 9), wanted, rtol=1e-5, atol=1e-7 / 30)
    # A resumed bake makes other queries first; results are equal to the bit.
    assert np.array_equal(asked.block(last), fresh.block(last))


@pytest.mark.parametrize(("active", "stiffened", "is_rebuilt"), [(300, 1, True), (3000, 5, False), (3000, 10, True)])
def test_rebuilt_if_many_contacts_stiffen(active: int, stiffened: int, is_rebuilt: bool) -> None:
    """A rebuild for every contact of a heap that is pressed deeper took a third of the time of a stack."""
    energy = SimpleNamespace(
        contacts=SimpleNamespace(friction=np.zeros(active)),
        contact_states=lambda x: 1 + (np.arange(active) < x[0, 0]),
        value_gradient=lambda x: (0.0, np.zeros_like(x)),
    )
    potential = SimpleNamespace(contacts=energy, set_contacts=lambda energy: None)
    preconditioner = SimpleNamespace(add_contacts=lambda energy, x, states: None)
    x, free = np.zeros((1, 3)), np.zeros(1, dtype=np.int64)
    contacts = ActiveContacts(cast(Any, potential), cast(Any, preconditioner), free, cast(Any, energy), x, 0.04)
    accepted = contacts.accept(x + float(stiffened), 0.0, np.zeros((1, 3)))
    assert accepted.preconditioner_changed == is_rebuilt


def pressed_blocks() -> Simulation:
    """Return two rotated blocks that press on each other and on the ground."""
    turn = Rotation.from_rotvec([0.0, 0.0, 0.4])
    bodies = []
    for k in range(2):
        surface = gridded_box(f"Block{k}", (0, 0, 0), (0.2, 0.2, 0.2), 0.1)
        surface.vertices[:] = turn.apply(surface.vertices) + np.array([0.01 * k, 0.0, 0.202 * k + 0.001])
        dials = {"stiffness": 150.0, "settle": 12.0, "bounce": 20.0, "resolution": 60, "start_settled": False}
        bodies.append(static_body(surface, touch_together=True, **dials))
    return Simulation(scene(*bodies, last=8, colliders=(plane(0.0),)))


def dense_stiffness(problem: StepProblem, v: np.ndarray, stiffness: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return (1.5) and h C of section 7 as dense matrices, for a search that starts at v.

    stiffness: at rest, of the free nodes.
    """
    turned = block_diag(*problem._preconditioner._rotation)
    A = np.diag(problem._inertia.repeat(3)) + problem._h * problem._scale * turned @ stiffness.toarray() @ turned.T
    low = problem._low_rank.as_single_block()
    A += low.columns @ np.diag(low.signs[0]) @ low.columns.T
    energy, x = problem.contacts, problem.positions(v)
    assert energy is not None
    stiff = energy.stiffness_blocks(x)
    weights, C = energy.contacts.weights.toarray(), np.zeros_like(A)
    for row, block in zip(weights, stiff, strict=True):
        there = np.flatnonzero(row)
        dof = (3 * there[:, None] + np.arange(3)).ravel()
        C[np.ix_(dof, dof)] += problem._h * np.kron(np.outer(row[there], row[there]), block)
    return A, C


@pytest.mark.slow
def test_step_preconditioner_matches_dense_inverse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is the inverse of the step's stiffness plus that of the active contacts, and leaves the result unchanged."""
    simulation = pressed_blocks()
    stepper = simulation.statics.steppers[0]
    seen = []

    def spy(problem: StepProblem, v: np.ndarray, tolerance: Tolerance) -> Minimum:
        if problem.contacts is not None and (problem.contacts.contact_states(problem.positions(v)) > 0).sum() > 20:
            A, C = dense_stiffness(problem, v, stepper.stiffness)
            wanted = np.linalg.inv(A + C)
            found = np.stack([problem.precondition(one.reshape(-1, 3)).ravel() for one in np.eye(len(A))], axis=1)
            seen.append(np.abs(found - wanted).max() / np.abs(wanted).max())
            # Without the contacts the inverse differs much, so the test is sensitive.
            assert np.abs(np.linalg.inv(A) - wanted).max() > 0.05 * np.abs(wanted).max()
            step = np.random.default_rng(0).normal(size=v.shape)
            apart = problem.known_gradient_change(step)
            assert apart is not None
            np.testing.assert_allclose(apart.ravel(), C @ step.ravel(), atol=1e-9 * np.abs(C).max())
        return minimise_lbfgs(problem, v, tolerance)

    monkeypatch.setattr(stepper, "_minimiser", spy)
    *_, frame = simulation.frames()
    assert len(seen) > 3
    assert max(seen) < SINGLE
    # The preconditioner does not change the result.
    monkeypatch.undo()
    assert np.array_equal(list(pressed_blocks().frames())[-1].state.positions, frame.state.positions)


def test_precomputed_inverse_columns_are_identical() -> None:
    rng = np.random.default_rng(5)
    A, nodes = random_spd(rng, 3 * 100), np.arange(100)
    one, other = (InverseColumns(lambda right: np.linalg.solve(A, right), 100, nodes) for _ in range(2))
    one.prefetch_columns(np.array([3, 40, 77]))
    # Some of these were not precomputed.
    slots = np.array([2, 41, 77, 95])
    np.testing.assert_array_equal(one.block(slots), other.block(slots))
