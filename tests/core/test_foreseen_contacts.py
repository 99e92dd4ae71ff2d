"""Newton directions of sheets foresee the contacts that they close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from contact_cases import NODES, random_rows
from test_cloth_contact import cloth
from test_contact_reports import plane
from test_native_contacts import both, full_pattern

from builders import scene
from dampsim.core.contact.penalty_and_friction import assemble_contact_hessian
from dampsim.core.native.elements import BlockFactors
from dampsim.core.native.library import KernelLibrary
from dampsim.core.objective.sheet_matrix import SheetMatrix
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.inexact_newton import minimise_inexact_newton
from dampsim.core.solvers.objective import Minimum, Outcome, Tolerance
from dampsim.core.steppers import sheet, step_policy

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("seed", range(10))
def test_foreseen_contacts_continue_their_branch(kernel: KernelLibrary, seed: int) -> None:
    """Contacts that close have the full quadratic penalty, with a pull; those that open have none; deep ones stay."""
    rows, pressing, x = random_rows(seed)
    compiled, expected = both(rows, pressing)
    rng = np.random.default_rng(seed)
    ends = x + 0.02 * rng.normal(size=x.shape)
    at, end = expected.forces_at(x), expected.forces_at(ends)
    states = expected.contact_states(x)
    closes, opens = (at.gap >= 0.0) & (end.gap < 0.0), (states % 4 == 1) & (end.gap >= 0.0)
    assert closes.any()
    assert opens.any()
    work = 0.5 * float(rows.stiffness[closes] @ end.gap[closes] ** 2)
    before = compiled.evaluate(x)
    assert compiled.foreseen(before, ends, 1.001 * work) is None
    found = compiled.foreseen(before, ends, 0.999 * work)
    assert found is not None
    pulls = (rows.stiffness * at.gap * (closes.astype(float) - opens))[:, None] * rows.normal
    wanted = rows.weights.toarray().T @ pulls
    np.testing.assert_allclose(found[1], wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())
    blocks = np.zeros((NODES**2, 3, 3))
    assert compiled.add_blocks(found[0], 1.0, full_pattern(np.arange(NODES)), blocks) == 0
    dense = blocks.reshape(NODES, NODES, 3, 3).transpose(0, 2, 1, 3).reshape(3 * NODES, 3 * NODES)
    continued = expected.stiffness_blocks(x, states + closes - opens)
    hessian = assemble_contact_hessian(rows.weights, continued).toarray()
    np.testing.assert_allclose(dense, hessian, rtol=0, atol=1e-11 * np.abs(hessian).max())


def wavy_cloth() -> Body:
    """Return a tilted cloth with waves and without friction, just above the ground."""
    flat = cloth(9, 0.0, friction=0.0)
    x, y, _ = flat.surface.vertices.T
    heights = 0.1 * x + 0.03 * np.sin(9.0 * y)
    vertices = np.column_stack([x, y, heights - heights.min() + 0.01])
    return replace(flat, surface=replace(flat.surface, vertices=vertices))


Comparison = Callable[[sheet.SheetProblem, np.ndarray, Tolerance], None]


def falling_cloth(monkeypatch: pytest.MonkeyPatch, compare: Comparison | None = None) -> np.ndarray:
    """Return all positions of the cloth while it falls on the ground. compare: called before each search."""

    def search(problem: sheet.SheetProblem, start: np.ndarray, tolerance: Tolerance) -> Minimum:
        if compare is not None:
            compare(problem, start, tolerance)
        return minimise_inexact_newton(problem, start, tolerance)

    with monkeypatch.context() as patch:
        for module in (sheet, step_policy):
            patch.setattr(module, "minimise_inexact_newton", search)
        frames = Simulation(scene(wavy_cloth(), last=14, colliders=(plane(0.0),))).frames()
        return np.array([frame.state.positions for frame in frames])


def without_foresight(
    monkeypatch: pytest.MonkeyPatch, problem: sheet.SheetProblem, start: np.ndarray, tolerance: Tolerance
) -> Minimum:
    """Return the minimum that a search finds with the present contacts only."""
    with monkeypatch.context() as patch:
        patch.setattr(SheetMatrix, "foresee_contacts", lambda *_: None)
        return minimise_inexact_newton(problem, start, tolerance)


def test_foreseen_contacts_save_systems(kernel: KernelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches need fewer systems and evaluations from the same starts; without friction they can be repeated."""
    counts: list[tuple[int, ...]] = []

    def compare(problem: sheet.SheetProblem, start: np.ndarray, tolerance: Tolerance) -> None:
        found = minimise_inexact_newton(problem, start, tolerance)
        again = minimise_inexact_newton(problem, start, tolerance)
        assert again.velocities.tobytes() == found.velocities.tobytes()
        present = without_foresight(monkeypatch, problem, start, tolerance)
        counts.append((found.iterations, present.iterations, found.evaluations, present.evaluations))

    falling_cloth(monkeypatch, compare)
    systems, present_systems, evaluations, present_evaluations = np.sum(counts, axis=0)
    assert systems < present_systems
    assert evaluations < 0.9 * present_evaluations


def test_foreseen_contacts_keep_the_minimum(kernel: KernelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact searches end in the same velocities."""
    exact, changed = Tolerance(1e-7, 1e-9), []

    def compare(problem: sheet.SheetProblem, start: np.ndarray, _: Tolerance) -> None:
        found = minimise_inexact_newton(problem, start, exact)
        present = without_foresight(monkeypatch, problem, start, exact)
        assert found.outcome is present.outcome is Outcome.CONVERGED
        scale = np.abs(present.velocities).max()
        np.testing.assert_allclose(found.velocities, present.velocities, rtol=0, atol=1e-4 * scale)
        changed.append(found.iterations != present.iterations)

    falling_cloth(monkeypatch, compare)
    assert any(changed)


def test_short_searches_foresee_nothing(kernel: KernelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that are cut off spend their evaluations in any case."""
    own, foresights, counts = SheetMatrix.foresee_contacts, [], []

    def recorded(matrix: SheetMatrix, ends: np.ndarray, min_power: float) -> tuple[BlockFactors, np.ndarray] | None:
        foresights.append(own(matrix, ends, min_power))
        return foresights[-1]

    def compare(problem: sheet.SheetProblem, start: np.ndarray, tolerance: Tolerance) -> None:
        for count in (16, 64):
            foresights.clear()
            minimise_inexact_newton(problem, start, replace(tolerance, max_evaluations=count))
            counts.append(len(foresights))

    monkeypatch.setattr(SheetMatrix, "foresee_contacts", recorded)
    falling_cloth(monkeypatch, compare)
    assert not any(counts[::2])
    assert any(counts[1::2])
