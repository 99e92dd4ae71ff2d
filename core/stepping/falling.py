"""Down to near where something hangs, from however it is held: what swings past it is stopped where it is fastest.

Otter, Cassell, Hobbs, *Dynamic Relaxation* (1966), with Cundall's kinetic damping: motion finds its way down an arc in
a few steps where a search for the lowest place, which may not stretch on its way, creeps.
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

# Of the time in which a pendulum swings through a radian.
_STEP = 0.2
# It hangs where it is never faster than this part of what a fall through its size makes.
_SLOW = 2e-3
_MOST = 120


def fallen(stepper: Stepper, state: State, inputs: Inputs, controls: Controls) -> State:
    """The state near to rest with the pins where they are. controls: of which the laws are not asked.

    Where nothing pulls it stays as it is; where a step fails, as far as it came.
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
    """A state at rest, of which nothing is remembered that moves."""
    kept = {key: value for key, value in forgotten(state.memory).items() if key.partition(OF)[2] not in (SPEEDS, STILL)}
    return State.at_rest(state.positions, state.time, kept)
