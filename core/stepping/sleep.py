"""Sleep of systems at rest: nothing is solved until something moves (docs/physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .controls import Controls
from .law import Coefficients
from .remembered import DIALS, Remembered, presses, shared

# Number of consecutive still steps before sleep: a single step may be short at a turning point.
_STEPS = 3
# A step is still if no node moves by more than this fraction of the size, times the squared decay in the step.
_MOVED = 1e-8
# Relative change of the external acceleration that is ignored, as from air drag on a nearly still body.
_PULLED = 1e-7


def asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the next step would change nothing, because the system is at rest and its inputs are constant."""
    if not all(one.is_still for one in inputs) or state.reference.any():
        return False
    touching = system.contact is not None and any(one.touching is not None for one in inputs)
    if touching:
        dials = state.memory.get(shared(system, DIALS))
        if dials is None or not np.array_equal(dials, touch_dials(inputs)):
            return False
    # An unpinned region sleeps only on a contact; without one it keeps flying.
    if any(region.rigid_modes for region in system.regions) and not (touching and presses(system, state)):
        return False
    if not all(law.waveform for law in controls.laws):
        return False
    past = Remembered.of(system, state)
    factors = controls.factors(len(system.blocks))
    if past is None or not alike(past.pulls, tuple(one.pull for one in inputs)):
        return False
    return bool((past.still[:, 0] >= _STEPS).all() and (past.still[:, 1] == factors).all())


def touch_dials(inputs: Inputs) -> Array:
    """Return the contact settings (k,) of all blocks and of the obstacles they may touch."""
    found: list[float] = []
    for one in inputs:
        if one.touching is not None:
            touching = one.touching
            found += [touching.distance, touching.friction, touching.backward, float(touching.consistent)]
            found += [value for other in touching.obstacles for value in (other.roughness, other.thickness)]
    return np.array(found)


def resting(state: State, h: float) -> State:
    """Return the state after a step of h seconds that was skipped by sleep."""
    none = np.zeros_like(state.positions)
    return State(state.time + h, state.positions, none, none, state.memory)


def stillness(system: System, inputs: Inputs, coefficients: Sequence[Coefficients], h: float, moved: Array) -> bool:
    """Return whether a step with displacements (n, 3) m was still."""
    if not all(one.is_still for one in inputs) or not coefficients:
        return False
    decayed = h * min(float(np.min(one.decay)) for one in coefficients)
    size = min((block.size for block in system.blocks if block.groups), default=0.0)
    return bool(np.abs(moved).max(initial=0.0) <= _MOVED * decayed * min(decayed, 1.0) * size)


def still_steps(past: Remembered | None, factors: Array, still: bool, pulls: tuple[Array | None, ...] = ()) -> Array:
    """Return the sleep counters (b, 2) after a step, see DeformationHistory.

    factors: (b,) stiffness factor of each block.  was_still_step: whether the step was still.
    accelerations: see DeformationHistory.
    """
    counts = np.zeros((len(factors), 2))
    counts[:, 1] = factors
    if still:
        same = past is not None and bool((past.still[:, 1] == factors).all()) and alike(past.pulls, pulls)
        counts[:, 0] = np.minimum(past.still[:, 0] + 1.0, _STEPS) if same and past is not None else 1.0
    return counts


def alike(past: tuple[Array | None, ...], now: tuple[Array | None, ...]) -> bool:
    """Return whether the external accelerations of all blocks are the same as before."""
    empty = (None,) * max(len(past), len(now))
    for before, after in zip(past or empty, now or empty, strict=True):
        if before is None or after is None:
            if before is not after:
                return False
        elif before.shape != after.shape or np.abs(after - before).max() > _PULLED * np.abs(before).max():
            return False
    return True
