"""Explicit Euler steps: cheap, and stable only for steps shorter than about 2 over the highest frequency."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...settle.controls import Controls
from ...settle.step_report import StepReport
from ...solvers.objective import Outcome
from ...system.inputs import Inputs
from ...system.state import State
from .integrator import DampedSystem, Integrator, StepResult

_DONE = StepReport(Outcome.CONVERGED, 1, 1, 1, 0.0)
_FAILED = StepReport(Outcome.NOT_FINITE, 1, 1, 1, np.inf)
# A displacement of so many times the body's size in one step counts as a runaway.
_RUNAWAY = 1e6


class ExplicitEuler(Integrator):
    """Base class of Euler steps: v+ = v + h a(x, v), and x+ = x + h times one of both velocities."""

    order = 1
    is_implicit = False
    uses_new_velocities: ClassVar[bool]

    @classmethod
    def step(cls, dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        system = dynamics.system
        with np.errstate(over="ignore", invalid="ignore"):
            force = dynamics.start_force(state, state.velocities, inputs, controls)
            v = dynamics.damped_velocities(state, state.velocities + h * force / system.mass[:, None], h)
            moved = state.positions + h * (v if cls.uses_new_velocities else state.velocities)
            after = dynamics.state_with_pins(state, moved, v.copy(), inputs, h)
            limit = _RUNAWAY * max(block.size for block in system.blocks)
            if not after.is_finite or float(np.abs(after.positions - state.positions).max()) > limit:
                return state, _FAILED
            return after, _DONE


class SymplecticEuler(ExplicitEuler):
    """Symplectic Euler step: v+ = v + h a(x, v), x+ = x + h v+."""

    name = "SYMPLECTIC_EULER"
    number = 4
    label = "Symplectic Euler"
    description = "Moves positions by the new velocities. Explicit; stable for short substeps only"
    uses_new_velocities = True


class ForwardEuler(ExplicitEuler):
    """Forward Euler step: x+ = x + h v, v+ = v + h a(x, v). It amplifies every oscillation."""

    name = "FORWARD_EULER"
    number = 5
    label = "Forward Euler"
    description = "Moves positions by the old velocities. Explicit; every swing grows unless it is damped"
    uses_new_velocities = False
