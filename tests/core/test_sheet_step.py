"""Preconditioner of sheet steps: its normal stiffness, and its number of conjugate-gradient iterations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_matrix, diags, identity

from builders import STOUT_COTTON, scene, static_body
from dampsim.core.materials import MEMBRANES, Corotational, Fabric, Membrane, ShellBending
from dampsim.core.objective.tangent import NormalDirectionSolve, Tangent, TangentBlock
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers import inexact_newton
from dampsim.core.solvers.factorisation import factorise_single_precision
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.objective import Minimum, Outcome, Tolerance
from dampsim.core.steppers import sheet as sheet_steps
from dampsim.core.steppers.step_policy import StepPolicy
from shapes import sheet


def test_normal_stiffness_is_projected_hessian() -> None:
    """The normal stiffness is the Hessian along the nodes' normals."""
    rng = np.random.default_rng(0)
    flat = sheet(6)
    x = flat.vertices + 0.05 * rng.standard_normal(flat.vertices.shape)
    membrane, bending = (
        Corotational(flat.vertices, flat.triangles, Fabric(9.0, 0.3)),
        ShellBending(flat.vertices, flat.triangles, 0.1),
    )
    assert bending.coordinate_hessian is not None
    spring = csr_matrix(np.diag(rng.random(108)))
    tangent = Tangent(
        (
            TangentBlock(slice(0, 36), 2.0, membrane.block_hessian(x, True), True),
            TangentBlock(slice(0, 36), 3.0, bending.coordinate_hessian, False),
            TangentBlock(slice(0, 36), 1.0, spring, True),
        ),
        36,
    )
    whole = 2.0 * membrane.hessian(x, True) + 3.0 * bending.hessian(x, True) + spring
    normals = rng.standard_normal((36, 3))
    way = rng.standard_normal((36, 3))
    np.testing.assert_allclose(tangent.apply(way).ravel(), whole @ way.ravel(), rtol=1e-10, atol=1e-10)
    N = block_diag([one[:, None] for one in normals]).tocsr()
    wanted = (N.T @ whole @ N).toarray()
    np.testing.assert_allclose(tangent.normal_stiffness(normals).toarray(), wanted, rtol=1e-10, atol=1e-10)
    free, inertia = np.arange(3, 36), rng.random(33) + 0.5
    found = NormalDirectionSolve.factorise(normals, tangent, inertia, 0.1, free)(way[free])
    inner = np.diag(inertia) + 0.1 * wanted[np.ix_(free, free)]
    right = np.linalg.solve(inner, (normals[free] * way[free]).sum(axis=1))
    # The factorisation has single precision.
    np.testing.assert_allclose(found, normals[free] * right[:, None], rtol=0, atol=1e-5 * np.abs(right).max())


@pytest.mark.parametrize("count", [17, pytest.param(33, marks=pytest.mark.slow)])
def test_conjugate_gradient_count_at_any_resolution(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A falling sheet needs few iterations; the constant preconditioner alone would need 30 to 70."""
    counts, own = [], inexact_newton.conjugate_gradients

    def counted(*given: object) -> tuple[np.ndarray, int]:
        found = own(*given)  # type: ignore[arg-type]
        counts.append(found[1])
        return found

    monkeypatch.setattr(inexact_newton, "conjugate_gradients", counted)
    monkeypatch.setattr(sheet_steps, "load_library", lambda: None)
    flat = sheet(count)
    body = static_body(
        flat, (flat.vertices[:, 0] < 1e-9).astype(float), kind="CLOTH", start_settled=False, detail=200000,
        **STOUT_COTTON,
    )  # fmt: skip
    list(Simulation(scene(body, last=12)).frames())
    assert np.mean(counts) < 20.0


def stiff_strip(count: int, little: float) -> csr_matrix:
    """Return the bending stiffness of a randomly folded strip with a small stiffness in all other directions."""
    rng = np.random.default_rng(1)
    second = diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(count - 2, count)) @ diags(rng.choice([-1.0, 1.0], count))
    return csr_matrix(second.T @ diags(rng.uniform(0.5, 2.0, count - 2)) @ second + little * identity(count))


@pytest.mark.parametrize(
    ("matrix", "close"),
    [
        (stiff_strip(40, 1e-2), 1e-4),
        (stiff_strip(200, 1e-8), 1e-4),
        (1e-60 * stiff_strip(40, 1e-2), 1e-9),
        (1e60 * stiff_strip(40, 1e-2), 1e-9),
    ],
    ids=["single", "soft", "tiny", "huge"],
)
def test_single_precision_factorisation_fallback(matrix: csr_matrix, close: float) -> None:
    """Matrices that are too ill-conditioned for single precision are factorised in double precision."""
    # The first solution is the softest mode.
    wanted = np.stack([np.ones(matrix.shape[0]), np.random.default_rng(0).standard_normal(matrix.shape[0])], axis=1)
    for answer in wanted.T:
        solve = factorise_single_precision(matrix)
        found = solve(np.asarray(matrix @ answer))
        assert np.linalg.norm(found - answer) < close * np.linalg.norm(answer)
    right = np.asarray(matrix @ answer)
    np.testing.assert_allclose(solve(1e-60 * right), 1e-60 * found, rtol=0, atol=1e-60 * close)
    assert not solve(0.0 * right).any()


@pytest.mark.parametrize("law", MEMBRANES, ids=lambda law: law.name)
def test_membrane_blocks_under_renumbering(law: type[Membrane]) -> None:
    """The block Hessian of a membrane does not depend on the numbering of nodes, triangles and corners."""
    rng = np.random.default_rng(3)
    flat = sheet(5)
    x = flat.vertices + 0.1 * rng.standard_normal(flat.vertices.shape)
    found = law(flat.vertices, flat.triangles, Fabric(9.0, 0.3)).block_hessian(x, False).toarray()
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found @ np.tile(np.eye(3), (len(x), 1)), 0.0, atol=1e-12 * np.abs(found).max())
    # Reverse some triangles, rotate the corners of others, and renumber all nodes; one node is unused.
    place = rng.permutation(len(x) + 1)[:-1]
    triangles = place[flat.triangles]
    triangles[::2], triangles[1::3] = triangles[::2, ::-1], np.roll(triangles[1::3], 1, axis=1)
    rest, there = (np.zeros((len(x) + 1, 3)) for _ in range(2))
    rest[place], there[place] = flat.vertices, x
    other = law(rest, triangles, Fabric(9.0, 0.3)).block_hessian(there, False).toarray()
    dof = (3 * place[:, None] + np.arange(3)).ravel()
    np.testing.assert_allclose(other[np.ix_(dof, dof)], found, rtol=0, atol=1e-12 * np.abs(found).max())


def held_sheet_problems(
    monkeypatch: pytest.MonkeyPatch, start_settled: bool
) -> list[tuple[sheet_steps.SheetProblem, np.ndarray]]:
    """Return the problems of a held sheet's first frames, with the starts of their searches."""
    problems, own = [], sheet_steps.minimise_inexact_newton

    def recorded(problem: sheet_steps.SheetProblem, start: np.ndarray, tolerance: Tolerance) -> Minimum:
        problems.append((problem, start))
        return own(problem, start, tolerance)

    monkeypatch.setattr(sheet_steps, "minimise_inexact_newton", recorded)
    flat = sheet(6)
    pins = (flat.vertices[:, 0] < 1e-9).astype(float)
    body = static_body(flat, pins, kind="CLOTH", start_settled=start_settled, detail=200000, **STOUT_COTTON)
    list(Simulation(scene(body, last=3)).frames())
    return problems


def test_static_search_has_no_invisible_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invisible steps end searches of moving sheets only; the errors of static steps would add up."""
    moving = held_sheet_problems(monkeypatch, start_settled=False)
    assert moving
    assert all(problem.invisible_step(1.0) > 0.0 for problem, _ in moving)
    assert held_sheet_problems(monkeypatch, start_settled=True)[0][0].invisible_step(1.0) == 0.0


def test_exhausted_search_with_small_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that runs out of iterations converges if its error is small against the motion, and fails otherwise."""
    problem, start = held_sheet_problems(monkeypatch, start_settled=False)[-1]
    start = start + np.random.default_rng(0).normal(scale=3.0, size=start.shape)
    exact = Tolerance(1e-14, 0.0)
    outcomes = [
        inexact_newton.minimise_inexact_newton(problem, start, exact, max_iterations=count).outcome for count in (1, 40)
    ]
    assert outcomes == [Outcome.ITERATIONS, Outcome.CONVERGED]


def test_failed_sheet_step_without_newton() -> None:
    """Complete factors would take ten times as long as all of the search before."""
    policy = StepPolicy()
    attempts = policy.attempts(inexact_newton.minimise_inexact_newton, Controls((BackwardEulerLaw(),), 1.0, 1e-3))
    assert all(minimise is not minimise_newton for _, minimise in attempts)
