"""Part of Stepper that the problems of its steps depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..contact.metric import Compliance
from ..solvers.factor import Solve
from ..system.system import System
from .carrier import Piece
from .turns import Turns

Viscous = Callable[[Array], csr_matrix]
"""Function that returns the matrix C(x) in N s/m of a damping force -C(x) v."""


class Prefactored(Protocol):
    """Read-only view of a Stepper: the data that persist from step to step, see step.Stepper."""

    system: System
    viscous: Viscous | None
    free: Index
    dof: Index
    slot: Index
    pieces: tuple[tuple[Piece, ...], ...]
    beside: Index
    turns: Turns
    firm: bool

    def factor(self, h: float, inertia: Array, factors: Array, parts: Array | None = None) -> Solve: ...

    def rounding(self, solve: Solve, far: Array) -> float: ...

    def compliance(self, solve: Solve) -> Compliance: ...
