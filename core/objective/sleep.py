"""Sleep of systems at rest: nothing is solved until something moves (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.arrays import Array
from ..settle.controls import Controls
from ..settle.step_report import StepReport
from ..solvers.objective import Outcome
from ..system.inputs import Inputs
from ..system.state import SleepCounter, State
from ..system.system import System

# Number of consecutive still steps before sleep. A single step may move little at the turning point of a swing.
_REQUIRED_STILL_STEPS = 3
# A step is still if no node moves by more than this fraction of the size, times the squared decay exponent of the step.
_STILL_TOLERANCE = 1e-8
# The same for woven cloth, whose law has no decay. Neither nodes nor yarns may move by more than this fraction.
_STILL_YARN_TOLERANCE = 1e-7
# Relative change of the external acceleration that is ignored, such as that of air drag on a nearly still body.
_ACCELERATION_TOLERANCE = 1e-7


def is_asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the next step would change nothing, because the system is at rest and its inputs are constant."""
    if not all(one.is_still for one in inputs) or state.reference.any():
        return False
    if any(one is None or one.still_steps < _REQUIRED_STILL_STEPS for one in _counters(system, state)):
        return False
    has_contact = system.contact is not None and any(one.contact is not None for one in inputs)
    if has_contact:
        last_contacts = system.last_contacts(state)
        if last_contacts is None or not np.array_equal(last_contacts.dial_values, contact_dial_values(inputs)):
            return False
    # An unpinned region sleeps only on a contact; without one it keeps flying.
    if any(region.rigid_modes for region in system.regions) and not (has_contact and has_contact_force(system, state)):
        return False
    return _can_sleep(controls) and _has_same_inputs(system, state, inputs, controls)


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
            found += [contact.contact_distance, contact.friction, contact.backward_friction, float(contact.common_exit)]
            found += [value for other in contact.colliders for value in (other.friction_scale, other.thickness)]
    return np.array(found)


def sleep_step(state: State, h: float) -> tuple[State, StepReport]:
    """Return the state of a sleeping system after a step of h seconds, and the report."""
    none = np.zeros_like(state.positions)
    return State(state.time + h, state.positions, none, none, state.history), StepReport(
        Outcome.CONVERGED, 0, 0, 1, 0.0
    )


def count_still_step(
    system: System, before: State, after: State, inputs: Inputs, h: float, controls: Controls, is_regular: bool
) -> State:
    """Return the state after a step of h seconds with its sleep counters updated.

    is_regular: whether the step counts at all. One that was bisected or truncated is not at rest, however still it is.
    """
    is_still = (
        is_regular
        and _can_sleep(controls)
        and all(one.is_still for one in inputs)
        and _is_still_motion(system, before, after, h, controls)
    )
    is_same = is_still and _has_same_inputs(system, before, inputs, controls)
    history = after.history
    for index, (block, one) in enumerate(zip(system.blocks, inputs, strict=True)):
        own, past, counter = history.block(block.name), before.history.block(block.name).sleep, None
        if is_still:
            count = min(past.still_steps + 1.0, _REQUIRED_STILL_STEPS) if is_same and past is not None else 1.0
            counter = SleepCounter(count, _dial_values(controls, system, index), one.acceleration)
        if counter is not own.sleep:
            history = history.with_block(block.name, replace(own, sleep=counter))
    return after if history is after.history else replace(after, history=history)


def is_nearly_still(system: System, state: State) -> bool:
    """Return whether the last step of any block was still."""
    return any(one is not None and one.still_steps > 0.0 for one in _counters(system, state))


def _counters(system: System, state: State) -> list[SleepCounter | None]:
    return [state.history.block(block.name).sleep for block in system.blocks]


def _can_sleep(controls: Controls) -> bool:
    """Return whether the laws define rest: the waveform law, and the dials of yarns, which static equilibrium lacks."""
    return bool(controls.yarns) or all(law.is_waveform for law in controls.laws)


def _is_still_motion(system: System, before: State, after: State, h: float, controls: Controls) -> bool:
    """Return whether the displacements in a step are below the tolerance for sleep."""
    displacement = np.abs(after.positions - before.positions).max(initial=0.0)
    for block in system.blocks:
        old, new = before.history.block(block.name).yarns, after.history.block(block.name).yarns
        if new is not None:
            sliding = np.inf if old is None else np.abs(new.positions - old.positions).max(initial=0.0)
            displacement = max(displacement, sliding)
    size = min((block.size for block in system.blocks if block.groups), default=0.0)
    if controls.yarns:
        return bool(displacement <= _STILL_YARN_TOLERANCE * size)
    decayed = h * min((float(np.min(law.coefficients(h).decay_rate)) for law in controls.laws), default=0.0)
    return bool(controls.laws) and bool(displacement <= _STILL_TOLERANCE * decayed * min(decayed, 1.0) * size)


def _dial_values(controls: Controls, system: System, index: int) -> Array:
    """Return the values (k,) of all settings that change the stiffness of a block or the grip of its yarns."""
    stiffness = float(controls.stiffness_per_block(len(system.blocks))[index])
    yarns = controls.yarns[index : index + 1]
    return np.array(
        [stiffness, *(v for one in yarns for v in (one.friction, one.grip, one.drag, one.stretch, one.bend))]
    )


def _has_same_inputs(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether dials and external accelerations are those of the still steps before."""
    return all(
        past is not None
        and np.array_equal(past.dial_values, _dial_values(controls, system, index))
        and _is_same_acceleration(past.acceleration, one.acceleration)
        for index, (past, one) in enumerate(zip(_counters(system, state), inputs, strict=True))
    )


def _is_same_acceleration(before: Array | None, after: Array | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.shape == after.shape and bool(
        np.abs(after - before).max() <= _ACCELERATION_TOLERANCE * np.abs(before).max()
    )
