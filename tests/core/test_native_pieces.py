"""Newton's method for separate pieces of ropes finds the minima of the whole, and refuses wrong arguments."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_native_ropes import hanging_ropes

from dampsim.core.contact.penalty_and_friction import ContactSet
from dampsim.core.native import interface
from dampsim.core.native import library as native
from dampsim.core.native.pieces import CompiledPieces, PieceContacts, PieceElements, PieceRows, PieceTask
from dampsim.core.native.ropes import EnvelopeFactors
from dampsim.core.solvers import newton
from dampsim.core.solvers.factorisation import LowRank
from dampsim.core.solvers.objective import Outcome, Tolerance
from dampsim.core.steppers.sheet import RopeProblem

pytestmark = pytest.mark.kernel
TIGHT = Tolerance(1e-10, 0.0)


def floor_contacts(weights: np.ndarray, friction: float) -> ContactSet:
    """Return contacts (k, n) with a floor at z = 0.05 m, on which they slide along x."""
    count = len(weights)
    one, up = np.ones(count), np.tile([0.0, 0.0, 1.0], (count, 1))
    return ContactSet(
        csr_matrix(weights), np.tile([0.0, 0.0, -0.05], (count, 1)), up, 0.01 * one, 0.0 * one, 2e3 * one,
        friction * one, np.tile([0.3, 0.1, 0.0], (count, 1)), np.zeros((count, 6), dtype=np.int64), 0.0 * up,
    )  # fmt: skip


def contact_weights(coupling: bool) -> np.ndarray:
    """Return weights (k, n) of contacts of single nodes, of edges, and, if coupling, of two ropes with each other."""
    weights = np.zeros((10, 27))
    weights[np.arange(8), [1, 2, 3, 10, 11, 12, 20, 25]] = 1.0
    weights[8, [14, 15]] = 0.4, 0.6
    # The first node is pinned.
    weights[9, [0, 1]] = 0.5, 0.5
    if coupling:
        weights[8, 4] = -0.5
    return weights


def moved(problem: RopeProblem, seed: int, size: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(problem.start + size * rng.standard_normal(problem.start.shape))


@pytest.mark.parametrize("size", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("bending", [0.0, 1.0])
def test_pieces_minimise_like_newton(kernel: native.KernelLibrary, bending: float, size: float) -> None:
    _, problem = hanging_ropes(bending=bending)
    start = moved(problem, 4, size)
    pieces = problem.separate_pieces(start)
    assert pieces is not None
    assert pieces.piece_count == 3
    found = newton.minimise_compiled_newton(problem, start, TIGHT)
    wanted = newton.minimise_newton(problem, start, TIGHT)
    assert found.outcome is wanted.outcome is Outcome.CONVERGED
    # Both searches stop at 1e-10 of the first error, which is large for crumpled ropes.
    assert np.abs(found.velocities - wanted.velocities).max() <= 1e-7 * max(1.0, np.abs(start).max())
    assert found.gradient_norm <= 1e-6 * np.linalg.norm(problem.value_gradient(start)[1])


@pytest.mark.parametrize("friction", [0.0, 0.4])
@pytest.mark.parametrize("coupling", [False, True])
def test_pieces_with_contacts_minimise_like_newton(
    kernel: native.KernelLibrary, coupling: bool, friction: float
) -> None:
    """Contacts that couple two ropes make them one piece, and friction follows the normal forces."""
    results = []
    for compiled in (True, False):
        _, problem = hanging_ropes()
        contacts = floor_contacts(contact_weights(coupling), friction)
        start = moved(problem, 1, 0.2)
        problem.set_contacts(contacts, np.full(len(contacts), 0.1), start)
        if compiled:
            pieces = problem.separate_pieces(start)
            assert pieces is not None
            assert pieces.piece_count == (2 if coupling else 3)
            result = newton.minimise_compiled_newton(problem, start, TIGHT)
        else:
            result = newton.minimise_newton(problem, start, TIGHT)
        assert result.outcome is Outcome.CONVERGED
        assert problem.contacts is not None
        results.append((result.velocities, problem.contacts.lagged_normal_force, problem.positions(result.velocities)))
    (v, forces, x), (known_v, known_forces, known_x) = results
    assert np.abs(v - known_v).max() <= 1e-5 * np.abs(known_v).max()
    if friction:
        assert np.abs(forces - known_forces).max() <= 1e-4 * known_forces.max()
        assert known_forces.max() > 1e-3
    else:
        assert (forces == 0.1).all()
    assert np.abs(x - known_x).max() <= 1e-6


def test_resting_piece_keeps_its_velocities(kernel: native.KernelLibrary) -> None:
    """Pieces do their own tasks, and only those are evaluated."""
    _, problem = hanging_ropes()
    start = moved(problem, 0, 0.1)
    pieces = problem.separate_pieces(start)
    assert pieces is not None
    tasks, slopes = np.full(3, PieceTask.BEGIN, dtype=np.int32), np.zeros(3)
    pieces.step(tasks, slopes)
    gradient = problem.value_gradient(start)[1]
    step = problem.compiled_newton()
    assert step is not None
    assert slopes.sum() == pytest.approx(float(np.vdot(gradient, step(start, gradient))), rel=1e-9)
    before, known = pieces.velocities.reshape(3, 8, 3), slopes.copy()
    tasks[:] = PieceTask.REST, PieceTask.SEARCH, PieceTask.REST
    pieces.step(tasks, slopes)
    changed = (pieces.velocities.reshape(3, 8, 3) != before).any(axis=(1, 2))
    assert changed.sum() == (slopes != known).sum() == 1
    assert slopes.sum() > known.sum()


@pytest.mark.parametrize(("value", "outcome"), [(np.nan, "NOT_FINITE"), (1e300, "NOT_FINITE")])
def test_pieces_report_failures(kernel: native.KernelLibrary, value: float, outcome: str) -> None:
    """A piece whose numbers overflow is reported, and the others keep their directions."""
    _, problem = hanging_ropes()
    start = problem.start.copy()
    start[3, 0] = value
    pieces = problem.separate_pieces(start)
    assert pieces is not None
    tasks, slopes = np.full(3, PieceTask.BEGIN, dtype=np.int32), np.zeros(3)
    pieces.step(tasks, slopes)
    assert sorted(tasks) == [PieceTask[outcome], 1, 1]
    with np.errstate(all="ignore"):
        assert newton.minimise_compiled_newton(problem, start, TIGHT).outcome is Outcome.NOT_FINITE


def test_failed_search_keeps_velocities(kernel: native.KernelLibrary) -> None:
    """A piece at its minimum has no lower value; it is stuck there."""
    compiled = CompiledPieces(**arguments(kernel))
    tasks, slopes = np.ones(2, dtype=np.int32), np.zeros(2)
    compiled.step(tasks, slopes)
    compiled.velocities[0, 0] += 1e-3
    # The direction belongs to other velocities.
    before = compiled.velocities.copy()
    for name in ("values", "gradient"):
        compiled._buffers[name][...] *= -1.0
    compiled._buffers["values"][0] = -1e9
    tasks[:] = PieceTask.SEARCH, PieceTask.REST
    compiled.step(tasks, slopes)
    assert tasks.tolist() == [PieceTask.STUCK, PieceTask.REST]
    assert (compiled.velocities == before).all()


def test_other_terms_use_whole_search(kernel: native.KernelLibrary) -> None:
    """Without a kernel, and with terms that have no compiled code, all pieces share one search."""
    _, problem = hanging_ropes(pin_weight=0.5)
    assert problem.separate_pieces(problem.start) is None
    _, problem = hanging_ropes()
    assert problem.separate_pieces(problem.start) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dampsim.core.steppers.sheet.load_library", lambda: None)
        assert problem.separate_pieces(problem.start) is None
    problem._damping_matrix = csr_matrix((81, 81))
    assert problem.separate_pieces(problem.start) is None
    problem._damping_matrix = None
    problem.low_rank = LowRank(np.ones((72, 1)), np.ones((1, 1)), np.zeros(72, dtype=np.int64))
    assert problem.separate_pieces(problem.start) is None


def arguments(kernel: native.KernelLibrary) -> dict[str, Any]:
    """Return valid arguments of CompiledPieces: two masses on springs, of which one touches a floor."""
    starts, columns = np.array([0, 1, 2], dtype=np.int32), np.array([0, 1], dtype=np.int32)
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    edges = np.array([[0, 1], [0, 2]])
    places = np.array([[[-1, -1], [-1, 0]], [[-1, -1], [-1, 1]]], dtype=np.int32)
    contacts = PieceContacts(
        np.array([0, 1, 1]), csr_matrix(([1.0], ([0], [1])), shape=(1, 3)), 3 * (np.zeros((1, 3)),), 3 * (np.ones(1),),
        np.ones(1), np.ones(1),
    )  # fmt: skip
    none = PieceElements(np.zeros(3, dtype=int), np.zeros((0, 3), dtype=int), np.zeros((0, 3, 3), dtype=int), ())
    return {
        "library": kernel, "factors": EnvelopeFactors(kernel, starts, columns),
        "base": np.tile(np.eye(3), (2, 1, 1)),
        "rows": PieceRows(np.array([1, 2]), np.array([-1, 0, 1]), np.ones(2), *np.zeros((2, 2, 3)), x[1:]),
        "springs": PieceElements(np.arange(3), edges, places, (np.ones(2), np.ones(2))),
        "rods": replace(none, numbers=3 * (np.zeros(0),)),
        "contacts": contacts, "positions": x, "h": 0.1, "noise": 0.0, "max_friction_updates": 3,
    }  # fmt: skip


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("", {"base": np.zeros((1, 3, 3))}),
    "positions": ("", {"positions": np.zeros((2, 3))}),
    "h": ("", {"h": 0.0}),
    "infinite h": ("", {"h": np.inf}),
    "row nodes": ("rows", {"nodes": np.array([1, 3])}),
    "negative row nodes": ("rows", {"nodes": np.array([1, -1])}),
    "slots": ("rows", {"slots": np.array([-1, 0, 2])}),
    "inertia": ("rows", {"inertia": np.ones(3)}),
    "predicted": ("rows", {"predicted": np.zeros((2, 2))}),
    "load": ("rows", {"load": np.zeros(6)}),
    "start": ("rows", {"start": np.zeros((1, 3))}),
    "edges": ("springs", {"nodes": np.array([[0, 1], [0, 3]])}),
    "corners": ("springs", {"nodes": np.array([[0, 1, 2], [0, 2, 1]])}),
    "places": ("springs", {"places": np.full((2, 2, 2), 2)}),
    "few places": ("springs", {"places": np.zeros((1, 2, 2), dtype=int)}),
    "starts": ("springs", {"starts": np.array([0, 2, 1])}),
    "early end": ("springs", {"starts": np.array([0, 1, 1])}),
    "late start": ("springs", {"starts": np.array([1, 1, 2])}),
    "many starts": ("springs", {"starts": np.array([0, 1, 1, 2])}),
    "numbers": ("springs", {"numbers": (np.ones(2), np.ones(1))}),
    "few numbers": ("springs", {"numbers": (np.ones(2),)}),
    "rods": ("rods", {"nodes": np.zeros((1, 3), dtype=int)}),
    "weights": ("contacts", {"weights": csr_matrix((2, 3))}),
    "contact nodes": ("contacts", {"weights": csr_matrix((1, 4))}),
    "vectors": ("contacts", {"vectors": 3 * (np.zeros((2, 3)),)}),
    "scalars": ("contacts", {"scalars": 3 * (np.ones(2),)}),
    "friction": ("contacts", {"friction": np.ones((1, 1))}),
    "forces": ("contacts", {"forces": np.ones(0)}),
    "contact starts": ("contacts", {"starts": np.array([0, 1, 2])}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pieces_refuse_wrong_arguments(kernel: native.KernelLibrary, name: str) -> None:
    part, wrong = HOSTILE[name]
    given = arguments(kernel)
    CompiledPieces(**given)
    given |= {part: replace(given[part], **wrong)} if part else wrong
    with pytest.raises(ValueError):  # noqa: PT011 (each check has its own sentence)
        CompiledPieces(**given)


def test_steps_refuse_wrong_tasks(kernel: native.KernelLibrary) -> None:
    compiled = CompiledPieces(**arguments(kernel))
    right, slopes = np.ones(2, dtype=np.int32), np.zeros(2)
    for tasks, other in (
        (np.ones(3, dtype=np.int32), slopes), (np.ones(2), slopes), (right, np.zeros(1)), (right[::-1], slopes),
        (np.ones(4, dtype=np.int32)[::2], slopes),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="not a contiguous, writeable array"):
            compiled.step(tasks, other)
    compiled.step(right, slopes)
    assert (slopes <= 0.0).all()


def test_structure_matches_source() -> None:
    """The members of the structure are those of pieces.c in their order."""
    source = (interface.KERNEL_FOLDER / "pieces.c").read_text(encoding="utf-8")
    found = re.search(r"struct pieces \{(.*?)\};", source, re.DOTALL)
    assert found is not None
    body = re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.DOTALL)
    members = re.findall(r"(\w+)[,;]", body)
    assert members == [name for name, *_ in native.PiecesStructure._fields_]
    assert members[3:] == list(native.PIECE_POINTERS)
    assert source.count("REST = 0, BEGIN = 1, SEARCH = 2, STUCK = -1, NOT_FINITE = -2") == 1


class _SlidingStrand:
    """An objective and its two pieces: one rests, the squared error of the other falls by a fifth per iteration."""

    piece_count, gradient_norm, evaluations = 2, 0.0, 1
    velocities = np.zeros((2, 3))

    def separate_pieces(self, start: np.ndarray) -> _SlidingStrand:
        return self

    def step(self, tasks: np.ndarray, slopes: np.ndarray) -> None:
        slopes[:] = (0.0, -1.0) if tasks[0] == PieceTask.BEGIN else 0.8 * slopes

    def motion_norm(self, v: np.ndarray) -> float:
        return 1.0

    def finish(self) -> np.ndarray:
        return self.velocities


def test_slow_piece_is_searched_on() -> None:
    """Iterations of a single strand are short, so more of them are allowed than those of a whole body."""
    found = newton.minimise_compiled_newton(_SlidingStrand(), np.zeros((2, 3)), Tolerance(1e-5, 0.0))
    assert found.outcome is Outcome.CONVERGED
    assert 60 < found.iterations < 240
    found = newton.minimise_compiled_newton(_SlidingStrand(), np.zeros((2, 3)), Tolerance(1e-30, 0.0))
    assert (found.outcome, found.iterations) == (Outcome.ITERATIONS, 240)
