"""Dynamic relaxation towards the hanging shape, with kinetic damping.

Otter, Cassell, Hobbs, *Dynamic Relaxation* (1966), with Cundall's kinetic damping: the motion stops at each peak of the
kinetic energy. It follows an arc in a few steps, where a descent of the energy along an inextensible body creeps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..objective.deformation_history import without_history
from ..settle.controls import Controls
from ..settle.law import BackwardEulerLaw
from ..solvers.objective import Outcome
from ..system.inputs import Inputs
from ..system.state import KEY_SEPARATOR, State
from ..system.weave_term import YARN_SLEEP, YARN_SPEEDS
from .implicit import Stepper

# Time step, as a fraction of the time in which a pendulum of the body's size swings through one radian.
_STEP_FRACTION = 0.2
# The state is at rest if its peak speed stays below this fraction of the speed after a fall through its size.
_REST_SPEED_FRACTION = 2e-3
_MAX_STEPS = 120


def relax_dynamically(stepper: Stepper, state: State, inputs: Inputs, controls: Controls) -> State:
    """Return a state near rest under the pins' current positions.

    controls: the laws are replaced by backward Euler.
    Without external acceleration the state is returned unchanged. If a step fails, the last state is returned at rest.
    """
    system = stepper.system
    max_acceleration = float(
        np.linalg.norm(system.acceleration(inputs, np.arange(len(system.rest))), axis=-1).max(initial=0.0)
    )
    size = max(block.size for block in system.blocks)
    if max_acceleration == 0.0:
        return state
    h, mass = _STEP_FRACTION * math.sqrt(size / max_acceleration), system.mass[:, None]
    controls = replace(controls, laws=tuple(BackwardEulerLaw() for _ in system.regions))
    energy_limit, last_energy = _REST_SPEED_FRACTION**2 * max_acceleration * size * float(mass.sum()), 0.0
    for _ in range(_MAX_STEPS):
        next_state, report = stepper.step(state, inputs, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            break
        energy = 0.5 * float((mass * next_state.velocities**2).sum())
        if energy < last_energy:
            state = state_at_rest(state)
            if last_energy < energy_limit:
                break
            last_energy = 0.0
        else:
            state, last_energy = next_state, energy
    return state_at_rest(state)


def state_at_rest(state: State) -> State:
    """Return the state at rest, without the history of its motion."""
    history = {
        key: value
        for key, value in without_history(state.history).items()
        if key.partition(KEY_SEPARATOR)[2] not in (YARN_SPEEDS, YARN_SLEEP)
    }
    return State.at_rest(state.positions, state.time, history)
