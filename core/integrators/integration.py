"""Stepper that combines an integrator with a damping; it replaces Stepper."""

from __future__ import annotations

from ..damping.damping import Damping
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import one_newton
from ..stepping.controls import Controls, StepReport
from ..stepping.step import Minimiser, Stepper
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .integrator import Dynamics, Integrator


class Integration:
    """Time stepper of one system with an integrator and a damping."""

    def __init__(
        self,
        integrator: type[Integrator],
        system: System,
        damping: Damping | None = None,
        minimiser: Minimiser = minimise_lbfgs,
    ) -> None:
        self._integrator = integrator
        viscous = None
        if damping is not None and damping.matrix(system.rest) is not None:
            viscous = damping.matrix
        nonlinear = Stepper(system, minimiser, viscous)
        self.dynamics = Dynamics(nonlinear, Stepper(system, one_newton, viscous), damping)

    def step(self, state: State, inputs: Inputs, h: float, controls: Controls) -> tuple[State, StepReport]:
        """Advance the state by h seconds; return it with a report."""
        return self._integrator.step(self.dynamics, state, inputs, h, controls)
