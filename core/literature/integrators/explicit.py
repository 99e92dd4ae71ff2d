"""Explicit Euler steps: cheap, and stable only for steps shorter than about 2 over the highest frequency."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array
from ...settle.controls import Controls
from ...settle.step_report import StepReport
from ...solvers.objective import Outcome
from ...system.inputs import Inputs
from ...system.state import State
from .integrator import DampedSystem, Integrator

_DONE = StepReport(Outcome.CONVERGED, 1, 1, 1, 0.0)
_FAILED = StepReport(Outcome.NOT_FINITE, 1, 1, 1, np.inf)
# A displacement of so many times the body's size in one step counts as a runaway.
_RUNAWAY = 1e6


def _predict_velocities(dynamics: DampedSystem, state: State, inputs: Inputs, h: float, factors: Array) -> Array:
    force = dynamics.force(state, state.velocities, inputs, factors, at_end=False)
    return np.asarray(state.velocities + h * force / dynamics.system.mass[:, None])


def _checked_end(dynamics: DampedSystem, state: State, after: State) -> tuple[State, StepReport]:
    limit = _RUNAWAY * max(block.size for block in dynamics.system.blocks)
    if not after.is_finite or float(np.abs(after.positions - state.positions).max()) > limit:
        return state, _FAILED
    return after, _DONE


class SymplecticEuler(Integrator):
    """Symplectic Euler step: v+ = v + h a(x, v), x+ = x + h v+."""

    name = "SYMPLECTIC_EULER"
    number = 4
    label = "Symplectic Euler"
    description = "Moves positions by the new velocities. Explicit; stable for short substeps only"
    order = 1
    is_implicit = False

    @staticmethod
    def step(
        dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        with np.errstate(over="ignore", invalid="ignore"):
            v = dynamics.damped_velocities(
                state, _predict_velocities(dynamics, state, inputs, h, dynamics.stiffness_per_block(controls)), h
            )
            after = dynamics.state_with_pins(state, state.positions + h * v, v.copy(), inputs, h)
            return _checked_end(dynamics, state, after)


class ForwardEuler(Integrator):
    """Forward Euler step: x+ = x + h v, v+ = v + h a(x, v). It amplifies every oscillation."""

    name = "FORWARD_EULER"
    number = 5
    label = "Forward Euler"
    description = "Moves positions by the old velocities. Explicit; every swing grows unless it is damped"
    order = 1
    is_implicit = False

    @staticmethod
    def step(
        dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        with np.errstate(over="ignore", invalid="ignore"):
            v = dynamics.damped_velocities(
                state, _predict_velocities(dynamics, state, inputs, h, dynamics.stiffness_per_block(controls)), h
            )
            after = dynamics.state_with_pins(state, state.positions + h * state.velocities, v.copy(), inputs, h)
            return _checked_end(dynamics, state, after)
