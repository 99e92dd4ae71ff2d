"""Interfaces of the minimisers: objectives, tolerances and results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from .factorisation import LowRank


class Outcome(Enum):
    """Result of a minimisation, as a sentence for messages."""

    CONVERGED = "The step converged."
    ITERATIONS = "The step reached its maximum number of iterations before it converged."
    LINE_SEARCH = "The line search of the step found no lower energy."
    CONTACT_SET = "The contacts of the step did not converge."
    NOT_FINITE = "The step produced numbers that are not finite."


class Objective(Protocol):
    """A smooth function psi of velocities v (f, 3) m/s."""

    value_noise: float
    """Differences of values up to this are due to rounding."""
    low_rank: LowRank
    """Low-rank part of the Hessian, which its sparse matrices do not contain."""

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        """Return psi in W and its gradient (f, 3) in N."""
        ...

    def largest_step(self, v: Array, direction: Array) -> float:
        """Return the largest fraction, at most 1, of a direction (f, 3) that may be tried from v."""
        ...

    def motion_norm(self, v: Array) -> float:
        """Return the size of the motion at v in the norm of the error estimate, sqrt(W); infinite if unknown."""
        ...

    def accept(self, v: Array, value: float, gradient: Array) -> AcceptedPoint:
        """Accept v with its psi and gradient as the search's current point; may change the objective slightly."""
        ...


class PreconditionedObjective(Objective, Protocol):
    """An objective with a preconditioner H near its Hessian."""

    def precondition(self, gradient: Array) -> Array:
        """Return H^-1 times a gradient: velocities (f, 3) m/s."""
        ...

    def max_displacement(self, v: Array) -> float:
        """Return the largest displacement of a node at v per unit of time, m/s; infinite if unknown."""
        ...

    def initial_secant(self, v: Array) -> tuple[Array, Array] | None:
        """Return a secant pair for a search from v, or None if unknown.

        The pair is a step (f, 3) m/s and its gradient change (f, 3) N.
        """
        ...

    def known_gradient_change(self, step: Array) -> Array | None:
        """Return the known part of H times a step (f, 3) in N, see AcceptedPoint; None if there is none."""
        ...

    def hessian(self, v: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3f, 3f) kg/s for Newton's method; with project, made positive semi-definite."""
        ...


@dataclass(frozen=True)
class AcceptedPoint:
    """Response of an objective to an accepted point.

    value, gradient: of psi from now on.
    known_gradient_change: (f, 3) N, the part of the gradient's change since the last point that the preconditioner
        represents better than a secant; None if there is none.
    preconditioner_changed: whether the preconditioner has changed since the last point.
    """

    value: float
    gradient: Array
    known_gradient_change: Array | None = None
    preconditioner_changed: bool = False


@dataclass(frozen=True)
class Tolerance:
    """Convergence tolerances of a minimisation.

    relative: stop when the error estimate falls to this fraction of the first one of the step.

    The error estimate is sqrt(g^T H^-1 g), the length of the Newton step in the norm of the Hessian. All modes count by
    their energy, and the tolerance shrinks with the motion, so that a slow decay does not freeze, as it would with a
    bound in newtons.

    absolute: an error estimate that is negligible, in sqrt(W).
    by_displacement: whether relative refers to the nodes' displacements instead, if the objective knows them, see
        DisplacementCriterion.
    max_evaluations: evaluations after which the search ends wherever it is; None without such a bound.
    """

    relative: float
    absolute: float
    by_displacement: bool = False
    max_evaluations: int | None = None

    def is_exhausted(self, evaluations: int) -> bool:
        """Return whether a search has made as many evaluations as it may."""
        return self.max_evaluations is not None and evaluations >= self.max_evaluations


@dataclass(frozen=True)
class Minimum:
    """Result of a minimisation.

    velocities: (f, 3) m/s.  residual: final over first error estimate.  gradient_norm: N.
    first_error: the first error estimate, sqrt(W).
    """

    velocities: Array
    outcome: Outcome
    iterations: int
    evaluations: int
    residual: float
    gradient_norm: float
    first_error: float = 0.0

    @staticmethod
    def of(
        outcome: Outcome, counts: tuple[int, int], v: Array, gradient: Array, error: float, first_error: float | None
    ) -> Minimum:
        """Return the result of a search that ended at v. counts: of iterations and evaluations."""
        residual, force = float(error / first_error) if first_error else 0.0, float(np.linalg.norm(gradient))
        return Minimum(v, outcome, *counts, residual, force, float(first_error or 0.0))
