"""Deformation history of the waveform law, stored in the state's memory (docs/physics.md section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..system.state import OF, State
from ..system.system import System
from ..system.term import Memory

_VELOCITY, _FORCE, _RATE, _STILL = "deformation velocity", "elastic force", "elastic force rate", "still"
_PULL = "pull from outside"
_STACKED = (_VELOCITY, _FORCE, _RATE, _STILL)
_NAMES = (*_STACKED, _PULL)
# Keys of the contact history, see contact_step.
CONTACTS, IMPACTS, HELD, DIALS = "contacts", "impacts", "held", "contact dials"


def shared(system: System, what: str) -> str:
    """Return the key under which a state stores history of the whole system: that of its first block."""
    return f"{system.blocks[0].name}{OF}{what}"


def presses(system: System, state: State) -> bool:
    """Return whether any contact force acted on a system at the end of its last step."""
    numbers = state.memory.get(shared(system, CONTACTS))
    return numbers is not None and len(numbers) > 0


@dataclass(frozen=True)
class Remembered:
    """Deformation history of all nodes at the end of a step.

    velocity: (n, 3) m/s, of the deformation alone.
    elastic_gradient: (n, 3) N, gradient of the elastic energy over each block's stiffness factor; None if it has to be
        recomputed.
    force_rate: (n, 3) N/s, its rate of change during the step; None likewise.
    sleep_counters: (b, 2), for each block the number of still steps, and its stiffness factor in them.
    accelerations: external acceleration of each block in the step, see BlockInputs; empty if not recorded.
    """

    velocity: Array
    force: Array | None
    rate: Array | None
    still: Array
    pulls: tuple[Array | None, ...] = ()

    @staticmethod
    def of(system: System, state: State) -> Remembered | None:
        """Return the history of a state; None if any block has none."""
        found: dict[str, list[Array]] = {name: [] for name in _STACKED}
        for block in system.blocks:
            for name in _STACKED:
                value = state.memory.get(f"{block.name}{OF}{name}")
                if value is not None:
                    found[name].append(value)
        whole = {name: np.concatenate(parts) for name, parts in found.items() if len(parts) == len(system.blocks)}
        if _VELOCITY not in whole or _STILL not in whole:
            return None
        pulls = tuple(state.memory.get(f"{block.name}{OF}{_PULL}") for block in system.blocks)
        still = whole[_STILL].reshape(-1, 2)
        return Remembered(whole[_VELOCITY], whole.get(_FORCE), whole.get(_RATE), still, pulls)

    def kept(self, system: System, memory: Memory) -> Memory:
        """Return the memory with its history replaced by this one."""
        found = dict(forgotten(memory))
        for place, (block, part) in enumerate(zip(system.blocks, system.slices, strict=True)):
            own: Mapping[str, Array | None] = {
                _VELOCITY: self.velocity[part],
                _FORCE: None if self.force is None else self.force[part],
                _RATE: None if self.rate is None else self.rate[part],
                _STILL: self.still[place],
                _PULL: self.pulls[place] if self.pulls else None,
            }
            found |= {f"{block.name}{OF}{name}": value for name, value in own.items() if value is not None}
        return found


def pushed_anew(system: System, memory: Memory, place: int, change: Array) -> Memory:
    """Return the memory after a block's elastic force changed by (n, 3) N without motion, over its stiffness factor.

    The rate of the force stays: plastic flow is no motion. Sleeping blocks wake up.
    """
    found, name = dict(memory), system.blocks[place].name
    force = found.get(f"{name}{OF}{_FORCE}")
    if force is not None:
        found[f"{name}{OF}{_FORCE}"] = force + change
    for block in system.blocks:
        still = found.get(f"{block.name}{OF}{_STILL}")
        if still is not None:
            # The second column is the stiffness factor.
            found[f"{block.name}{OF}{_STILL}"] = still * np.array([0.0, 1.0])
    return found


def forgotten(memory: Memory) -> Memory:
    """Return the memory without the history of the waveform law."""
    if not any(key.partition(OF)[2] in _NAMES for key in memory):
        return memory
    return {key: value for key, value in memory.items() if key.partition(OF)[2] not in _NAMES}
