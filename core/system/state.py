"""State of a system between two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..base.arrays import Array

# Separator of block name and term key in history keys. It cannot occur in names of objects.
KEY_SEPARATOR = "\x1f"


def history_of_block(history: Mapping[str, Array], name: str) -> dict[str, Array]:
    """Return the history of the block with a given name, by the terms' own keys."""
    start = f"{name}{KEY_SEPARATOR}"
    return {key.removeprefix(start): value for key, value in history.items() if key.startswith(start)}


@dataclass(frozen=True)
class State:
    """Positions, velocities and history of all nodes, pinned ones included, at one time.

    time: s.
    positions: (n, 3) m.
    velocities: (n, 3) m/s.
    reference: (n, 3) m/s, velocity of each node's undeformed position in the last step due to the animation
        (docs/decisions/0005); zero without animation.
    history: history variables by block and term (term.History); most terms have none.
    """

    time: float
    positions: Array
    velocities: Array
    reference: Array
    history: Mapping[str, Array] = field(default_factory=dict)

    @staticmethod
    def at_rest(positions: Array, time: float = 0.0, history: Mapping[str, Array] | None = None) -> State:
        """Return a state with zero velocities at positions (n, 3) m."""
        zero_velocities = np.zeros_like(positions)
        return State(time, positions.copy(), zero_velocities, zero_velocities.copy(), history or {})

    def subset(self, nodes: slice, blocks: Sequence[str]) -> State:
        """Return the state of some nodes, with the history of the blocks with given names."""
        history = {key: value for key, value in self.history.items() if key.partition(KEY_SEPARATOR)[0] in blocks}
        return State(self.time, self.positions[nodes], self.velocities[nodes], self.reference[nodes], history)

    @staticmethod
    def concatenate(states: list[State]) -> State:
        """Concatenate the states of consecutive ranges of nodes at one time."""
        if len(states) == 1:
            return states[0]
        history = {key: value for state in states for key, value in state.history.items()}
        return State(
            states[0].time,
            np.concatenate([state.positions for state in states]),
            np.concatenate([state.velocities for state in states]),
            np.concatenate([state.reference for state in states]),
            history,
        )

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.positions).all() and np.isfinite(self.velocities).all())
