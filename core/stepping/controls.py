"""What the dials set for a step, and what is to say of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..solvers.problem import Outcome
from .law import InertiaLaw


@dataclass(frozen=True)
class Controls:
    """What the dials set for one system.

    laws: one for each region.
    follow_through: phi, 1 is physical; one for all blocks, or one for each.
    tolerance: of the solver.
    stiffness: factor on what is elastic, for a material that stiffens during the shot; for all blocks, or for each.
        The laws' eigenvalues go with it.
    """

    laws: tuple[InertiaLaw, ...]
    follow_through: float | tuple[float, ...]
    tolerance: float
    stiffness: float | tuple[float, ...] = 1.0

    def throws(self, blocks: int) -> Array:
        """(b,) follow-through of each block."""
        return np.broadcast_to(np.asarray(self.follow_through, dtype=float), blocks)

    def factors(self, blocks: int) -> Array:
        """(b,) stiffness factor of each block."""
        return np.broadcast_to(np.asarray(self.stiffness, dtype=float), blocks)


@dataclass(frozen=True)
class StepReport:
    """How a step went.

    outcome: of the worst part.
    iterations, evaluations: of the solver, in all parts.
    substeps: parts that the step was cut into.
    residual: of the worst part, see solvers.problem.Minimum.
    helped: how often another way had to be tried: calmer coefficients, or Newton's method.
    """

    outcome: Outcome
    iterations: int
    evaluations: int
    substeps: int
    residual: float
    helped: int = 0
