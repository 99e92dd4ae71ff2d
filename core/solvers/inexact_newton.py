"""Inexact Newton method for sheets, with steps by conjugate gradients.

The compiled directions precondition with an incomplete factorisation (objective.sheet_matrix). Without the kernel,
conjugate gradients use a constant preconditioner and one that represents the low bending stiffness, and need about ten
steps at any resolution; a few L-BFGS iterations come first, unless contacts press. The Hessian is projected, because
the Hessian of a compressed sheet is indefinite and gives no descent direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..base.arrays import Array
from .factorisation import LowRankUpdate, factorise
from .lbfgs import minimise_lbfgs
from .line_search import backtrack, extrapolate, line_search
from .objective import Minimum, Outcome, PreconditionedObjective, Tolerance

Product = Callable[[Array], Array]
"""Function that multiplies a matrix with a vector (f, 3)."""

# Number of L-BFGS iterations at the start, without contacts.
_LBFGS_ITERATIONS = 4
# Relative residual at which conjugate gradients stop.
_FORCING = 0.02
# After more steps than this, the preconditioner is refined with the sheet's current shape.
_REFINE_STEPS = 12
# After this many steps with the refined preconditioner, as for folded sheets, the Hessian is factorised and
# preconditions the remaining iterations. After the second number of steps it is factorised again.
_MAX_STEPS, _MAX_STEPS_FACTORISED = 120, 25
# Safety factor where the error is estimated by the preconditioner alone.
_ESTIMATE_MARGIN = 4.0
# Folding sheets may creep for tens of steps. After this many iterations, or if the line search fails, the tolerance is
# multiplied by the second number.
_PATIENCE, _RELAXED_TOLERANCE = 20, 10.0
# If the iterations run out, or slivers prevent any decrease along Newton's direction, an error of this fraction of the
# motion is accepted.
_STUCK_FRACTION = 0.05
# A search ends with an invisible step if the error is at most this fraction of the motion.
_INVISIBLE_ERROR = 0.1
# Contacts that close along a direction are foreseen if a search may make more evaluations than this. Shorter searches
# are cut off: they spend the evaluations that they save on further systems, each of which then takes longer.
_MIN_FORESEEING_EVALUATIONS = 32
# Tolerance at which the objective's invisible step counts in full; a tighter one reduces it.
_USUAL_TOLERANCE = 1e-3


class NewtonDirections(Protocol):
    """Source of approximate Newton directions."""

    def direction_at(self, v: Array, gradient: Array, *, foresees: bool = False) -> tuple[Array, float]:
        """Return the direction (f, 3) at v, and the preconditioned norm of the gradient.

        foresees: whether to foresee contacts that close on the way, if the directions can.
        """
        ...

    def norm(self, gradient: Array) -> float:
        """Return the norm of a gradient (f, 3) in the last preconditioner."""
        ...


class MatrixFreeObjective(PreconditionedObjective, Protocol):
    """An objective whose Hessian is available as a product."""

    def invisible_step(self, motion: float) -> float:
        """Return the largest norm of an invisible step, sqrt(W); 0 if every change matters.

        motion: motion_norm() at its start.
        """
        ...

    def step_norm(self, direction: Array) -> float:
        """Return the norm of a step (f, 3) m/s, sqrt(W)."""
        ...

    @property
    def has_contacts(self) -> bool:
        """True if contacts may press."""
        ...

    def compiled_directions(self) -> NewtonDirections | None:
        """Return compiled directions for a search with the current contacts; None without a kernel."""
        ...

    def tangent_operator(self, v: Array) -> Product:
        """Return the product with the positive semi-definite Hessian at v, including low-rank parts."""
        ...

    def refined_tangent(self, v: Array) -> Product:
        """Return the same product, and refine the preconditioner with the Hessian at v."""
        ...


def minimise_inexact_newton(
    objective: MatrixFreeObjective, start: Array, tolerance: Tolerance, max_iterations: int = 60
) -> Minimum:
    """Minimise an objective from start (f, 3) m/s.

    The tolerance is relative to the motion alone, because the first error of a step is dominated by a stretch that
    vanishes quickly.
    """
    directions: NewtonDirections | None = objective.compiled_directions()
    v, iterations, evaluations, error = start, 0, 1, float(np.inf)
    if directions is None:
        directions = _NewtonDirections(objective)
        if not objective.has_contacts:
            only_absolute = Tolerance(0.0, tolerance.absolute)
            start_result = minimise_lbfgs(objective, start, only_absolute, max_iterations=_LBFGS_ITERATIONS)
            v = start_result.velocities if np.isfinite(start_result.velocities).all() else start
            iterations, evaluations = start_result.iterations, start_result.evaluations + 1
    value, gradient = objective.value_gradient(v)
    visibility = min(tolerance.relative / _USUAL_TOLERANCE, 1.0)
    first_error: float | None = None
    foresees = not tolerance.is_exhausted(_MIN_FORESEEING_EVALUATIONS)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Minimum(v, Outcome.NOT_FINITE, 0, evaluations, np.inf, np.inf)
    outcome, iteration, estimate_ratio = Outcome.ITERATIONS, 0, np.inf
    for iteration in range(max_iterations + 1):
        motion = objective.motion_norm(v)
        if first_error is not None:
            # Assume the same ratio of error to preconditioned norm as before the last step.
            estimate = estimate_ratio * directions.norm(gradient)
            if _ESTIMATE_MARGIN * estimate <= max(tolerance.relative * motion, tolerance.absolute):
                error, outcome = estimate, Outcome.CONVERGED
                break
        direction, norm = directions.direction_at(v, gradient, foresees=foresees)
        slope = float(np.vdot(gradient, direction))
        if not np.isfinite(slope):
            outcome = Outcome.NOT_FINITE
            break
        error = float(np.sqrt(max(-slope, 0.0)))
        first_error = error if first_error is None else first_error
        # In the norm of the current preconditioner.
        estimate_ratio = error / max(norm, 1e-300)
        bound = max(tolerance.relative * (motion if np.isfinite(motion) else first_error), tolerance.absolute)
        if error <= bound * (1.0 if iteration < _PATIENCE else _RELAXED_TOLERANCE):
            outcome = Outcome.CONVERGED
            break
        relaxed_bound = max(_RELAXED_TOLERANCE * bound, _STUCK_FRACTION * motion if np.isfinite(motion) else 0.0)
        if iteration == max_iterations and error <= relaxed_bound:
            outcome = Outcome.CONVERGED
        if iteration == max_iterations or tolerance.is_exhausted(evaluations):
            break
        is_last = error <= _INVISIBLE_ERROR * motion and (
            objective.step_norm(direction) <= visibility * objective.invisible_step(motion)
        )
        trial = line_search(objective, v, value, direction, slope, backtrack, 40)
        if trial.success:
            trial = extrapolate(objective, v, direction, slope, trial)
        evaluations += trial.evaluations
        if not trial.success:
            outcome = Outcome.CONVERGED if error <= relaxed_bound else Outcome.LINE_SEARCH
            break
        accepted = objective.accept(trial.v, trial.value, trial.gradient)
        v, value, gradient = trial.v, accepted.value, accepted.gradient
        if is_last:
            outcome = Outcome.CONVERGED
            break
    return Minimum.of(outcome, (iterations + iteration, evaluations), v, gradient, error, first_error)


def preconditioned_norm(precondition: Product, gradient: Array) -> float:
    """Return the preconditioned norm of a gradient (f, 3)."""
    return norm_of(gradient, precondition(gradient))


def norm_of(gradient: Array, preconditioned: Array) -> float:
    """Return the preconditioned norm of a gradient (f, 3) from the preconditioner's product with it, (f, 3)."""
    return float(np.sqrt(max(float(np.vdot(gradient, preconditioned)), 0.0)))


class _NewtonDirections:
    """Approximate Newton directions, with refinement and factorisation on demand."""

    def __init__(self, objective: MatrixFreeObjective) -> None:
        self._objective = objective
        self._factorised: Product | None = None
        self._is_refined = False

    def norm(self, gradient: Array) -> float:
        return preconditioned_norm(self._objective.precondition, gradient)

    def direction_at(self, v: Array, gradient: Array, *, foresees: bool = False) -> tuple[Array, float]:
        objective = self._objective
        if self._factorised is not None:
            product = objective.tangent_operator(v)
            answer, count, _ = conjugate_gradients(product, self._factorised, gradient, _MAX_STEPS_FACTORISED)
            if count <= _MAX_STEPS_FACTORISED:
                return answer, self.norm(gradient)
        else:
            product = objective.tangent_operator(v) if self._is_refined else objective.refined_tangent(v)
            answer, count, norm = conjugate_gradients(product, objective.precondition, gradient, _MAX_STEPS)
            self._is_refined = count <= _REFINE_STEPS
            if count <= _MAX_STEPS:
                return answer, norm
        self._factorised = LowRankUpdate(factorise(objective.hessian(v, True)), objective.low_rank).solve_by_node
        answer, *_ = conjugate_gradients(product, self._factorised, gradient, _MAX_STEPS_FACTORISED)
        return answer, self.norm(gradient)


def conjugate_gradients(
    product: Product,
    precondition: Product,
    gradient: Array,
    max_steps: int,
    forcing: float = _FORCING,
    preconditioned_gradient: Array | None = None,
) -> tuple[Array, int, float]:
    """Return minus the inverse of a matrix times a gradient (f, 3), by preconditioned conjugate gradients.

    Also return the number of steps, max_steps + 1 if not converged, and the first preconditioned error norm. forcing:
    relative residual at which to stop.  preconditioned_gradient: (f, 3), if known.
    """
    answer, residual = np.zeros_like(gradient), -gradient
    preconditioned = precondition(residual) if preconditioned_gradient is None else -preconditioned_gradient
    direction, squared_norm = preconditioned, float(np.vdot(residual, preconditioned))
    squared_tolerance, first_error = forcing**2 * squared_norm, float(np.sqrt(max(squared_norm, 0.0)))
    for count in range(max_steps):
        if not squared_norm > squared_tolerance:
            return answer, count, first_error
        product_of_direction = product(direction)
        curvature = float(np.vdot(direction, product_of_direction))
        if not curvature > 0.0:
            return answer, count, first_error
        length = squared_norm / curvature
        answer = answer + length * direction
        residual = residual - length * product_of_direction
        preconditioned = precondition(residual)
        last_squared_norm, squared_norm = squared_norm, float(np.vdot(residual, preconditioned))
        direction = preconditioned + (squared_norm / last_squared_norm) * direction
    return answer, max_steps if not squared_norm > squared_tolerance else max_steps + 1, first_error
