"""Multifrontal factorisation of the preconditioner: single precision, ordered by nested dissection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import block_diag, csr_matrix, diags, eye, kron, random
from scipy.sparse.linalg import splu
from woven_scenes import SwatchStepper, swatch, woven_body

from animated import AnimatedScene
from builders import gridded_box, static_body
from dampsim.core.settle.controls import YarnDials
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.factorisation import factorise
from dampsim.core.solvers.modes import smallest_eigenvalue
from dampsim.core.solvers.multifrontal import (
    _RUNS,
    MultifrontalSolve,
    SymbolicFactorisation,
    _DenseChain,
    factorise_multifrontal,
)
from dampsim.core.solvers.nested_dissection import dissect
from dampsim.core.solvers.preconditioner import build_preconditioner
from dampsim.core.steppers import sheet
from dampsim.core.system.system import System

pytestmark = pytest.mark.kernel

Case = tuple[csr_matrix, np.ndarray]


def grid(*sides: int) -> Case:
    """Return a Laplacian with a small diagonal shift on a grid of nodes, coupled over three components."""
    lines = [diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(k, k)) for k in sides]
    total = csr_matrix((1, 1))
    for line in lines:
        total = kron(total, eye(line.shape[0])) + kron(eye(total.shape[0]), line)
    places = np.stack([one.ravel() for one in np.meshgrid(*map(np.arange, sides), indexing="ij")], axis=1)
    return csr_matrix(kron(total + 1e-2 * eye(total.shape[0]), np.eye(3) + 0.3)), 1.0 * places


def block_system(pins: bool, sides: tuple[float, float, float] = (1.0, 0.5, 0.5), **more: float) -> System:
    surface = gridded_box("Block", (0, 0, 0), sides, 0.1)
    held = (surface.vertices[:, 0] < 1e-6).astype(float) if pins else None
    body = static_body(surface, held, **{"resolution": 2500, **more})
    return Simulation(AnimatedScene((body,), 24.0, np.zeros(3), 1, 2)).islands[0].system


def block_matrix(pins: bool, weight: float = 1.0) -> Case:
    """Return the stiffness of a block plus its mass times a weight, 1/s^2."""
    system = block_system(pins)
    free = np.flatnonzero(~system.is_fixed)
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    stiffness = system.stiffness_at_rest(np.ones(1), True).tocsr()[dof][:, dof]
    mass = system.mass[free].repeat(3)
    # The smallest eigenvalue is some hundreds per second squared.
    return csr_matrix(stiffness + weight * diags(mass)), system.rest[free]


def separate_pieces() -> Case:
    (one, here), (two, there) = grid(9, 9, 5), grid(7, 7, 7)
    return csr_matrix(block_diag([one, two])), np.concatenate([here, there + 100.0])


def linked_pieces() -> Case:
    """Return two pieces at the same positions with a link between their ends."""
    (one, here), (two, there) = grid(9, 9, 5), grid(9, 9, 5)
    matrix = csr_matrix(block_diag([one, two])).tolil()
    a, b = 0, len(here) + 300
    for axis in range(3):
        for i, j, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            matrix[3 * i + axis, 3 * j + axis] += 50.0 * sign
    return csr_matrix(matrix), np.concatenate([here, there])


def random_graph() -> Case:
    """Return a random graph with random positions, which no plane separates well."""
    rng = np.random.default_rng(2)
    half = random(400, 400, 0.01, random_state=3)
    pattern = half @ half.T + 5.0 * eye(400)
    return csr_matrix(kron(pattern, np.eye(3))), rng.normal(size=(400, 3))


def coincident_nodes() -> Case:
    matrix, places = grid(25, 6, 4)
    return matrix, np.zeros_like(places)


CASES: dict[str, Callable[[], Case]] = {
    "a box": lambda: grid(12, 10, 8), "a sheet": lambda: grid(40, 30, 1), "a chain": lambda: grid(900, 1, 1),
    "a few nodes": lambda: grid(3, 2, 2), "one node": lambda: grid(1, 1, 1), "two pieces": separate_pieces,
    "two linked pieces at the same places": linked_pieces, "a tangle": random_graph,
    "all at one place": coincident_nodes,
    "a held body": lambda: block_matrix(True), "a free body": lambda: block_matrix(False, 100.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_multifrontal_inverse_to_single_precision(name: str) -> None:
    matrix, places = CASES[name]()
    solve = factorise_multifrontal(matrix, places)
    assert solve is not None
    rng = np.random.default_rng(1)
    right = rng.normal(size=(matrix.shape[0], 3))
    answer = solve(right)
    few = np.eye(len(right), min(6, len(right)))
    exact, inverse = np.split(np.linalg.solve(matrix.toarray(), np.hstack([right, few])), [3], axis=1)
    assert np.linalg.norm(matrix @ answer - right) < 1e-4 * np.linalg.norm(right)
    assert np.linalg.norm(answer - exact) < 1e-3 * np.linalg.norm(exact)
    # One vector, several vectors, tiny vectors, and columns in batches.
    np.testing.assert_allclose(solve(right[:, 0]), answer[:, 0], rtol=0, atol=1e-5 * np.abs(answer).max())
    np.testing.assert_allclose(solve(1e-60 * right), 1e-60 * answer, rtol=1e-5, atol=1e-66 * np.abs(answer).max())
    columns = solve.solve_single_precision(few.astype(np.float32))
    np.testing.assert_allclose(columns, inverse, rtol=0, atol=1e-3 * np.abs(columns).max())
    assert not solve(0.0 * right).any()
    # A preconditioner is symmetric and reproducible.
    x, y = right[:, 0], right[:, 1]
    assert abs(x @ solve(y) - y @ solve(x)) < 1e-6 * abs(x @ solve(x))
    again = factorise_multifrontal(matrix, places)
    assert again is not None
    assert again(x).tobytes() == solve(x).tobytes()


def test_nodes_with_different_row_counts() -> None:
    """Nodes may have any number of rows, in any order, as crossings of yarns and their tails have."""
    matrix, places = grid(14, 12, 1)
    rng = np.random.default_rng(3)
    rows = rng.permutation(np.flatnonzero(rng.random(matrix.shape[0]) < 0.7))
    used, node_of_row = np.unique(rows // 3, return_inverse=True)
    part = csr_matrix(matrix.tocsr()[rows][:, rows])
    symbolic = SymbolicFactorisation.of(part, places[used], node_of_row)
    assert len(symbolic.bounds) > 3
    solve = symbolic.factorise(part, np.float32)
    assert solve is not None
    right = rng.normal(size=len(rows))
    exact = np.linalg.solve(part.toarray(), right)
    assert np.linalg.norm(solve(right) - exact) < 1e-4 * np.linalg.norm(exact)


@pytest.mark.parametrize("name", CASES)
def test_dissection_decouples_branches(name: str) -> None:
    matrix, places = CASES[name]()
    links = matrix.tocoo()
    pattern = csr_matrix((np.ones(links.nnz), (links.row // 3, links.col // 3)))
    parts = dissect(pattern, places)
    assert sorted(np.concatenate([part.nodes for part in parts])) == list(range(len(places)))
    above, owner = np.full(len(parts), -1), np.empty(len(places), dtype=int)
    for number, part in enumerate(parts):
        owner[part.nodes] = number
        assert all(child < number for child in part.children)
        above[list(part.children)] = number
    # Every elimination block except the last has a parent.
    assert (above[:-1] >= 0).all()
    assert above[-1] == -1

    def line(number: int) -> set[int]:
        found = set()
        while number >= 0:
            found.add(number)
            number = int(above[number])
        return found

    lines = [line(number) for number in range(len(parts))]
    near = pattern.tocoo()
    for i, j in {(int(owner[a]), int(owner[b])) for a, b in zip(near.row, near.col, strict=True)}:
        assert i in lines[j] or j in lines[i]


@pytest.mark.parametrize("pieces", [1, 3, _RUNS, 2 * _RUNS])
def test_child_update_with_any_run_count(pieces: int) -> None:
    """A child's update matrix is added at its rows, for any number of contiguous runs."""
    rng = np.random.default_rng(pieces)
    rows = np.concatenate([10 * k + np.arange(k % 4 + 2) for k in range(pieces)])
    child = np.tril(rng.normal(size=(len(rows), len(rows))))
    for own in (0, 1, 5 * pieces, 10 * pieces):
        chain = _DenseChain(own, 10 * pieces - own, np.float64)
        before = [rng.normal(size=part.shape) for part in (chain.own, chain.rest)]
        chain.own[...], chain.rest[...] = before
        chain.add_child(child, rows)
        expected = np.zeros((10 * pieces,) * 2)
        expected[:, :own], expected[own:, own:] = before
        expected[np.ix_(rows, rows)] += child
        # Only the lower triangle is read; each sum has the same two terms.
        np.testing.assert_array_equal(np.tril(chain.own), np.tril(expected)[:, :own])
        np.testing.assert_array_equal(np.tril(chain.rest), np.tril(expected)[own:, own:])


@pytest.mark.slow
def test_fill_in_is_small() -> None:
    matrix, places = grid(20, 20, 20)
    solve = factorise_multifrontal(matrix, places)
    assert solve is not None
    # Compare with minimum degree: its two factors store each entry twice, and half of a front may be zeros.
    factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    assert solve.entry_count < 1.05 * (factors.L.nnz + factors.U.nnz)
    assert solve.entry_count < 0.03 * matrix.shape[0] ** 2


def test_multifrontal_falls_back_to_double() -> None:
    """A matrix too ill-conditioned for single precision is factorised in double precision.

    A long rod pinned at one end: its bending stiffness is 1e-8 of that of its highest mode.
    """
    places = np.stack([np.arange(700.0), np.zeros(700), np.zeros(700)], axis=1)
    second = diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(698, 700))
    bend = csr_matrix(second.T @ second) + diags(np.r_[1.0, 1.0, np.zeros(698)])
    matrix = csr_matrix(kron(bend, np.eye(3)))
    symbolic = SymbolicFactorisation.of(matrix, places)
    assert symbolic.factorise(matrix, np.float32) is None
    assert isinstance(factorise_multifrontal(matrix, places), MultifrontalSolve)


def test_preconditioner_falls_back_to_double() -> None:
    """The preconditioner uses double precision where single precision is too inaccurate."""
    matrix, places = block_matrix(False, 1e-7)
    right = np.random.default_rng(1).normal(size=matrix.shape[0])
    exact = factorise(matrix)(right)
    np.testing.assert_array_equal(build_preconditioner(matrix, places)(right), exact)
    # Small matrices do not use it either, and an indefinite matrix has no such factorisation.
    few, there = grid(5, 5, 5)
    assert not isinstance(build_preconditioner(few, there), MultifrontalSolve)
    wide, there = grid(10, 10, 5)
    assert isinstance(build_preconditioner(wide, there), MultifrontalSolve)
    shifted = csr_matrix(wide - 1.0 * eye(wide.shape[0]))
    assert factorise_multifrontal(shifted, there) is None
    right = right[: wide.shape[0]]
    np.testing.assert_array_equal(build_preconditioner(shifted, there)(right), factorise(shifted)(right))


@pytest.mark.parametrize(
    ("pins", "sides", "more"),
    [
        (True, (1.0, 0.5, 0.5), {}),
        pytest.param(True, (1.0, 0.5, 0.5), {"poisson": 0.49}, marks=pytest.mark.slow),
        pytest.param(True, (4.0, 0.2, 0.2), {"resolution": 1500}, marks=pytest.mark.slow),
        (False, (1.0, 0.5, 0.5), {}),
    ],
)
def test_first_eigenvalue_of_large_body(pins: bool, sides: tuple[float, float, float], more: dict[str, float]) -> None:
    system = block_system(pins, sides, **more)
    free = np.flatnonzero(~system.is_fixed)
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    K = system.stiffness_at_rest(np.ones(1), True)
    rigid = 0 if pins else 6
    values = eigh(
        K.toarray()[np.ix_(dof, dof)], np.diag(system.mass[free].repeat(3)),
        eigvals_only=True, subset_by_index=(0, rigid + 1),
    )  # fmt: skip
    found = smallest_eigenvalue(K, system.mass, free, rigid, places=system.rest)
    assert found == pytest.approx(values[rigid], rel=1e-7)
    # Geometric stiffness can make the matrix indefinite: then the eigenvalue of smallest magnitude is returned.
    lower = csr_matrix(K - diags(0.5 * (values[rigid] + values[rigid + 1]) * system.mass.repeat(3)))
    if pins:
        found = smallest_eigenvalue(lower, system.mass, free, 0, places=system.rest)
        assert abs(found) == pytest.approx(0.5 * (values[1] - values[0]), rel=1e-6)


def test_singular_preconditioner_is_shifted() -> None:
    """A numerically singular matrix still gives a preconditioner that solves for its stiff directions."""
    # A free chain of two springs along one axis.
    matrix = csr_matrix(np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]))
    with pytest.raises(RuntimeError, match="singular"):
        factorise(matrix)
    way = np.array([1.0, 0.0, -1.0])
    found = build_preconditioner(matrix, np.zeros((1, 3)))(way)
    # The result is exact except for the free translation; the added shift is 1e-12 of the matrix.
    assert matrix @ found == pytest.approx(way, abs=1e-3)


def sheet_with_second_neighbours(side: int, weight: float) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """Return a sheet that bends and shears, its places, and the pairs of its nodes' neighbours along both axes.

    weight: of bending and shear, relative to stretch.
    """
    matrix, places = grid(side, side, 1)
    number = np.arange(side * side).reshape(side, side)
    ends = [(number[:-2], number[1:-1], number[2:]), (number[:, :-2], number[:, 1:-1], number[:, 2:])]
    first, middle, last = (np.concatenate([pair[k].ravel() for pair in ends]) for k in range(3))
    rows = np.arange(len(first))
    bend = sum(
        csr_matrix((np.full(len(rows), factor), (rows, nodes)), (len(rows), side * side))
        for factor, nodes in ((1.0, first), (-2.0, middle), (1.0, last))
    )
    axes = (number[1:-1, :-2], number[1:-1, 2:], number[:-2, 1:-1], number[2:, 1:-1])
    rows = np.arange(axes[0].size)
    # Stretched across the first axis, and sheared in the plane.
    shear = sum(
        csr_matrix((np.full(len(rows), factor), (rows, 3 * nodes.ravel() + axis)), (len(rows), 3 * side * side))
        for factor, nodes, axis in zip((-1.0, 1.0, -1.0, 1.0), axes, (0, 0, 1, 1), strict=True)
    )
    total = matrix + weight * (kron(bend.T @ bend, np.eye(3)) + shear.T @ shear)
    return csr_matrix(total), places, np.column_stack([first, last])


@pytest.mark.parametrize("weight", [0.1, 10.0])
def test_neglected_couplings_leave_preconditioner(weight: float) -> None:
    """Factors without the couplings of second neighbours are smaller, and those of a stiffer matrix."""
    matrix, places, pairs = sheet_with_second_neighbours(22, weight)
    node = np.arange(len(places)).repeat(3)
    symbolic, exact = (SymbolicFactorisation.of(matrix, places, node, one) for one in (pairs, None))
    assert symbolic.entry_count < 0.7 * exact.entry_count
    solve = symbolic.factorise(matrix, np.float32)
    assert solve is not None
    inverse = solve(np.eye(matrix.shape[0]))
    # Eigenvalues of the preconditioned matrix: none exceeds 1, and conjugate gradients need few steps.
    lower = np.linalg.cholesky(matrix.toarray())
    values = np.linalg.eigvalsh(lower.T @ inverse @ lower)
    assert values.max() < 1.0 + 1e-3
    assert values.min() > (0.85 if weight < 1.0 else 0.2)


def test_factors_reuse_memory_of_unused_ones() -> None:
    matrix, places, pairs = sheet_with_second_neighbours(20, 0.1)
    symbolic = SymbolicFactorisation.of(matrix, places, np.arange(len(places)).repeat(3), pairs)
    right = np.random.default_rng(4).normal(size=matrix.shape[0])
    first = symbolic.factorise(matrix, np.float32)
    assert first is not None
    answer = first(right)
    # Factors in use are not overwritten.
    second = symbolic.factorise(csr_matrix(2.0 * matrix), np.float32)
    assert second is not None
    assert first(right).tobytes() == answer.tobytes()
    memory = first._fronts[0].columns.__array_interface__["data"]
    del first
    # Freed memory would be taken by these arrays.
    others = [np.empty(symbolic.entry_count, dtype=np.float32) for _ in range(4)]
    third = symbolic.factorise(matrix, np.float32)
    assert third is not None
    assert third._fronts[0].columns.__array_interface__["data"] == memory
    assert len(others) == 4
    assert third(right).tobytes() == answer.tobytes()
    np.testing.assert_allclose(second(right), 0.5 * answer, rtol=0, atol=1e-5 * np.abs(answer).max())


def test_large_woven_cloth_neglects_couplings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors of large woven cloth are smaller, and its motion is the same within the tolerance."""
    pitch, tolerance = 1.0 / 41.0, 1e-3
    pins = (swatch(40, 40, pitch)[0].vertices[:, 0] < 1e-9).astype(float)
    ends, entries = [], []
    for min_nodes in (sheet._MIN_NEGLECTING_NODES, 10**6):
        monkeypatch.setattr(sheet, "_MIN_NEGLECTING_NODES", min_nodes)
        stepper = SwatchStepper(woven_body(40, 40, pitch, pins), (0.0, 0.0, -9.81))
        for _ in range(2):
            stepper.step(1.0 / 24.0, YarnDials(0.3, 1.0, 1e-3, 3e-4, 1e-3), tolerance=tolerance)
        ends.append(stepper.state.positions)
        entries.append(stepper.stepper._symbolic.entry_count)
    assert entries[0] < 0.7 * entries[1]
    motion = np.linalg.norm(ends[1] - stepper.system.rest)
    assert 0.0 < np.linalg.norm(ends[0] - ends[1]) < 10.0 * tolerance * motion
