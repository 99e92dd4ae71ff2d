"""What flows at the end of a step (docs/physics.md section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array
from ..energies.plastic import Yielding
from ..system.block import Block
from ..system.plastic import Plastic
from ..system.state import OF, State, remembered_by
from ..system.system import System
from ..system.term import Memory
from .remembered import pushed_anew

# A flow that changes no component by more than this is at rest.
_LEAST = 1e-10
# Mean strain, of the elements of a term, that may have flowed until the stiffness at rest is found anew.
_STALE = 0.2


@dataclass(frozen=True)
class Flowing:
    """What a block does at the end of a step.

    yielding: how it flows; None where it does not.  reset: whether all that flowed is taken back instead.
    """

    yielding: Yielding | None = None
    reset: bool = False


def begun(block: Block) -> Memory:
    """What the memory has of a block where a shot begins, if any of it flows."""
    found: dict[str, Array] = {}
    for term in plastic(block):
        found |= {f"{block.name}{OF}{name}": value for name, value in term.begin().items()}
    return found


def plastic(block: Block) -> list[Plastic]:
    """The terms of a block whose elements may flow."""
    return [term for term in block.terms if isinstance(term, Plastic)]


def flows(block: Block, memory: Memory) -> bool:
    """Whether a memory knows of a block that flows, or has flowed."""
    return any(f"{block.name}{OF}{term.name}" in memory for term in plastic(block))


def flowed(system: System, state: State, flowing: Sequence[Flowing]) -> State:
    """The state after what flows at the end of a step. flowing: of the first blocks; others do not flow.

    Nothing moves by it; the elastic force, which the waveform law remembers, is that of what has flowed.
    """
    memory: Memory = state.memory
    for place, one in enumerate(flowing):
        if one.yielding is None and not one.reset:
            continue
        block, positions = system.blocks[place], state.positions[system.slices[place]]
        for term in plastic(block):
            own = remembered_by(memory, block.name)
            before = term.now(own)
            after = term.flow.none() if one.reset else _after(term, before, positions, one.yielding)
            if np.abs(after - before).max(initial=0.0) <= _LEAST:
                continue
            change = -term.energy_of(own).value_gradient(positions)[1]
            memory = {**memory, f"{block.name}{OF}{term.name}": after}
            change = change + term.after(after).value_gradient(positions)[1]
            memory = pushed_anew(system, memory, place, change)
    return state if memory is state.memory else replace(state, memory=memory)


def _after(term: Plastic, before: Array, positions: Array, yielding: Yielding | None) -> Array:
    return before if yielding is None else term.flow.flowed(before, positions, yielding)


def settled(system: System, state: State) -> State:
    """The state at a frame's end, with the flow at which the stiffness is to be found from now on.

    That is decided by what flowed alone, so that a bake that was killed goes on as if it had not been.
    """
    memory = dict(state.memory)
    for block in system.blocks:
        own = remembered_by(memory, block.name)
        terms = [term for term in plastic(block) if term.name in own]
        stale = False
        for term in terms:
            last = own.get(term.settled_name)
            now = term.now(own)
            amounts = term.flow.amounts(now, term.flow.none() if last is None else last)
            stale = stale or float(amounts.mean() if len(amounts) else 0.0) > _STALE
        if stale:
            modelled = all(np.array_equal(term.now(own), term.flow.none()) for term in terms)
            for term in terms:
                memory[f"{block.name}{OF}{term.settled_name}"] = term.now(own)
                if modelled:
                    del memory[f"{block.name}{OF}{term.settled_name}"]
    return replace(state, memory=memory)
