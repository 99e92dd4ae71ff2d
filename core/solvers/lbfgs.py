"""L-BFGS with a factorised preconditioner, and a line search that works down to rounding errors.

Nocedal, Wright, *Numerical Optimization*, algorithm 7.4 (two-loop recursion).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from ..base.arrays import Array
from .displacement_criterion import DisplacementCriterion
from .line_search import interpolate_quadratic, line_search
from .objective import AcceptedPoint, Minimum, Outcome, PreconditionedObjective, Tolerance


def minimise_lbfgs(
    objective: PreconditionedObjective,
    start: Array,
    tolerance: Tolerance,
    max_pairs: int = 20,
    max_iterations: int = 300,
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by L-BFGS.

    max_pairs: number of stored secant pairs.
    """
    v = start
    value, gradient = objective.value_gradient(v)
    history = _SecantPairs(objective, max_pairs)
    criterion = DisplacementCriterion(objective, start, tolerance.relative) if tolerance.by_displacement else None
    if criterion is not None and not np.isfinite(criterion.start_displacement):
        criterion = None
    secant = objective.initial_secant(v) if criterion is not None else None
    if secant is not None:
        history.add(*secant, AcceptedPoint(value, gradient))
    evaluations, first_error, error, unchecked_steps = 1, None, np.inf, 0
    outcome, iteration = Outcome.ITERATIONS, 0
    for iteration in range(max_iterations + 1):
        direction = -_two_loop_recursion(objective, history.pairs, gradient)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        if slope > 0.0:
            history.clear()
            direction = -objective.precondition(gradient)
            slope = float(np.vdot(gradient, direction))
            if slope > 0.0:
                # The preconditioner is not positive definite, so its error estimate is invalid.
                outcome = Outcome.LINE_SEARCH
                break
        error = np.sqrt(max(-slope, 0.0))
        first_error = error if first_error is None else first_error
        if criterion is not None:
            is_converged = criterion.is_converged(v, direction, error)
        else:
            # Compute the motion norm only if the first condition holds.
            is_converged = (
                error <= tolerance.relative * first_error and error <= tolerance.relative * objective.motion_norm(v)
            )
        if is_converged or error <= tolerance.absolute:
            outcome = Outcome.CONVERGED
            break
        if iteration == max_iterations or tolerance.is_exhausted(evaluations):
            break
        trial = line_search(objective, v, value, direction, slope, interpolate_quadratic, 30)
        evaluations += trial.evaluations
        if not trial.success:
            if not history.pairs:
                outcome = Outcome.LINE_SEARCH
                break
            history.clear()
            continue
        if criterion is not None and criterion.next_step_converges and np.array_equal(trial.v, v + direction):
            # This step is predicted to converge. Checking that would take another solve.
            v, gradient, outcome, unchecked_steps = trial.v, trial.gradient, Outcome.CONVERGED, 1
            break
        accepted = objective.accept(trial.v, trial.value, trial.gradient)
        history.add(trial.v - v, trial.gradient - gradient, accepted)
        v, value, gradient = trial.v, accepted.value, accepted.gradient
    return Minimum.of(outcome, (iteration + unchecked_steps, evaluations), v, gradient, error, first_error)


class _SecantPairs:
    """Secant pairs of the last steps.

    The known part of each gradient change is computed with the current preconditioner, see AcceptedPoint.

    pairs: (step, gradient change, 1 over their inner product) each.
    """

    def __init__(self, objective: PreconditionedObjective, max_pairs: int) -> None:
        self._objective = objective
        self._steps: deque[tuple[Array, Array]] = deque(maxlen=max_pairs)
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=max_pairs)

    def add(self, step: Array, change: Array, accepted: AcceptedPoint) -> None:
        if accepted.known_gradient_change is not None:
            change = change - accepted.known_gradient_change
        self._steps.append((step, change))
        if accepted.preconditioner_changed:
            self.pairs.clear()
            for one in self._steps:
                self._append(*one)
        else:
            self._append(step, change)

    def clear(self) -> None:
        self._steps.clear()
        self.pairs.clear()

    def _append(self, step: Array, change: Array) -> None:
        known = self._objective.known_gradient_change(step)
        change = change if known is None else change + known
        product = float(np.vdot(step, change))
        if product > 1e-14 * float(np.vdot(step, step)) ** 0.5 * float(np.vdot(change, change)) ** 0.5:
            self.pairs.append((step, change, 1.0 / product))


def _two_loop_recursion(
    objective: PreconditionedObjective, pairs: deque[tuple[Array, Array, float]], gradient: Array
) -> Array:
    """Return the L-BFGS inverse Hessian times a gradient, (f, 3)."""
    q = gradient
    weights = []
    for step, change, inverse in reversed(pairs):
        weight = inverse * float(np.vdot(step, q))
        q = q - weight * change
        weights.append(weight)
    q = objective.precondition(q)
    for (step, change, inverse), weight in zip(pairs, reversed(weights), strict=True):
        q = q + (weight - inverse * float(np.vdot(change, q))) * step
    return q
