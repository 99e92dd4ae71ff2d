"""What the dials set for a step, and what is to say of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..solvers.problem import Outcome
from .law import InertiaLaw


@dataclass(frozen=True)
class YarnDials:
    """What the dials say of the yarns of woven cloth (docs/weave.md).

    friction: Coulomb's number.  grip: N, that presses the yarns of each crossing together even where nothing pulls.
    drag: N s/m of sliding.  stretch, bend: s, times the stiffness, by rates of strain; rayleigh: by the tangent.

    Where nothing is said, as where it is looked for where something hangs, nothing slides.
    """

    friction: float = 1.0
    grip: float = 1e9
    drag: float = 0.0
    stretch: float = 0.0
    bend: float = 0.0
    rayleigh: bool = False


@dataclass(frozen=True)
class Controls:
    """What the dials set for one system.

    laws: one for each region.
    follow_through: phi, 1 is physical; one for all blocks, or one for each.
    tolerance: of the solver.
    stiffness: factor on what is elastic, for a material that stiffens during the shot; for all blocks, or for each.
        The laws' eigenvalues go with it.
    yarns: of each block that is woven.
    """

    laws: tuple[InertiaLaw, ...]
    follow_through: float | tuple[float, ...]
    tolerance: float
    stiffness: float | tuple[float, ...] = 1.0
    yarns: tuple[YarnDials, ...] = ()

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
