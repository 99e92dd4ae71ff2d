"""The static shape: where a system comes to rest."""

from __future__ import annotations

import math

import numpy as np

from ..solvers.problem import Outcome
from ..system.state import PinMotion, State
from .law import SettleLaw
from .step import Controls, Stepper

# Each step leaves this part of the first mode; the end is when none moves a node by more than a part of the size.
_REMAINDER = 0.1
_STILL = 1e-9
_MOST = 60


def settled(stepper: Stepper, state: State, pins: PinMotion, tolerance: float, stiffness: float = 1.0) -> State:
    """The state at rest under gravity with the pins at pins.end, reached by strongly damped steps.

    stiffness: factor on all energies, see step.Controls.

    Where a step fails, as when the body collapses under its weight, the last good shape is returned.
    """
    system = stepper.system
    # Any step length does; with this one the first mode's inertia matches its stiffness.
    eigenvalues = [stiffness * region.eigenvalue for region in system.regions]
    h = 1.0 / math.sqrt(max(eigenvalues)) if eigenvalues else 1.0
    laws = tuple(SettleLaw(-math.log(_REMAINDER) / h, 0.0, eigenvalue) for eigenvalue in eigenvalues)
    controls = Controls(laws, 0.0, tolerance, stiffness)
    limit = _STILL * float(np.ptp(system.rest, axis=0).max())
    still = PinMotion(pins.end, pins.end)
    for _ in range(_MOST):
        after, report = stepper.step(state, still, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            break
        moved = float(np.abs(after.positions - state.positions).max())
        state = State.at_rest(after.positions, state.time)
        if moved <= limit:
            break
    return state
