"""Sleep of woven cloth, as of other bodies (see sleep), though it has no history of the waveform law."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from ..objective.deformation_history import CONTACT_DIALS_KEY, has_contact_force
from ..objective.sleep import contact_dial_values, has_same_accelerations
from ..settle.controls import Controls
from ..system.inputs import Inputs
from ..system.state import KEY_SEPARATOR, State, history_of_block
from ..system.system import System
from ..system.term import History
from ..system.weave_term import YARN_POSITIONS, YARN_SLEEP

# Number of consecutive still steps before sleep, and the largest motion of nodes and yarns in them over the size.
_REQUIRED_STILL_STEPS, _STILL_TOLERANCE = 3, 1e-7
_ACCELERATION = "pull on yarns"


def is_weave_asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the next step would change nothing, as cloth and yarns are at rest and inputs are constant."""
    history = history_of_block(state.history, system.blocks[0].name)
    counter = history.get(YARN_SLEEP)
    if (
        counter is None
        or counter[0] < _REQUIRED_STILL_STEPS
        or state.reference.any()
        or not all(one.is_still for one in inputs)
    ):
        return False
    if not np.array_equal(counter[1:], _yarn_dial_values(controls)) or not has_same_accelerations(
        (history.get(_ACCELERATION),), (inputs[0].acceleration,)
    ):
        return False
    touching = any(one.contact is not None for one in inputs)
    if touching and not np.array_equal(history.get(CONTACT_DIALS_KEY, np.zeros(0)), contact_dial_values(inputs)):
        return False
    if any(region.rigid_modes for region in system.regions):
        # An unpinned region sleeps only on a contact; without one it keeps flying.
        return touching and has_contact_force(system, state)
    return True


def with_weave_sleep_counter(
    system: System, before: State, after: State, inputs: Inputs, controls: Controls
) -> History:
    """Return the memory after a step, with its counter of still steps updated."""
    name, size = system.blocks[0].name, system.blocks[0].size
    old_history, new_history = (history_of_block(one.history, name) for one in (before, after))
    displacement = np.abs(after.positions - before.positions).max(initial=0.0)
    sliding = (
        np.abs(new_history[YARN_POSITIONS] - old_history[YARN_POSITIONS]).max(initial=0.0)
        if YARN_POSITIONS in old_history
        else np.inf
    )
    dials, count = _yarn_dial_values(controls), 0.0
    if max(displacement, sliding) <= _STILL_TOLERANCE * size and all(one.is_still for one in inputs):
        past = old_history.get(YARN_SLEEP)
        same = past is not None and np.array_equal(past[1:], dials)
        same = same and has_same_accelerations((old_history.get(_ACCELERATION),), (inputs[0].acceleration,))
        count = min(float(past[0]) + 1.0, _REQUIRED_STILL_STEPS) if same and past is not None else 1.0
    memory = {**after.history, f"{name}{KEY_SEPARATOR}{YARN_SLEEP}": np.concatenate([[count], dials])}
    if inputs[0].acceleration is not None:
        memory[f"{name}{KEY_SEPARATOR}{_ACCELERATION}"] = inputs[0].acceleration
    else:
        memory.pop(f"{name}{KEY_SEPARATOR}{_ACCELERATION}", None)
    return memory


def _yarn_dial_values(controls: Controls) -> Array:
    """Return the values (k,) of all settings that change the stiffness or the grip of the yarns."""
    own = [value for one in controls.yarns for value in (one.friction, one.grip, one.drag, one.stretch, one.bend)]
    return np.array([*controls.stiffness_per_block(1), *own])
