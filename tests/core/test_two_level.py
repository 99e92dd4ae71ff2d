"""Two-level preconditioner for systems whose factors would be too large."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix, diags
from test_displacement_criterion import with_sway
from test_multifrontal import block_matrix, block_system, grid

from animated import AnimatedScene
from builders import gridded_box, static_body
from dampsim.core.frames.frame import Frame
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers import modes, preconditioner
from dampsim.core.solvers.modes import smallest_eigenvalue
from dampsim.core.solvers.multifrontal import MultifrontalSolve, SymbolicFactorisation
from dampsim.core.solvers.preconditioner import build_preconditioner, try_single_precision
from dampsim.core.solvers.two_level import TwoLevelPreconditioner, converges_quickly

pytestmark = pytest.mark.kernel

CASES = {
    "box": lambda: grid(14, 12, 10),
    "pinned body": lambda: block_matrix(True),
    "free body": lambda: block_matrix(False, 100.0),
}


def two_level(matrix: csr_matrix, places: np.ndarray) -> TwoLevelPreconditioner:
    found = TwoLevelPreconditioner.of(matrix, places)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
def test_two_level_reduces_all_errors(name: str) -> None:
    """One application reduces the energy norm of smooth and rough errors to about a third."""
    matrix, places = CASES[name]()
    solve = two_level(matrix, places)
    rng = np.random.default_rng(1)
    x = (places - places.mean(axis=0)) / np.ptp(places)
    shift, bend = np.ones_like(x), np.stack([0.0 * x[:, 0], x[:, 0] * x[:, 1], x[:, 0] ** 2], axis=1)
    for known in (rng.standard_normal(3 * len(x)), shift.ravel(), bend.ravel()):
        left = known - solve(matrix @ known)
        # Conjugate gradients depend on the energy norm. Without the grid a translation would not be reduced at all, and
        # without smoothing, noise would be reduced by a tenth only.
        assert left @ (matrix @ left) < 0.34**2 * (known @ (matrix @ known))


@pytest.mark.parametrize("name", CASES)
def test_two_level_is_symmetric_and_deterministic(name: str) -> None:
    matrix, places = CASES[name]()
    solve = two_level(matrix, places)
    x, y = np.random.default_rng(2).standard_normal((2, matrix.shape[0]))
    # Single precision rounds both alike except for the order of sums.
    assert abs(x @ solve(y) - y @ solve(x)) < 1e-5 * abs(x @ solve(x))
    assert x @ solve(x) > 0.0
    assert two_level(matrix, places)(x).tobytes() == solve(x).tobytes()
    columns = np.stack([x, y], axis=1)
    np.testing.assert_allclose(solve(columns)[:, 1], solve(y), rtol=0, atol=1e-5 * np.abs(solve(y)).max())
    np.testing.assert_allclose(solve(1e-60 * x), 1e-60 * solve(x), rtol=1e-4, atol=1e-66 * np.abs(solve(x)).max())
    assert not solve(0.0 * x).any()
    assert np.isnan(solve(np.full_like(x, np.nan))).all()


def test_two_level_selection_by_factor_size() -> None:
    matrix, places = block_matrix(True)
    count = SymbolicFactorisation.of(matrix, places).entry_count
    direct = try_single_precision(matrix, places, count)
    assert isinstance(direct, MultifrontalSolve)
    assert direct.entry_count == count
    assert isinstance(try_single_precision(matrix, places, count - 1), TwoLevelPreconditioner)


def solid_matrix(sides: tuple[float, float, float], poisson: float) -> tuple[csr_matrix, np.ndarray]:
    system = block_system(True, sides, poisson=poisson, resolution=2000)
    free = np.flatnonzero(~system.is_fixed)
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    stiffness = system.stiffness_at_rest(np.ones(1), True).tocsr()[dof][:, dof]
    return csr_matrix(stiffness + diags(system.mass[free].repeat(3))), system.rest[free]


@pytest.mark.parametrize(("sides", "poisson"), [((4.0, 0.2, 0.2), 0.4), ((1.0, 0.5, 0.5), 0.495)])
def test_two_level_rejects_rods_and_incompressible(sides: tuple[float, float, float], poisson: float) -> None:
    """Rods and nearly incompressible solids converge too slowly and use a factorisation."""
    matrix, places = solid_matrix(sides, poisson)
    assert not converges_quickly(two_level(matrix, places), matrix)
    assert isinstance(try_single_precision(matrix, places, 0), MultifrontalSolve)


def test_two_level_rejects_indefinite_matrix() -> None:
    matrix, places = block_matrix(True)
    assert TwoLevelPreconditioner.of(csr_matrix(matrix - diags(2.0 * matrix.diagonal())), places) is None
    # With positive diagonal blocks in an indefinite matrix it may exist, but does not converge.
    shifted = csr_matrix(matrix - diags(0.2 * matrix.diagonal()))
    found = TwoLevelPreconditioner.of(shifted, places)
    assert found is None or not converges_quickly(found, shifted)


@pytest.mark.parametrize("bounce", [pytest.param(0.0, marks=pytest.mark.slow), 30.0])
def test_two_level_frames_match_direct_factors(monkeypatch: pytest.MonkeyPatch, bounce: float) -> None:
    def run() -> list[Frame]:
        surface = gridded_box("Cube", (0, 0, 0), (1, 1, 1), 0.125)
        pins = (surface.vertices[:, 2] < 0.3).astype(float)
        one = with_sway(static_body(surface, pins, resolution=2500, stiffness=300.0, bounce=bounce))
        return list(Simulation(AnimatedScene((one,), 24.0, np.array([0.0, 0.0, -9.81]), 1, 16)).frames())

    taken, plain = [], build_preconditioner
    direct = run()
    monkeypatch.setattr(preconditioner.try_single_precision, "__defaults__", (0,))
    monkeypatch.setattr(modes, "_MAX_FACTOR_ENTRIES", 0)
    monkeypatch.setattr(
        "dampsim.core.objective.factorised_system.build_preconditioner",
        lambda *what: taken.append(plain(*what)) or taken[-1],
    )
    two_levels = run()
    assert taken
    assert all(isinstance(one, TwoLevelPreconditioner) for one in taken)
    way = max(float(np.abs(frame.surface - direct[0].surface).max()) for frame in direct)
    off = max(float(np.abs(one.surface - two.surface).max()) for one, two in zip(direct, two_levels, strict=True))
    assert off < 1e-3 * way
    # On large systems an iteration is three times faster, in exchange for some more iterations.
    counts = [sum(frame.iterations for frame in one[1:]) for one in (two_levels, direct)]
    assert counts[0] < 1.4 * counts[1]


@pytest.mark.slow
def test_eigenvalue_by_two_level_preconditioner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "_MAX_FACTOR_ENTRIES", 0)
    # Make sure that no other solver is used.
    monkeypatch.setattr(modes, "factorise_multifrontal", None)
    monkeypatch.setattr(modes, "eigsh", None)
    system = block_system(True)
    free = np.flatnonzero(~system.is_fixed)
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    K = system.stiffness_at_rest(np.ones(1), True)
    values = eigh(
        K.toarray()[np.ix_(dof, dof)], np.diag(system.mass[free].repeat(3)), eigvals_only=True, subset_by_index=(0, 0)
    )
    assert smallest_eigenvalue(K, system.mass, free, 0, places=system.rest) == pytest.approx(values[0], rel=1e-6)
