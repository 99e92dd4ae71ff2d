"""The compiled energies, factors and steps of ropes give numpy's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from builders import scene, static_body
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.materials import RodBending, strain_energy
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.native import library as native
from dampsim.core.native.ropes import EnvelopeFactors
from dampsim.core.objective.rope_matrix import envelope_solve
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.simulation.assembly import build_assembly
from dampsim.core.simulation.method_selection import make_stepper
from dampsim.core.solvers import newton
from dampsim.core.steppers.sheet import RopeProblem, RopeStepper
from dampsim.core.system.state import State

pytestmark = pytest.mark.kernel
COUNT = 30


def without_kernel(found: Callable[[], Any]) -> Any:
    """Return the result of a call without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strain_energy, "load_library", lambda: None)
        return found()


def curved(seed: int = 0) -> np.ndarray:
    return np.cumsum(0.3 * np.random.default_rng(seed).standard_normal((COUNT, 3)) + [1.0, 0.0, 0.0], axis=0)


def states() -> dict[str, np.ndarray]:
    """Return positions of a rope, from straight to crumpled, folded and degenerate."""
    line, rng = np.arange(COUNT)[:, None] * [1.0, 0.0, 0.0], np.random.default_rng(5)
    return {
        "curved": curved(),
        "straight": line,
        "nearly straight": line + 1e-5 * rng.standard_normal(line.shape),
        "crumpled": rng.standard_normal(line.shape),
        "compressed": 0.4 * curved(3),
        "folded": line * np.where(np.arange(COUNT) % 2, 1, -1)[:, None],
        "a point": 0.0 * line,
    }


@pytest.mark.parametrize("name", states())
@pytest.mark.parametrize("kind", ["springs", "straight rods", "curved rods"])
def test_kernel_ropes_match_numpy(kernel: native.KernelLibrary, kind: str, name: str) -> None:
    """Values and gradients agree to 1e-12 of the largest force of a rope, and Hessians to 1e-12."""
    x, stiffness = states()[name], np.random.default_rng(1).uniform(1.0, 3.0, COUNT)
    corners = 2 if kind == "springs" else 3
    elements = np.stack([np.arange(k, COUNT - corners + 1 + k) for k in range(corners)], axis=1)
    rest = states()["straight"] if kind == "straight rods" else curved()
    if kind == "springs":
        lengths = np.linalg.norm(rest[elements[:, 0]] - rest[elements[:, 1]], axis=1)
        energy: Any = spring_energy(elements, lengths, stiffness[: len(elements)])
    else:
        energy = RodBending.from_rest_shape(rest, elements, stiffness[: len(elements)])
    (value, gradient), (known, wanted) = energy.value_gradient(x), without_kernel(lambda: energy.value_gradient(x))
    assert abs(value - known) <= 1e-12 * abs(known) + energy.rounding
    assert np.abs(gradient - wanted).max() <= 1e-12 * max(1.0, np.abs(wanted).max())
    compiled = energy.compiled()
    assert compiled is not None
    places = (elements[:, :, None] * COUNT + elements[:, None, :]).astype(np.int32)
    exact = 2.0 * energy.hessian(x, False).toarray()
    for project in (False, True):
        blocks = np.zeros((COUNT * COUNT, 3, 3))
        compiled.add_blocks(x, 2.0, places, blocks, project)
        found = blocks.reshape(COUNT, COUNT, 3, 3).transpose(0, 2, 1, 3).reshape(3 * COUNT, 3 * COUNT)
        dense = 2.0 * energy.hessian(x, project).toarray()
        # Near a straight line, the angle depends on rounding.
        close = 1e-9 if name == "nearly straight" else 1e-12
        assert np.abs(found - dense).max() <= close * np.abs(exact).max()


def chains(counts: list[int], reach: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return starts, columns, blocks and the dense matrix of chains whose nodes are coupled up to some distance."""
    rng, n = np.random.default_rng(seed), sum(counts)
    chain = np.arange(len(counts)).repeat(counts)
    near = (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= reach) & (chain[:, None] == chain)
    wide = near.repeat(3, axis=0).repeat(3, axis=1)
    dense = np.where(wide, rng.standard_normal(wide.shape), 0.0)
    dense = dense @ dense.T + 0.1 * np.eye(3 * n)
    filled = np.abs(dense.reshape(n, 3, n, 3)).max(axis=(1, 3)) > 0.0
    rows, columns = np.nonzero(filled)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int32)
    blocks = dense.reshape(n, 3, n, 3).transpose(0, 2, 1, 3)[rows, columns]
    return starts, columns.astype(np.int32), np.ascontiguousarray(blocks), dense


@pytest.mark.parametrize("seed", range(4))
def test_envelope_solve_matches_dense(kernel: native.KernelLibrary, seed: int) -> None:
    starts, columns, blocks, dense = chains([1, 12, 5, 2, 20], 1 + seed, seed)
    factors = EnvelopeFactors(kernel, starts, columns)
    assert factors.piece_of_row.tolist() == np.arange(5).repeat([1, 12, 5, 2, 20]).tolist()
    assert not factors.factorise(blocks).any()
    right = np.random.default_rng(9).standard_normal((40, 3))
    expected = np.linalg.solve(dense, right.ravel()).reshape(-1, 3)
    assert np.abs(factors.solve(right) - expected).max() <= 1e-9 * np.abs(expected).max()


def test_envelope_solve_of_sparse_matrix(kernel: native.KernelLibrary) -> None:
    """The rows of a sparse matrix may be in any order. It has no solve if it is not positive definite."""
    _, _, _, dense = chains([1, 12, 5], 2, 3)
    order = np.random.default_rng(4).permutation(18)
    rows = (3 * order[:, None] + np.arange(3)).ravel()
    matrix, right = dense[rows][:, rows], np.random.default_rng(5).standard_normal((54, 2))
    solve = envelope_solve(kernel, csr_matrix(matrix))
    assert solve is not None
    for one in (right, right[:, 0]):
        np.testing.assert_allclose(solve(one), np.linalg.solve(matrix, one), rtol=1e-9, atol=1e-9)
    assert envelope_solve(kernel, csr_matrix(matrix - 1e3 * np.eye(54))) is None


def test_envelope_reports_indefinite_pieces(kernel: native.KernelLibrary) -> None:
    """Only pieces that are not positive definite are factorised again; the others keep their factors."""
    starts, columns, blocks, dense = chains([6, 8, 4], 2, 0)
    factors = EnvelopeFactors(kernel, starts, columns)
    bad = blocks.copy()
    bad[starts[9] : starts[10]][columns[starts[9] : starts[10]] == 9] -= 1e3 * np.eye(3)
    failed = factors.factorise(bad)
    assert failed.tolist() == [False, True, False]
    assert not factors.factorise(blocks, failed).any()
    right = np.ones((18, 3))
    assert np.allclose(factors.solve(right), np.linalg.solve(dense, right.ravel()).reshape(-1, 3), rtol=1e-9)
    assert factors.factorise(np.full_like(blocks, np.nan)).all()


def hanging_ropes(pin_weight: float = 1.0, **settings: Any) -> tuple[RopeStepper, RopeProblem]:
    """Return a stepper and a step of three slightly bent ropes of nine nodes."""
    line = np.linspace(0.0, 1.0, 9)[:, None]
    # At straight ropes, rounding decides about the angle at rest.
    arc = np.concatenate([line, 0.0 * line, 0.2 * line**2], axis=1)
    points = np.concatenate([np.add(arc, [0.0, 0.3 * k, 0.0]) for k in range(3)])
    first = np.arange(27)[np.arange(27) % 9 != 8]
    body = static_body(
        Surface("Ropes", points, np.zeros((0, 3), dtype=np.int64)), pin_weight * (np.arange(27) % 9 == 0),
        kind="ROPE", edges=np.stack([first, first + 1], axis=1), **settings,
    )  # fmt: skip
    system = build_assembly(scene(body)).islands[0].system
    stepper = make_stepper(system)
    assert isinstance(stepper, RopeStepper)
    controls = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-3)
    state, inputs = State.at_rest(system.rest), system.stationary_inputs()
    problem = RopeProblem(stepper, state, inputs, 0.01, controls)
    return stepper, problem


@pytest.mark.parametrize("bending", [0.0, 1.0])
def test_rope_directions_match_numpy(kernel: native.KernelLibrary, bending: float) -> None:
    """Compiled Newton steps of hanging ropes, some of them compressed, equal those by numpy's Hessian."""
    _, problem = hanging_ropes(bending=bending)
    rng = np.random.default_rng(4)
    for size in (0.0, 0.1, 10.0):
        v = problem.start + size * rng.standard_normal(problem.start.shape)
        gradient = problem.value_gradient(v)[1]
        step = problem.compiled_newton()
        assert step is not None
        found, wanted = step(v, gradient), newton._direction(problem, v, gradient)
        assert np.isfinite(found).all()
        if size < 10.0:
            assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
        assert float(np.vdot(found, gradient)) < 0.0


def test_envelope_refuses_wrong_patterns(kernel: native.KernelLibrary) -> None:
    starts, columns, blocks, _ = chains([4], 1, 0)
    with pytest.raises(ValueError, match="rows do not divide"):
        EnvelopeFactors(kernel, starts, columns[:-1])
    with pytest.raises(ValueError, match="beyond"):
        EnvelopeFactors(kernel, starts, columns + 4)
    factors = EnvelopeFactors(kernel, starts, columns)
    with pytest.raises(ValueError, match="no factors"):
        factors.solve(np.ones((4, 3)))
    with pytest.raises(ValueError, match="blocks"):
        factors.factorise(blocks[1:])
