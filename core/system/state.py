"""The state between two steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..arrays import Array


@dataclass(frozen=True)
class State:
    """Positions and velocities of all nodes, pinned ones included, at one time.

    time: s.  positions: (n, 3) m.  velocities: (n, 3) m/s.  carrier: (n, 3) m/s, the velocity that the animation
    gave each node's place in the undeformed shape during the last step (docs/decisions/0005); zero where nothing moves.
    """

    time: float
    positions: Array
    velocities: Array
    carrier: Array

    @staticmethod
    def at_rest(positions: Array, time: float = 0.0) -> State:
        still = np.zeros_like(positions)
        return State(time, positions.copy(), still, still.copy())

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.positions).all() and np.isfinite(self.velocities).all())


class Carrying(Protocol):
    """The motion of an animated mesh during a step, felt at every node.

    home: where all nodes (n, 3) would be at its start if nothing was bent; None where that makes no difference.
    """

    @property
    def home(self) -> Array | None: ...

    def __call__(self, positions: Array) -> Array:
        """Where nodes (n, 3) that go along come to."""

    def part(self, index: int, parts: int) -> Carrying:
        """The motion of one of several equal parts of the step."""


@dataclass(frozen=True)
class PinMotion:
    """Where the pins are at the start and the end of a step, each (p, 3) m in the order of System.pinned.

    carrying: the carrier, where it is not the pins' own rigid motion.
    """

    start: Array
    end: Array
    carrying: Carrying | None = None

    def part(self, index: int, parts: int) -> PinMotion:
        """The motion of one of several equal parts of the step, along straight lines."""
        if parts == 1:
            return self
        way = self.end - self.start
        last = index + 1 == parts
        return PinMotion(
            self.start + way * (index / parts),
            self.end if last else self.start + way * ((index + 1) / parts),
            self.carrying.part(index, parts) if self.carrying else None,
        )


@dataclass(frozen=True)
class Standing:
    """A carrier that never moves: all motion is deformation."""

    home: None = None

    def __call__(self, positions: Array) -> Array:
        return positions

    def part(self, index: int, parts: int) -> Standing:
        return self
