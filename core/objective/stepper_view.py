"""Part of Stepper that the problems of its steps depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..contact.contact_preconditioner import InverseColumns
from ..solvers.factorisation import Solve
from ..system.system import System
from .nodal_rotations import NodalRotations
from .reference_motion import RegionSlice

ViscousMatrix = Callable[[Array], csr_matrix]
"""Function that returns the matrix C(x) in N s/m of a damping force -C(x) v."""


class StepperView(Protocol):
    """Read-only view of a Stepper: the data that persist from step to step, see step.Stepper."""

    system: System
    viscous: ViscousMatrix | None
    free: Index
    dof: Index
    free_index: Index
    region_slices: tuple[tuple[RegionSlice, ...], ...]
    nearest_free_index: Index
    nodal_rotations: NodalRotations
    is_pinned_solid: bool

    def factorise(self, h: float, inertia: Array, factors: Array, stiffness_weights: Array | None = None) -> Solve: ...

    def hanging_compliance(self, factors: Array) -> Solve: ...

    def rounding_error(self, solve: Solve, scale: Array) -> float: ...

    def inverse_columns(self, solve: Solve) -> InverseColumns: ...
