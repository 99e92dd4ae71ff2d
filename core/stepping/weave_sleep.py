"""Sleep of woven cloth, as of other bodies (see sleep), though it has no history of the waveform law."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..system.inputs import Inputs
from ..system.state import OF, State, remembered_by
from ..system.system import System
from ..system.term import Memory
from ..system.weave import PLACES, STILL
from .controls import Controls
from .remembered import DIALS, presses
from .sleep import alike, touch_dials

# Number of consecutive still steps before sleep, and the largest motion of nodes and yarns in them over the size.
_STEPS, _MOVED = 3, 1e-7
_PULL = "pull on yarns"


def asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the next step would change nothing, as cloth and yarns are at rest and inputs are constant."""
    known = remembered_by(state.memory, system.blocks[0].name)
    still = known.get(STILL)
    if still is None or still[0] < _STEPS or state.reference.any() or not all(one.is_still for one in inputs):
        return False
    if not np.array_equal(still[1:], _dials(controls)) or not alike((known.get(_PULL),), (inputs[0].pull,)):
        return False
    touching = any(one.touching is not None for one in inputs)
    if touching and not np.array_equal(known.get(DIALS, np.zeros(0)), touch_dials(inputs)):
        return False
    if any(region.rigid_modes for region in system.regions):
        # An unpinned region sleeps only on a contact; without one it keeps flying.
        return touching and presses(system, state)
    return True


def counted(system: System, before: State, after: State, inputs: Inputs, controls: Controls) -> Memory:
    """Return the memory after a step, with its counter of still steps updated."""
    name, size = system.blocks[0].name, system.blocks[0].size
    known, now = (remembered_by(one.memory, name) for one in (before, after))
    moved = np.abs(after.positions - before.positions).max(initial=0.0)
    slid = np.abs(now[PLACES] - known[PLACES]).max(initial=0.0) if PLACES in known else np.inf
    dials, count = _dials(controls), 0.0
    if max(moved, slid) <= _MOVED * size and all(one.is_still for one in inputs):
        past = known.get(STILL)
        same = past is not None and np.array_equal(past[1:], dials)
        same = same and alike((known.get(_PULL),), (inputs[0].pull,))
        count = min(float(past[0]) + 1.0, _STEPS) if same and past is not None else 1.0
    kept = {**after.memory, f"{name}{OF}{STILL}": np.concatenate([[count], dials])}
    if inputs[0].pull is not None:
        kept[f"{name}{OF}{_PULL}"] = inputs[0].pull
    else:
        kept.pop(f"{name}{OF}{_PULL}", None)
    return kept


def _dials(controls: Controls) -> Array:
    """Return the values (k,) of all settings that change the stiffness or the grip of the yarns."""
    own = [value for one in controls.yarns for value in (one.friction, one.grip, one.drag, one.stretch, one.bend)]
    return np.array([*controls.factors(1), *own])
