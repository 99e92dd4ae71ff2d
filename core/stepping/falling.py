"""Dynamic relaxation towards the hanging shape, with kinetic damping.

Otter, Cassell, Hobbs, *Dynamic Relaxation* (1966), with Cundall's kinetic damping: the motion stops at each peak of the
kinetic energy. It follows an arc in a few steps, where a descent of the energy along an inextensible body creeps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..solvers.problem import Outcome
from ..system.inputs import Inputs
from ..system.state import OF, State
from ..system.weave import SPEEDS, STILL
from .controls import Controls
from .law import BackwardEulerLaw
from .remembered import forgotten
from .step import Stepper

# Time step, as a fraction of the time in which a pendulum of the body's size swings through one radian.
_STEP = 0.2
# The state is at rest if its peak speed stays below this fraction of the speed after a fall through its size.
_SLOW = 2e-3
_MOST = 120


def fallen(stepper: Stepper, state: State, inputs: Inputs, controls: Controls) -> State:
    """Return a state near rest under the pins' current positions.

    controls: the laws are replaced by backward Euler.
    Without external acceleration the state is returned unchanged. If a step fails, the last state is returned at rest.
    """
    system = stepper.system
    pull = float(np.linalg.norm(system.pull(inputs, np.arange(len(system.rest))), axis=-1).max(initial=0.0))
    size = max(block.size for block in system.blocks)
    if pull == 0.0:
        return state
    h, mass = _STEP * math.sqrt(size / pull), system.mass[:, None]
    controls = replace(controls, laws=tuple(BackwardEulerLaw() for _ in system.regions))
    limit, last = _SLOW**2 * pull * size * float(mass.sum()), 0.0
    for _ in range(_MOST):
        after, report = stepper.step(state, inputs, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            break
        energy = 0.5 * float((mass * after.velocities**2).sum())
        if energy < last:
            state = stopped(state)
            if last < limit:
                break
            last = 0.0
        else:
            state, last = after, energy
    return stopped(state)


def stopped(state: State) -> State:
    """Return the state at rest, without the history of its motion."""
    kept = {key: value for key, value in forgotten(state.memory).items() if key.partition(OF)[2] not in (SPEEDS, STILL)}
    return State.at_rest(state.positions, state.time, kept)
