"""Stepper that combines an integrator with a damping; it replaces Stepper."""

from __future__ import annotations

from ...settle.controls import Controls
from ...solvers.lbfgs import minimise_lbfgs
from ...solvers.newton import take_newton_step
from ...steppers.implicit import Stepper
from ...steppers.step_policy import Minimiser
from ...system.inputs import Inputs
from ...system.state import State
from ...system.system import System
from ..damping.damping import Damping
from .integrator import DampedSystem, Integrator, StepResult


class IntegratorStepper:
    """Time stepper of one system with an integrator and a damping."""

    def __init__(
        self,
        integrator: type[Integrator],
        system: System,
        damping: Damping | None = None,
        minimiser: Minimiser = minimise_lbfgs,
    ) -> None:
        self._integrator = integrator
        viscous_matrix = None
        if damping is not None and damping.matrix(system.rest) is not None:
            viscous_matrix = damping.matrix
        nonlinear = Stepper(system, minimiser, viscous_matrix)
        self.dynamics = DampedSystem(nonlinear, Stepper(system, take_newton_step, viscous_matrix), damping)

    def step(self, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        """Advance the state by h seconds; return it with a report."""
        return self._integrator.step(self.dynamics, state, inputs, h, controls)
