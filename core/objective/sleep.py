"""Sleep of systems at rest: nothing is solved until something moves (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Array
from ..settle.controls import Controls
from ..settle.law import Coefficients
from ..system.history import DeformationHistory
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System

# Number of consecutive still steps before sleep. A single step may move little at the turning point of a swing.
_REQUIRED_STILL_STEPS = 3
# A step is still if no node moves by more than this fraction of the size, times the squared decay exponent of the step.
_STILL_TOLERANCE = 1e-8
# Relative change of the external acceleration that is ignored, such as that of air drag on a nearly still body.
_ACCELERATION_TOLERANCE = 1e-7


def is_asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the next step would change nothing, because the system is at rest and its inputs are constant."""
    if not all(one.is_still for one in inputs) or state.reference.any():
        return False
    has_contact = system.contact is not None and any(one.contact is not None for one in inputs)
    if has_contact:
        last_contacts = system.last_contacts(state)
        if last_contacts is None or not np.array_equal(last_contacts.dial_values, contact_dial_values(inputs)):
            return False
    # An unpinned region sleeps only on a contact; without one it keeps flying.
    if any(region.rigid_modes for region in system.regions) and not (has_contact and has_contact_force(system, state)):
        return False
    if not all(law.is_waveform for law in controls.laws):
        return False
    history = system.deformation_history(state)
    factors = controls.stiffness_per_block(len(system.blocks))
    if history is None or not has_same_accelerations(history.accelerations, tuple(one.acceleration for one in inputs)):
        return False
    return bool(
        (history.sleep_counters[:, 0] >= _REQUIRED_STILL_STEPS).all()
        and (history.sleep_counters[:, 1] == factors).all()
    )


def has_contact_force(system: System, state: State) -> bool:
    """Return whether any contact force acted on a system at the end of its last step."""
    last_contacts = system.last_contacts(state)
    return last_contacts is not None and len(last_contacts.contacts.keys) > 0


def contact_dial_values(inputs: Inputs) -> Array:
    """Return the contact settings (k,) of all blocks and of the colliders that they may touch."""
    found: list[float] = []
    for one in inputs:
        if one.contact is not None:
            contact = one.contact
            found += [
                contact.contact_distance,
                contact.friction,
                contact.backward_friction,
                float(contact.common_exit),
            ]
            found += [value for other in contact.colliders for value in (other.friction_scale, other.thickness)]
    return np.array(found)


def sleep_step(state: State, h: float) -> State:
    """Return the state of a sleeping system after a step of h seconds."""
    none = np.zeros_like(state.positions)
    return State(state.time + h, state.positions, none, none, state.history)


def is_still_step(
    system: System, inputs: Inputs, coefficients: Sequence[Coefficients], h: float, displacements: Array
) -> bool:
    """Return whether a step with displacements (n, 3) m counts as still, see _STILL_TOLERANCE."""
    if not all(one.is_still for one in inputs) or not coefficients:
        return False
    decayed = h * min(float(np.min(one.decay_rate)) for one in coefficients)
    size = min((block.size for block in system.blocks if block.groups), default=0.0)
    return bool(np.abs(displacements).max(initial=0.0) <= _STILL_TOLERANCE * decayed * min(decayed, 1.0) * size)


def update_sleep_counters(
    history: DeformationHistory | None,
    factors: Array,
    was_still_step: bool,
    accelerations: tuple[Array | None, ...] = (),
) -> Array:
    """Return the sleep counters (b, 2) after a step, see DeformationHistory.

    factors: (b,) stiffness factor of each block.  was_still_step: whether the step was still.
    accelerations: see DeformationHistory.
    """
    counts = np.zeros((len(factors), 2))
    counts[:, 1] = factors
    if was_still_step:
        inputs_unchanged = (
            history is not None
            and bool((history.sleep_counters[:, 1] == factors).all())
            and has_same_accelerations(history.accelerations, accelerations)
        )
        counts[:, 0] = (
            np.minimum(history.sleep_counters[:, 0] + 1.0, _REQUIRED_STILL_STEPS)
            if inputs_unchanged and history is not None
            else 1.0
        )
    return counts


def has_same_accelerations(past: tuple[Array | None, ...], now: tuple[Array | None, ...]) -> bool:
    """Return whether the external accelerations of all blocks are the same as before."""
    empty = (None,) * max(len(past), len(now))
    for before, after in zip(past or empty, now or empty, strict=True):
        if before is None or after is None:
            if before is not after:
                return False
        elif (
            before.shape != after.shape or np.abs(after - before).max() > _ACCELERATION_TOLERANCE * np.abs(before).max()
        ):
            return False
    return True
