"""Newton's method with a direct factorisation: the reference solver and the fallback.

The Hessian is projected to positive definite only where it is indefinite. Projected always, as by [SRD], it is too
stiff where elements are compressed, and the last digits converge slowly (docs/validation/srd.md has the counts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array
from ..native.pieces import PieceTask
from .factorisation import LowRankUpdate, factorise, factorise_positive
from .line_search import backtrack, line_search
from .objective import Minimum, Outcome, PreconditionedObjective, Tolerance

# Factor on the largest number of iterations of separate pieces: in most of them, a single strand slides on while all
# others rest, and a step in two parts takes much longer.
_PIECE_PATIENCE = 4
_TASKS = PieceTask.SEARCH, PieceTask.REST, PieceTask.NOT_FINITE, PieceTask.STUCK

NewtonStep = Callable[[Array, Array], Array]
"""Function that returns Newton's step (f, 3) at velocities (f, 3) for the gradient (f, 3) there."""


class SeparatePieces(Protocol):
    """Independent pieces of an objective, each with its own Newton steps, line searches and friction."""

    piece_count: int

    def step(self, tasks: NDArray[np.int32], slopes: Array) -> None:
        """Do the tasks (p,) of the pieces, see native.pieces.CompiledPieces.step()."""
        ...

    @property
    def velocities(self) -> Array:
        """Current velocities (f, 3) m/s."""
        ...

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient, N."""
        ...

    @property
    def evaluations(self) -> int:
        """Number of evaluations of psi that take as long as those of the pieces together."""
        ...

    def finish(self) -> Array:
        """Copy the friction of the pieces to the objective, and return their velocities (f, 3) m/s."""
        ...


class CompiledObjective(PreconditionedObjective, Protocol):
    """An objective whose Newton steps may be compiled."""

    def separate_pieces(self, start: Array) -> SeparatePieces | None:
        """Return the pieces of the objective at velocities start (f, 3) m/s; None if they are not compiled."""
        ...

    def compiled_newton(self) -> NewtonStep | None:
        """Return compiled steps for a search with the current contacts; None without a kernel."""
        ...


def minimise_compiled_newton(
    objective: CompiledObjective, start: Array, tolerance: Tolerance, max_iterations: int = 60
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by Newton's method, with compiled steps if there is a kernel."""
    pieces = objective.separate_pieces(start)
    patience = _PIECE_PATIENCE * max_iterations
    found = None if pieces is None else _minimise_pieces(objective, pieces, tolerance, patience)
    if found is not None:
        return found
    return minimise_newton(objective, start, tolerance, max_iterations, objective.compiled_newton())


def minimise_newton(
    objective: PreconditionedObjective,
    start: Array,
    tolerance: Tolerance,
    max_iterations: int = 60,
    newton_step: NewtonStep | None = None,
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by Newton's method.

    newton_step: by default, a step by factorisation of the objective's Hessian.
    """
    v = start
    value, gradient = objective.value_gradient(v)
    first_error, error, evaluations = None, np.inf, 1
    outcome, iteration = Outcome.ITERATIONS, 0
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, 1, np.inf, np.inf)
    for iteration in range(max_iterations + 1):
        direction = _direction(objective, v, gradient) if newton_step is None else newton_step(v, gradient)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        if slope > 0.0:
            # Only an indefinite Hessian gives an ascent direction; a maximum is not a solution.
            outcome = Outcome.LINE_SEARCH
            break
        error = np.sqrt(-slope)
        first_error = error if first_error is None else first_error
        if error <= max(tolerance.relative * min(first_error, objective.motion_norm(v)), tolerance.absolute):
            outcome = Outcome.CONVERGED
            break
        if iteration == max_iterations or tolerance.is_exhausted(evaluations):
            break
        trial = line_search(objective, v, value, direction, slope, backtrack, 40)
        evaluations += trial.evaluations
        if not trial.success:
            outcome = Outcome.LINE_SEARCH
            break
        accepted = objective.accept(trial.v, trial.value, trial.gradient)
        v, value, gradient = trial.v, accepted.value, accepted.gradient
    return Minimum.of(outcome, (iteration, evaluations), v, gradient, error, first_error)


def _minimise_pieces(
    objective: CompiledObjective, pieces: SeparatePieces, tolerance: Tolerance, max_iterations: int
) -> Minimum | None:
    """Minimise the pieces of an objective at once; return None if one has no direction at the start.

    The squares of their errors add up to that of the whole. A piece rests while its share is small enough.
    """
    count = pieces.piece_count
    tasks, slopes = np.full(count, PieceTask.BEGIN, dtype=np.int32), np.zeros(count)
    pieces.step(tasks, slopes)
    if (tasks < 0).any():
        return None
    is_stuck, first_error, outcome = np.zeros(count, dtype=bool), None, Outcome.ITERATIONS
    # Looking up a member of an enumeration takes as long as comparing all tasks.
    search, rest, not_finite, stuck = (int(one) for one in _TASKS)
    error, iteration = np.inf, 0
    for iteration in range(max_iterations + 1):
        error = float(np.sqrt(-slopes.sum()))
        first_error = error if first_error is None else first_error
        bound = max(tolerance.relative * min(first_error, objective.motion_norm(pieces.velocities)), tolerance.absolute)
        if error <= bound:
            outcome = Outcome.CONVERGED
            break
        if iteration == max_iterations or tolerance.is_exhausted(pieces.evaluations):
            break
        is_active = (-slopes > bound**2 / count) & ~is_stuck
        if not is_active.any():
            outcome = Outcome.LINE_SEARCH
            break
        tasks = np.where(is_active, search, rest).astype(np.int32)
        pieces.step(tasks, slopes)
        if (tasks == not_finite).any():
            outcome = Outcome.NOT_FINITE
            break
        is_stuck |= tasks == stuck
    v = pieces.finish()
    residual = error / first_error if first_error else 0.0
    return Minimum(v, outcome, iteration, pieces.evaluations, residual, pieces.gradient_norm, first_error or 0.0)


def _direction(objective: PreconditionedObjective, v: Array, gradient: Array) -> Array:
    """Return Newton's step (f, 3), with a projected Hessian if the exact one is indefinite."""
    positive = factorise_positive(objective.hessian(v, False))
    if positive is not None:
        direction = -LowRankUpdate(positive, objective.low_rank).solve_by_node(gradient)
        if float(np.vdot(gradient, direction)) <= 0.0:
            return direction
    return -LowRankUpdate(factorise(objective.hessian(v, True)), objective.low_rank).solve_by_node(gradient)


def take_newton_step(objective: PreconditionedObjective, start: Array, tolerance: Tolerance) -> Minimum:
    """Take a single full Newton step, as many solvers do for backward Euler."""
    _, gradient = objective.value_gradient(start)
    solve = LowRankUpdate(factorise(objective.hessian(start, True)), objective.low_rank)
    direction = -solve.solve_by_node(gradient)
    v = start + objective.largest_step(start, direction) * direction
    outcome = Outcome.CONVERGED if np.isfinite(v).all() else Outcome.NOT_FINITE
    return Minimum(v, outcome, 1, 1, 0.0, float(np.linalg.norm(gradient)))
