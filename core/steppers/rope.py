"""Steps of systems of ropes and nets: Newton's method with compiled directions."""

from __future__ import annotations

from typing import Any

from ..base.arrays import Array
from ..contact.compiled_contacts import contact_potential
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..native.library import load_library
from ..objective.rope_matrix import RopeDirections, RopeMatrix, RopePattern
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
        library, stepper = load_library(), self._stepper
        if library is None or not isinstance(stepper, RopeStepper):
            return None
        matrix = RopeMatrix(library, self._potential, stepper.free_index, self._inertia, self._h, self._damping_matrix)
        matrix.use_pattern(stepper.patterns, self._end_positions)
        return RopeDirections(matrix, self.positions, lambda: self.low_rank)

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
