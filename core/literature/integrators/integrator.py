"""Interface of integrators, forces on a damped system, and the stepper that combines an integrator with a damping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...base.arrays import Array
from ...settle.controls import Controls
from ...settle.step_report import StepReport
from ...solvers.lbfgs import minimise_lbfgs
from ...solvers.newton import take_newton_step
from ...steppers.implicit import Stepper
from ...steppers.step_policy import Minimiser
from ...system.inputs import BlockInputs, Inputs
from ...system.state import State
from ...system.system import System
from ...system.term import StiffnessScaling
from ..damping.damping import Damping


@dataclass(frozen=True)
class DampedSystem:
    """Damped system.

    stepper: backward Euler with the damping's potential.  linear_stepper: the same with a single Newton iteration.
    """

    stepper: Stepper
    linear_stepper: Stepper
    damping: Damping | None = None

    @property
    def system(self) -> System:
        return self.stepper.system

    def start_force(self, state: State, velocities: Array, inputs: Inputs, controls: Controls) -> Array:
        """Return the forces (n, 3) N at the start of a step, at the state's positions and velocities (n, 3) m/s."""
        system, positions = self.system, state.positions
        factors = controls.stiffness_per_block(len(system.blocks))
        start_inputs = tuple(one.at_start() for one in inputs)
        total = system.mass[:, None] * system.acceleration(inputs, np.arange(len(system.mass)))
        for place, factor, energy in system.active_energies(state, start_inputs):
            part = system.slices[place]
            scale = factors[place] if factor is StiffnessScaling.SCALED else 1.0
            total[part] = total[part] - scale * energy.value_gradient(positions[part])[1]
        if system.links is not None:
            total = total - system.links.value_gradient(positions, factors)[1]
        viscous = self.damping.matrix(positions) if self.damping else None
        if viscous is not None:
            total = total - (viscous @ velocities.ravel()).reshape(-1, 3)
        return total

    def damped_velocities(self, state: State, predicted: Array, h: float) -> Array:
        """Return the velocities (n, 3) m/s after damping."""
        if self.damping is None:
            return predicted
        return self.damping.damp_velocities(state.positions, state.velocities, predicted, h)

    def state_with_pins(self, state: State, positions: Array, velocities: Array, inputs: Inputs, h: float) -> State:
        """Return the state at the end of a step, with the hard pins at their targets."""
        pinned_positions = self.system.with_pins(positions, inputs)
        pinned_velocities = self.with_pin_velocities(velocities, inputs, h)
        history = self.system.updated_history(state.history, pinned_positions)
        return State(state.time + h, pinned_positions, pinned_velocities, np.zeros_like(pinned_positions), history)

    def with_pin_velocities(self, velocities: Array, inputs: Inputs, h: float) -> Array:
        """Return the velocities (n, 3) m/s with those of the hard pins' motion over a step."""
        pin_velocities = tuple(BlockInputs(one.start, (one.end - one.start) / h) for one in inputs)
        return self.system.with_pins(velocities, pin_velocities)


StepResult = tuple[State, StepReport]
"""State at the end of a step, and its report."""


class Integrator:
    """Base class of integrators.

    name, label, description: as in the panel.  number: value stored in .blend files.
    order: of the error in h, undamped or with a damping that is a potential.
    is_implicit: whether each step solves equations. If not, h is limited by the highest frequency.
    min_substeps: substeps per frame below which large, hardly damped motion can gain energy, as measured on a ball.
    supports_follow_through: whether it supports values of follow-through other than 1.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    label: ClassVar[str]
    description: ClassVar[str]
    order: ClassVar[int]
    is_implicit: ClassVar[bool]
    min_substeps: ClassVar[int] = 1
    supports_follow_through: ClassVar[bool] = False

    @staticmethod
    def step(dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        """Return the state h seconds later, and a report.

        If the step fails, the report's outcome says so, and the state is returned unchanged.
        """
        raise NotImplementedError


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
