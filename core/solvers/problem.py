"""What a minimiser needs to know, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from scipy.sparse import csr_matrix

from ..arrays import Array
from .factor import LowRank


class Outcome(Enum):
    """How a minimisation ended, as a sentence for the artist."""

    CONVERGED = "The step converged."
    ITERATIONS = "The step used up its iterations before it reached the tolerance."
    LINE_SEARCH = "The step found no way to lower its potential any further."
    TOUCHING = "The step did not find what touches what at its end."
    NOT_FINITE = "The step ran into numbers without bounds."


class Searched(Protocol):
    """A smooth function of velocities v (f, 3) m/s."""

    value_noise: float
    """Differences of values up to this are rounding."""

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        """psi in W s and its gradient (f, 3) in N."""
        ...

    def largest_step(self, v: Array, direction: Array) -> float:
        """The largest part, at most 1, of a direction (f, 3) from v that may be tried."""
        ...


class Problem(Searched, Protocol):
    """With a metric near to its Hessian."""

    def precondition(self, gradient: Array) -> Array:
        """The inverse of the metric applied to a gradient: velocities (f, 3) m/s."""
        ...

    def motion(self, v: Array) -> float:
        """How large the motion at v is by the estimate that the error has, sqrt(W s); infinite where not known."""
        ...

    def way(self, v: Array) -> float:
        """How far the motion at v takes the node that it takes farthest, m/s; infinite where not known."""
        ...

    def secant(self, v: Array) -> tuple[Array, Array] | None:
        """A way (f, 3) m/s that is known to change the gradient by (f, 3) N before a search from v; None for none."""
        ...

    def accept(self, v: Array, value: float, gradient: Array) -> Accepted:
        """Is told where the search has come to, with psi and its gradient there; may change the problem a little."""
        ...

    def apart(self, step: Array) -> Array | None:
        """What the metric's part for what is told apart, see Accepted, makes of a step (f, 3), N; None for nothing."""
        ...

    def hessian(self, v: Array, project: bool) -> csr_matrix:
        """The Hessian, (3f, 3f) kg/s, for Newton's method; with project, its positive semi-definite part."""
        ...

    @property
    def low_rank(self) -> LowRank:
        """What the Hessian has beside hessian(v)."""
        ...


@dataclass(frozen=True)
class Accepted:
    """What a problem says of the point that a search has come to.

    value, gradient: of psi from now on.
    apart: (f, 3) N, what of the gradient's change since the last point the metric knows better than a secant; None
        for nothing.
    fresh: whether the metric is another one since.
    """

    value: float
    gradient: Array
    apart: Array | None = None
    fresh: bool = False


@dataclass(frozen=True)
class Tolerance:
    """relative: stop when the error estimate falls to this part of the first one of the step.

    The error is estimated by sqrt(g^T H^-1 g), the length of the Newton step in the Hessian's own metric: all
    modes count by their energy, and the tolerance shrinks with the motion, so that a slow tail is not frozen (a
    bound in newtons would be). absolute: the same estimate below which a change means nothing, in sqrt(W s).
    ways: whether relative is a part of the nodes' ways instead, where the problem knows them, see Ways.
    """

    relative: float
    absolute: float
    ways: bool = False


@dataclass(frozen=True)
class Minimum:
    """velocities: (f, 3).  residual: final over first error estimate.  force: norm of the gradient, N.

    first: the first error estimate, sqrt(W s).
    """

    velocities: Array
    outcome: Outcome
    iterations: int
    evaluations: int
    residual: float
    force: float
    first: float = 0.0
