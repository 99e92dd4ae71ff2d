"""State of a system between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..base.arrays import Array
from .history import History


@dataclass(frozen=True)
class State:
    """Positions, velocities and history of all nodes, pinned ones included, at one time.

    time: s.
    positions: (n, 3) m.
    velocities: (n, 3) m/s.
    reference: (n, 3) m/s, velocity of each node's undeformed position in the last step due to the animation
        (docs/decisions/0005); zero without animation.
    history: what the next step needs to know of earlier ones.
    """

    time: float
    positions: Array
    velocities: Array
    reference: Array
    history: History = field(default_factory=History)

    @staticmethod
    def at_rest(positions: Array, time: float = 0.0, history: History | None = None) -> State:
        """Return a state with zero velocities at positions (n, 3) m."""
        zero_velocities = np.zeros_like(positions)
        return State(time, positions.copy(), zero_velocities, zero_velocities.copy(), history or History())

    def subset(self, nodes: slice, blocks: Sequence[str]) -> State:
        """Return the state of some nodes, with the history of the blocks with given names."""
        return State(
            self.time,
            self.positions[nodes],
            self.velocities[nodes],
            self.reference[nodes],
            self.history.subset(blocks),
        )

    @staticmethod
    def concatenate(states: list[State]) -> State:
        """Concatenate the states of consecutive ranges of nodes at one time."""
        if len(states) == 1:
            return states[0]
        return State(
            states[0].time,
            np.concatenate([state.positions for state in states]),
            np.concatenate([state.velocities for state in states]),
            np.concatenate([state.reference for state in states]),
            History.merge([state.history for state in states]),
        )

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.positions).all() and np.isfinite(self.velocities).all())
