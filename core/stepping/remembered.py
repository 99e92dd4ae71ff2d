"""What the waveform law keeps from step to step, in the state's memory (docs/physics.md section 2)."""

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
# Of what a system touches, see contact_step.
CONTACTS, IMPACTS, HELD, DIALS = "contacts", "impacts", "held", "contact dials"


def shared(system: System, what: str) -> str:
    """Under which a state remembers what is all of a system's: by its first block."""
    return f"{system.blocks[0].name}{OF}{what}"


def presses(system: System, state: State) -> bool:
    """Whether anything pressed on a system at the end of its last step."""
    numbers = state.memory.get(shared(system, CONTACTS))
    return numbers is not None and len(numbers) > 0


@dataclass(frozen=True)
class Remembered:
    """Of all nodes at the end of a step.

    velocity: (n, 3) m/s, of the deformation alone.
    force: (n, 3) N, the gradient of the elastic energy over each block's stiffness factor; None where it has to be
        found anew.
    rate: (n, 3) N/s, how fast it changed during the step; None likewise.
    still: (b, 2) for each block, how many steps it has hardly moved, and its stiffness factor in them.
    pulls: of each block, what pulled it in the step, see BlockInputs; none where all are as in a memory without them.
    """

    velocity: Array
    force: Array | None
    rate: Array | None
    still: Array
    pulls: tuple[Array | None, ...] = ()

    @staticmethod
    def of(system: System, state: State) -> Remembered | None:
        """What a state remembers; None where nothing is remembered of some block."""
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
        """A memory with this in the place of what it had of it."""
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
    """A memory after a block's elastic force changed by (n, 3) N where nothing moved, over its stiffness factor.

    How fast it changed during the step stays: what flows is no motion. Nothing sleeps on.
    """
    found, name = dict(memory), system.blocks[place].name
    force = found.get(f"{name}{OF}{_FORCE}")
    if force is not None:
        found[f"{name}{OF}{_FORCE}"] = force + change
    for block in system.blocks:
        still = found.get(f"{block.name}{OF}{_STILL}")
        if still is not None:
            # Beside the count stands the stiffness factor.
            found[f"{block.name}{OF}{_STILL}"] = still * np.array([0.0, 1.0])
    return found


def forgotten(memory: Memory) -> Memory:
    """A memory without what the waveform law keeps."""
    if not any(key.partition(OF)[2] in _NAMES for key in memory):
        return memory
    return {key: value for key, value in memory.items() if key.partition(OF)[2] not in _NAMES}
