"""A system at rest sleeps: nothing is solved until something moves (docs/physics.md section 2)."""

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

# So many steps one after the other it must hardly have moved: at a turning point one alone may be short.
_STEPS = 3
# A step is hardly a motion below this part of the size, times what the law lets decay in it, squared.
_MOVED = 1e-8
# What pulls it may change by this part before it is another pull: as by the air's drag on what hardly moves.
_PULLED = 1e-7


def asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Whether the next step would change nothing: all is still, and has been."""
    if not all(one.is_still for one in inputs) or state.reference.any():
        return False
    touching = system.contact is not None and any(one.touching is not None for one in inputs)
    if touching:
        dials = state.memory.get(shared(system, DIALS))
        if dials is None or not np.array_equal(dials, touch_dials(inputs)):
            return False
    # What nothing holds may lie on something; what flies without any pull goes on.
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
    """(k,) what is dialled of contact, of all blocks and of what they may touch."""
    found: list[float] = []
    for one in inputs:
        if one.touching is not None:
            touching = one.touching
            found += [touching.distance, touching.friction, touching.backward, float(touching.consistent)]
            found += [value for other in touching.obstacles for value in (other.roughness, other.thickness)]
    return np.array(found)


def resting(state: State, h: float) -> State:
    """The state after a step that was slept through."""
    none = np.zeros_like(state.positions)
    return State(state.time + h, state.positions, none, none, state.memory)


def stillness(system: System, inputs: Inputs, coefficients: Sequence[Coefficients], h: float, moved: Array) -> bool:
    """Whether a step that moved the nodes by so much (n, 3) m was still."""
    if not all(one.is_still for one in inputs) or not coefficients:
        return False
    decayed = h * min(float(np.min(one.decay)) for one in coefficients)
    size = min((block.size for block in system.blocks if block.groups), default=0.0)
    return bool(np.abs(moved).max(initial=0.0) <= _MOVED * decayed * min(decayed, 1.0) * size)


def still_steps(past: Remembered | None, factors: Array, still: bool, pulls: tuple[Array | None, ...] = ()) -> Array:
    """(b, 2), see Remembered.still, after a step that was still or not.

    factors: (b,) on each block's stiffness.  pulls: see Remembered.
    """
    counts = np.zeros((len(factors), 2))
    counts[:, 1] = factors
    if still:
        same = past is not None and bool((past.still[:, 1] == factors).all()) and alike(past.pulls, pulls)
        counts[:, 0] = np.minimum(past.still[:, 0] + 1.0, _STEPS) if same and past is not None else 1.0
    return counts


def alike(past: tuple[Array | None, ...], now: tuple[Array | None, ...]) -> bool:
    """Whether what pulls each block is what pulled it."""
    empty = (None,) * max(len(past), len(now))
    for before, after in zip(past or empty, now or empty, strict=True):
        if before is None or after is None:
            if before is not after:
                return False
        elif before.shape != after.shape or np.abs(after - before).max() > _PULLED * np.abs(before).max():
            return False
    return True
