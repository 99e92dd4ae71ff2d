"""The state between two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array

# Between a block's name and a term's in the keys of the memory: no object is called so.
OF = "\x1f"


def remembered_by(memory: Mapping[str, Array], name: str) -> dict[str, Array]:
    """What a block's terms remember, by their own names. name: of the block."""
    start = f"{name}{OF}"
    return {key.removeprefix(start): value for key, value in memory.items() if key.startswith(start)}


@dataclass(frozen=True)
class State:
    """Positions and velocities of all nodes, pinned ones included, at one time.

    time: s.
    positions: (n, 3) m.
    velocities: (n, 3) m/s.
    reference: (n, 3) m/s, the velocity that the animation gave each node's undeformed place during the last step
        (docs/decisions/0005); zero where nothing moves.
    memory: what terms keep, by block and name (term.Memory); most keep nothing.
    """

    time: float
    positions: Array
    velocities: Array
    reference: Array
    memory: Mapping[str, Array] = field(default_factory=dict)

    @staticmethod
    def at_rest(positions: Array, time: float = 0.0, memory: Mapping[str, Array] | None = None) -> State:
        still = np.zeros_like(positions)
        return State(time, positions.copy(), still, still.copy(), memory or {})

    def part(self, nodes: slice, blocks: Sequence[str]) -> State:
        """Of some of the nodes, with what the blocks of these names remember."""
        memory = {key: value for key, value in self.memory.items() if key.partition(OF)[0] in blocks}
        return State(self.time, self.positions[nodes], self.velocities[nodes], self.reference[nodes], memory)

    @staticmethod
    def joined(states: list[State]) -> State:
        """One state of several that follow each other in the stack, at one time."""
        if len(states) == 1:
            return states[0]
        memory = {key: value for state in states for key, value in state.memory.items()}
        return State(
            states[0].time,
            np.concatenate([state.positions for state in states]),
            np.concatenate([state.velocities for state in states]),
            np.concatenate([state.reference for state in states]),
            memory,
        )

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.positions).all() and np.isfinite(self.velocities).all())
