"""Solvers against dense linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import block_diag, csr_matrix, eye

from dampsim.core.literature.papers.compare import bar
from dampsim.core.solvers.factorisation import LowRank, LowRankUpdate, factorise, factorise_positive, symmetric_pivots
from dampsim.core.solvers.lbfgs import minimise_lbfgs
from dampsim.core.solvers.line_search import interpolate_quadratic, line_search
from dampsim.core.solvers.modes import (
    first_mode_shape,
    largest_eigenvalue,
    smallest_eigenvalue,
    smallest_eigenvalue_above,
)
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.objective import AcceptedPoint, Outcome, Tolerance

pytestmark = pytest.mark.kernel


def random_definite(size: int, seed: int) -> np.ndarray:
    half = np.random.default_rng(seed).standard_normal((size, size))
    return np.asarray(half @ half.T + size * np.eye(size))


@pytest.mark.parametrize("parts", [1, 3])
def test_low_rank_update_matches_dense_inverse(parts: int) -> None:
    """A + Y S Y^T with columns of both signs, each part on its own rows. Some parts have one column less."""
    rng = np.random.default_rng(1)
    blocks = [random_definite(6, seed) for seed in range(parts)]
    columns = 0.7 * rng.standard_normal((6 * parts, 3))
    signs = np.where(rng.random((parts, 3)) < 0.4, -1.0, 1.0)
    if parts > 1:
        columns[6:12, 2] = 0.0
    part = np.repeat(np.arange(parts), 6)
    A = csr_matrix(block_diag(blocks))
    whole = A.toarray()
    for k in range(parts):
        rows = slice(6 * k, 6 * k + 6)
        whole[rows, rows] += columns[rows] @ np.diag(signs[k]) @ columns[rows].T
    update = LowRankUpdate(factorise(A), LowRank(columns, signs, part))
    right = rng.standard_normal(6 * parts)
    np.testing.assert_allclose(update(right), np.linalg.solve(whole, right), rtol=1e-10, atol=1e-12)
    none = LowRankUpdate(factorise(A), LowRank(np.zeros((6 * parts, 0)), np.zeros((parts, 0)), part))
    np.testing.assert_allclose(none(right), np.linalg.solve(A.toarray(), right), rtol=1e-10, atol=1e-12)


def test_pivot_signs_match_eigenvalues() -> None:
    """The number of negative pivots equals the number of negative eigenvalues."""
    matrix = random_definite(8, 3) - 11.0 * np.eye(8)
    values = np.linalg.eigvalsh(matrix)
    assert 0 < (values < 0.0).sum() < 8
    pivots = symmetric_pivots(csr_matrix(matrix))
    assert pivots is not None
    assert (pivots < 0.0).sum() == (values < 0.0).sum()
    assert factorise_positive(csr_matrix(matrix)) is None
    assert factorise_positive(csr_matrix(matrix + (1.0 - values[0]) * np.eye(8))) is not None


@pytest.mark.parametrize("cells", [(1, 1, 1), (4, 2, 2)])
def test_eigenpairs_match_dense_problem(cells: tuple[int, int, int]) -> None:
    """Eigenvalues and modes match the dense problem, for small systems and large ones."""
    system = bar(cells)
    free = np.flatnonzero(~system.is_fixed)
    K = system.stiffness_at_rest(np.ones(1), False)
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    values, vectors = eigh(K.toarray()[np.ix_(dof, dof)], np.diag(system.mass[free].repeat(3)))
    # Both searches have a relative tolerance of about 1e-8.
    assert smallest_eigenvalue(K, system.mass, free, 0) == pytest.approx(values[0], rel=1e-7)
    assert smallest_eigenvalue_above(K, system.mass, free, 1.01 * values[1]) == pytest.approx(
        values[values > 1.01 * values[1]][0], rel=1e-7
    )
    assert smallest_eigenvalue_above(K, system.mass, free, 1.01 * values[-1]) is None
    assert largest_eigenvalue(K[dof][:, dof].tocsr(), system.mass[free]) == pytest.approx(values[-1], rel=1e-3)
    bound = 0.5 * (values[1] + values[2])
    second = next(k for k, value in enumerate(values) if value > bound)
    # A square bar has a double eigenvalue, so that the mode is any combination of two.
    for found, alike in (
        (first_mode_shape(K, system.mass, free), np.abs(values / values[0] - 1.0) < 1e-6),
        (first_mode_shape(K, system.mass, free, bound), np.abs(values / values[second] - 1.0) < 1e-6),
    ):
        near = vectors[:, alike]
        left = found.ravel() - near @ (near.T @ (system.mass[free].repeat(3) * found.ravel()))
        assert np.abs(left).max() < 1e-5
        assert np.linalg.norm(found, axis=1).max() == pytest.approx(1.0, rel=1e-12)
        assert found.ravel()[np.abs(found).argmax()] > 0.0


def test_smallest_eigenvalue_skips_rigid_modes() -> None:
    system = bar((4, 2, 2), clamped=False)
    everywhere = np.arange(len(system.rest))
    K = system.stiffness_at_rest(np.ones(1), False)
    values = eigh(K.toarray(), np.diag(system.mass.repeat(3)), eigvals_only=True)
    assert np.abs(values[:6]).max() < 1e-6 * values[6]
    assert smallest_eigenvalue(K, system.mass, everywhere, 6) == pytest.approx(values[6], rel=1e-6)
    # Two separate bars have 12 rigid-body modes: the seventh is one of them.
    two = csr_matrix(block_diag([K, K]))
    mass = np.concatenate([system.mass, system.mass])
    assert abs(smallest_eigenvalue(two, mass, np.arange(len(mass)), 6)) < 1e-6 * values[6]


class Parabola:
    """Function (v - 2)^2 + 5 of one number, with the interface that the line search needs."""

    value_noise = 0.0

    def value_gradient(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        return float((v[0] - 2.0) ** 2 + 5.0), 2.0 * (v - 2.0)

    def largest_step(self, v: np.ndarray, direction: np.ndarray) -> float:
        return 1.0


def test_line_search_interpolates_to_minimum() -> None:
    """The line search shortens a step that is too long to the minimum of a parabola."""
    v, direction = np.zeros(1), np.full(1, 6.0)
    value, gradient = Parabola().value_gradient(v)
    slope = float(gradient @ direction)
    found = line_search(Parabola(), v, value, direction, slope, interpolate_quadratic, 30)  # type: ignore[arg-type]
    assert found.success
    assert found.evaluations == 2
    assert found.v == pytest.approx(2.0)
    assert found.value == pytest.approx(5.0)
    # It finds no step in an ascent direction.
    assert not line_search(Parabola(), v, value, -direction, slope, interpolate_quadratic, 30).success  # type: ignore[arg-type]
    # It accepts a first step that descends enough.
    once = line_search(
        Parabola(), v, value, np.full(1, 1.5), float(gradient @ np.full(1, 1.5)), interpolate_quadratic, 30
    )  # type: ignore[arg-type]
    assert (once.evaluations, float(once.v[0])) == (1, 1.5)


def test_factorisation_solves_dense_system() -> None:
    A = random_definite(9, 5)
    right = np.random.default_rng(6).standard_normal((9, 2))
    np.testing.assert_allclose(factorise(csr_matrix(A))(right), np.linalg.solve(A, right), rtol=1e-11)
    np.testing.assert_allclose(factorise(eye(3).tocsr())(np.ones(3)), np.ones(3))


class Quadratic:
    """Function v A v/2 - b v with its exact inverse as preconditioner."""

    value_noise = 0.0

    def __init__(self) -> None:
        self.A, self.b = random_definite(6, 7), np.random.default_rng(8).standard_normal(6)
        self.low_rank = LowRank(np.zeros((6, 0)), np.zeros((1, 0)), np.zeros(6, dtype=np.int64))
        self.answer = np.linalg.solve(self.A, self.b).reshape(2, 3)

    def value_gradient(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        flat = v.ravel()
        return float(0.5 * flat @ self.A @ flat - self.b @ flat), (self.A @ flat - self.b).reshape(2, 3)

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.A, gradient.ravel()).reshape(2, 3)

    def accept(self, v: np.ndarray, value: float, gradient: np.ndarray) -> AcceptedPoint:
        return AcceptedPoint(value, gradient)

    def known_gradient_change(self, step: np.ndarray) -> None:
        return None

    def motion_norm(self, v: np.ndarray) -> float:
        return np.inf

    max_displacement = motion_norm

    def largest_step(self, v: np.ndarray, direction: np.ndarray) -> float:
        return 1.0

    def hessian(self, v: np.ndarray, project: bool) -> csr_matrix:
        return csr_matrix(self.A)


@pytest.mark.parametrize("minimise", [minimise_newton, minimise_lbfgs])
def test_minimisers_solve_quadratic_in_one_iteration(minimise: Any) -> None:
    """An exact preconditioner needs one iteration, and the iteration limit is obeyed."""
    problem = Quadratic()
    start = np.random.default_rng(9).standard_normal((2, 3))
    found = minimise(problem, start, Tolerance(1e-9, 0.0), max_iterations=1)
    assert found.outcome is Outcome.CONVERGED
    assert (found.iterations, found.evaluations) == (1, 2)
    np.testing.assert_allclose(found.velocities, problem.answer, rtol=1e-12)
    none = minimise(problem, start, Tolerance(1e-9, 0.0), max_iterations=0)
    assert none.outcome is Outcome.ITERATIONS
    np.testing.assert_array_equal(none.velocities, start)
    # A residual below the absolute tolerance needs no iteration.
    first = np.sqrt(np.vdot(problem.value_gradient(start)[1], problem.precondition(problem.value_gradient(start)[1])))
    assert minimise(problem, start, Tolerance(0.0, 1.001 * first)).iterations == 0
    assert minimise(problem, start, Tolerance(0.0, 0.999 * first)).iterations == 1
