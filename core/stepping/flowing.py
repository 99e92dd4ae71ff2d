"""Plastic update at the end of a step (docs/physics.md section 9)."""

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

# Flow changes up to this value in every component are ignored.
_LEAST = 1e-10
# Mean change of plastic strain in a term's elements that requires a new stiffness at rest.
_STALE = 0.2


@dataclass(frozen=True)
class Flowing:
    """Plastic update of a block at the end of a step.

    yield_surface: None if the block does not flow.
    reset: whether the plastic strain is removed.
    """

    yielding: Yielding | None = None
    reset: bool = False


def begun(block: Block) -> Memory:
    """Return the plastic history of a block at the start of a shot; empty if no element can flow."""
    found: dict[str, Array] = {}
    for term in plastic(block):
        found |= {f"{block.name}{OF}{name}": value for name, value in term.begin().items()}
    return found


def plastic(block: Block) -> list[Plastic]:
    """Return the terms of a block whose elements can flow."""
    return [term for term in block.terms if isinstance(term, Plastic)]


def flows(block: Block, memory: Memory) -> bool:
    """Return whether a history contains plastic flow of a block, present or past."""
    return any(f"{block.name}{OF}{term.name}" in memory for term in plastic(block))


def flowed(system: System, state: State, flowing: Sequence[Flowing]) -> State:
    """Apply the plastic update at the end of a step.

    Positions stay unchanged. The elastic force in the history of the waveform law becomes that of the updated flow.

    updates: of the first blocks; other blocks do not flow.
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
    """Return the flow of a term after the plastic update at given positions."""
    return before if yielding is None else term.flow.flowed(before, positions, yielding)


def settled(system: System, state: State) -> State:
    """Update the flow that defines the stiffness at rest, at the end of a frame.

    The decision depends on the plastic flow alone, so an interrupted bake resumes identically.
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
