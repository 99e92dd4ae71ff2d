"""L-BFGS with a factorised preconditioner, and a line search that works down to rounding.

Nocedal, Wright, *Numerical Optimization*, algorithm 7.4 (two loops).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from ..arrays import Array
from .line_search import parabola, search
from .problem import Accepted, Minimum, Outcome, Problem, Tolerance
from .ways import Ways


def minimise_lbfgs(problem: Problem, start: Array, tolerance: Tolerance, pairs: int = 20, most: int = 300) -> Minimum:
    """Minimise an objective from start (f, 3) m/s by L-BFGS.

    max_pairs: number of stored secant pairs.
    """
    v = start
    value, gradient = problem.value_gradient(v)
    history = _Pairs(problem, pairs)
    ways = Ways(problem, start, tolerance.relative) if tolerance.ways else None
    if ways is not None and not np.isfinite(ways.begun):
        ways = None
    known = problem.secant(v) if ways is not None else None
    if known is not None:
        history.add(*known, Accepted(value, gradient))
    evaluations, first, error, foreseen = 1, None, np.inf, 0
    outcome = Outcome.ITERATIONS
    iteration = 0
    for iteration in range(most + 1):
        direction = -_two_loops(problem, history.known, gradient)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        if slope > 0.0:
            history.clear()
            direction = -problem.precondition(gradient)
            slope = float(np.vdot(gradient, direction))
            if slope > 0.0:
                # The preconditioner is not positive definite, so its error estimate is invalid.
                outcome = Outcome.LINE_SEARCH
                break
        error = np.sqrt(max(-slope, 0.0))
        first = error if first is None else first
        if ways is not None:
            near = ways.near(v, direction, error)
        else:
            # The motion norm is computed only if it is decisive.
            near = error <= tolerance.relative * first and error <= tolerance.relative * problem.motion(v)
        if near or error <= tolerance.absolute:
            outcome = Outcome.CONVERGED
            break
        if iteration == most:
            break
        tried = search(problem, v, value, direction, slope, parabola, 30)
        evaluations += tried.evaluations
        if not tried.found:
            if not history.known:
                outcome = Outcome.LINE_SEARCH
                break
            history.clear()
            continue
        if ways is not None and ways.last and np.array_equal(tried.v, v + direction):
            # The convergence of the last step is predicted. Checking it would take another solve.
            v, gradient, outcome, foreseen = tried.v, tried.gradient, Outcome.CONVERGED, 1
            break
        accepted = problem.accept(tried.v, tried.value, tried.gradient)
        history.add(tried.v - v, tried.gradient - gradient, accepted)
        v, value, gradient = tried.v, accepted.value, accepted.gradient
    residual = float(error / first) if first else 0.0
    force = float(np.linalg.norm(gradient))
    return Minimum(v, outcome, iteration + foreseen, evaluations, residual, force, float(first or 0.0))


class _Pairs:
    """Secant pairs of the last steps. The known part of each gradient change comes from the current preconditioner.

    pairs: (step, gradient change, 1 over their product) each.
    """

    def __init__(self, problem: Problem, most: int) -> None:
        self._problem = problem
        self._steps: deque[tuple[Array, Array]] = deque(maxlen=most)
        self.known: deque[tuple[Array, Array, float]] = deque(maxlen=most)

    def add(self, step: Array, change: Array, accepted: Accepted) -> None:
        if accepted.apart is not None:
            change = change - accepted.apart
        self._steps.append((step, change))
        if accepted.fresh:
            self.known.clear()
            for one in self._steps:
                self._take(*one)
        else:
            self._take(step, change)

    def clear(self) -> None:
        self._steps.clear()
        self.known.clear()

    def _take(self, step: Array, change: Array) -> None:
        apart = self._problem.apart(step)
        change = change if apart is None else change + apart
        product = float(np.vdot(step, change))
        if product > 1e-14 * float(np.vdot(step, step)) ** 0.5 * float(np.vdot(change, change)) ** 0.5:
            self.known.append((step, change, 1.0 / product))


def _two_loops(problem: Problem, history: deque[tuple[Array, Array, float]], gradient: Array) -> Array:
    """Return the L-BFGS inverse Hessian times a gradient, (f, 3)."""
    q = gradient
    weights = []
    for step, change, inverse in reversed(history):
        weight = inverse * float(np.vdot(step, q))
        q = q - weight * change
        weights.append(weight)
    q = problem.precondition(q)
    for (step, change, inverse), weight in zip(history, reversed(weights), strict=True):
        q = q + (weight - inverse * float(np.vdot(change, q))) * step
    return q
