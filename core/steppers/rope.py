"""Steps of systems of ropes and nets: Newton's method with compiled directions."""

from __future__ import annotations

from typing import Any

from ..base.arrays import Array
from ..contact.compiled_contacts import contact_potential
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..native.library import KernelLibrary, load_library
from ..objective.rope_matrix import RopeDirections, RopeMatrix, RopePattern
from ..objective.rope_pieces import RopePieces, RopeStep, can_separate
from ..objective.step_problem import StepProblem
from ..solvers.newton import minimise_compiled_newton
from ..solvers.objective import AcceptedPoint
from ..system.system import System
from .implicit import Stepper
from .sheet import ContactFreePreconditioner


class RopeProblem(StepProblem):
    """Step potential psi whose Newton directions are compiled. Newton's method needs no preconditioner."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._preconditioner = ContactFreePreconditioner(self._preconditioner.base)

    def compiled_newton(self) -> RopeDirections | None:
        """Return the compiled Newton directions from now on; None without a kernel."""
        matrix = self._matrix(load_library())
        return None if matrix is None else RopeDirections(matrix, self.positions, lambda: self.low_rank)

    def separate_pieces(self, start: Array) -> RopePieces | None:
        """Return the independent pieces at velocities start (f, 3) m/s; None if they are not compiled."""
        library = load_library()
        matrix = self._matrix(library) if self.low_rank.is_empty and not self.limiting_terms else None
        if library is None or matrix is None or not can_separate(self._potential, matrix):
            return None
        step = RopeStep(
            self._h, self._inertia, self._predicted, self._load, self._start_positions, self._end_positions,
            self.value_noise,
        )  # fmt: skip
        return RopePieces(library, self._potential, matrix, step, self.positions, start)

    def _matrix(self, library: KernelLibrary | None) -> RopeMatrix | None:
        """Return the Hessian of the step; None without a kernel."""
        stepper = self._stepper
        if library is None or not isinstance(stepper, RopeStepper):
            return None
        return RopeMatrix(
            library,
            self._potential,
            stepper.free_index,
            self._inertia,
            self._h,
            self._damping_matrix,
            stepper.patterns,
            self._end_positions,
        )

    def contact_potential(self, contacts: ContactSet, normal_forces: Array) -> ContactPotential:
        return contact_potential(contacts, normal_forces)

    def accept(self, v: Array, value: float, gradient: Array) -> AcceptedPoint:
        return super().accept(v, value, gradient) if self._active_contacts else AcceptedPoint(value, gradient)


class RopeStepper(Stepper):
    """Steps of ropes and nets, whose stiffness at rest says little about their hanging shape.

    patterns: of the Hessians so far.
    """

    problem_type = RopeProblem

    def __init__(self, system: System, **named: Any) -> None:
        super().__init__(system, minimise_compiled_newton, **named)
        self.patterns: list[RopePattern] = []
