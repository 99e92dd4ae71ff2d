"""Deformation history of the waveform law, stored in the state's memory (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from ..system.state import KEY_SEPARATOR, State
from ..system.system import System
from ..system.term import History

_VELOCITY, _FORCE, _RATE, _STILL = "deformation velocity", "elastic force", "elastic force rate", "still"
_ACCELERATION = "pull from outside"
_NODAL_NAMES = (_VELOCITY, _FORCE, _RATE, _STILL)
_NAMES = (*_NODAL_NAMES, _ACCELERATION)
# Keys of the contact history, see contact_solve.
CONTACTS_KEY, IMPACTS_KEY, SUPPORT_MODES_KEY, CONTACT_DIALS_KEY = "contacts", "impacts", "held", "contact dials"


def system_key(system: System, name: str) -> str:
    """Return the key under which a state stores history of the whole system: that of its first block."""
    return f"{system.blocks[0].name}{KEY_SEPARATOR}{name}"


def has_contact_force(system: System, state: State) -> bool:
    """Return whether any contact force acted on a system at the end of its last step."""
    contact_history = state.history.get(system_key(system, CONTACTS_KEY))
    return contact_history is not None and len(contact_history) > 0


@dataclass(frozen=True)
class DeformationHistory:
    """Deformation history of all nodes at the end of a step.

    velocity: (n, 3) m/s, of the deformation alone.
    elastic_gradient: (n, 3) N, gradient of the elastic energy over each block's stiffness factor; None if it has to be
        recomputed.
    force_rate: (n, 3) N/s, its rate of change during the step; None likewise.
    sleep_counters: (b, 2), for each block the number of still steps, and its stiffness factor in them.
    accelerations: external acceleration of each block in the step, see BlockInputs; empty if not recorded.
    """

    velocity: Array
    elastic_gradient: Array | None
    force_rate: Array | None
    sleep_counters: Array
    accelerations: tuple[Array | None, ...] = ()

    @staticmethod
    def from_state(system: System, state: State) -> DeformationHistory | None:
        """Return the history of a state; None if any block has none."""
        parts_by_name: dict[str, list[Array]] = {name: [] for name in _NODAL_NAMES}
        for block in system.blocks:
            for name in _NODAL_NAMES:
                value = state.history.get(f"{block.name}{KEY_SEPARATOR}{name}")
                if value is not None:
                    parts_by_name[name].append(value)
        arrays = {
            name: np.concatenate(parts) for name, parts in parts_by_name.items() if len(parts) == len(system.blocks)
        }
        if _VELOCITY not in arrays or _STILL not in arrays:
            return None
        pulls = tuple(state.history.get(f"{block.name}{KEY_SEPARATOR}{_ACCELERATION}") for block in system.blocks)
        still = arrays[_STILL].reshape(-1, 2)
        return DeformationHistory(arrays[_VELOCITY], arrays.get(_FORCE), arrays.get(_RATE), still, pulls)

    def write_into(self, system: System, memory: History) -> History:
        """Return the memory with its history replaced by this one."""
        entries = dict(without_history(memory))
        for place, (block, part) in enumerate(zip(system.blocks, system.slices, strict=True)):
            own: Mapping[str, Array | None] = {
                _VELOCITY: self.velocity[part],
                _FORCE: None if self.elastic_gradient is None else self.elastic_gradient[part],
                _RATE: None if self.force_rate is None else self.force_rate[part],
                _STILL: self.sleep_counters[place],
                _ACCELERATION: self.accelerations[place] if self.accelerations else None,
            }
            entries |= {f"{block.name}{KEY_SEPARATOR}{name}": value for name, value in own.items() if value is not None}
        return entries


def with_force_change(system: System, memory: History, place: int, change: Array) -> History:
    """Return the memory after a block's elastic force changed by (n, 3) N without motion, over its stiffness factor.

    The rate of the force stays: plastic flow is no motion. Sleeping blocks wake up.
    """
    found, name = dict(memory), system.blocks[place].name
    force = found.get(f"{name}{KEY_SEPARATOR}{_FORCE}")
    if force is not None:
        found[f"{name}{KEY_SEPARATOR}{_FORCE}"] = force + change
    for block in system.blocks:
        still = found.get(f"{block.name}{KEY_SEPARATOR}{_STILL}")
        if still is not None:
            # The second column is the stiffness factor.
            found[f"{block.name}{KEY_SEPARATOR}{_STILL}"] = still * np.array([0.0, 1.0])
    return found


def without_history(memory: History) -> History:
    """Return the memory without the history of the waveform law."""
    if not any(key.partition(KEY_SEPARATOR)[2] in _NAMES for key in memory):
        return memory
    return {key: value for key, value in memory.items() if key.partition(KEY_SEPARATOR)[2] not in _NAMES}
