"""What moves during a step: pins, and the motion that counts as no deformation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..arrays import Array, Index
from ..contact.moment import Touching


class ReferenceMotion(Protocol):
    """The motion of a block's undeformed shape during a step, where it is not its pins' own rigid motion."""

    def undeformed(self, nodes: Index) -> Array | None:
        """The undeformed places (k, 3) m of some of the block's nodes at the step's start; None: where they are."""

    def moved(self, nodes: Index, positions: Array) -> Array:
        """Where these nodes (k,) come to from positions (k, 3) if they go along."""

    def turned(self, nodes: Index) -> Array:
        """The turn (k, 3, 3) of what is around these nodes."""

    @property
    def is_still(self) -> bool:
        """Whether it moves nothing in the step."""

    def part(self, index: int, parts: int) -> ReferenceMotion:
        """The motion of one of several equal parts of the step."""


@dataclass(frozen=True)
class NoReferenceMotion:
    """A reference that never moves: all motion is deformation."""

    def undeformed(self, nodes: Index) -> Array | None:
        return None

    def moved(self, nodes: Index, positions: Array) -> Array:
        return positions

    def turned(self, nodes: Index) -> Array:
        return np.tile(np.eye(3), (len(nodes), 1, 1))

    @property
    def is_still(self) -> bool:
        return True

    def part(self, index: int, parts: int) -> NoReferenceMotion:
        return self


@dataclass(frozen=True)
class BlockInputs:
    """What moves one block during a step.

    start, end: places (p, 3) m of its pins, in the order of Block.pinned.
    reference: its reference motion; None for the rigid motion of its pins.
    pull: (3,) or (n, 3) m/s^2, what accelerates its nodes from outside; None for the system's gravity.
    touching: what counts where it touches something; None where nothing can.
    contraction: of its fibres at the start and at the end, in parts of their length.
    """

    start: Array
    end: Array
    reference: ReferenceMotion | None = None
    pull: Array | None = None
    touching: Touching | None = None
    contraction: tuple[float, float] = (0.0, 0.0)

    @property
    def is_still(self) -> bool:
        """Whether nothing moves the block in the step."""
        around = self.touching is None or self.touching.is_still
        same = np.array_equal(self.start, self.end) and self.contraction[0] == self.contraction[1]
        return around and same and (self.reference is None or self.reference.is_still)

    def begun(self) -> BlockInputs:
        """The pins and fibres as they are where this starts."""
        return BlockInputs(self.start, self.start, contraction=(self.contraction[0],) * 2)

    def ended(self) -> BlockInputs:
        """What holds it where this ends."""
        touching = None if self.touching is None else self.touching.ended()
        return BlockInputs(self.end, self.end, None, self.pull, touching, (self.contraction[1],) * 2)

    def part(self, index: int, parts: int) -> BlockInputs:
        """What moves it in one of several equal parts of the step, along straight lines."""
        if parts == 1:
            return self
        way = self.end - self.start
        last = index + 1 == parts
        low, high = self.contraction
        return BlockInputs(
            self.start + way * (index / parts),
            self.end if last else self.start + way * ((index + 1) / parts),
            self.reference.part(index, parts) if self.reference else None,
            self.pull,
            None if self.touching is None else self.touching.part(index, parts),
            (low + (high - low) * (index / parts), high if last else low + (high - low) * ((index + 1) / parts)),
        )


Inputs = tuple[BlockInputs, ...]
"""What moves during a step, in the order of System.blocks."""


def in_the_air(inputs: Inputs) -> Inputs:
    """The same with nothing to touch."""
    return tuple(replace(one, touching=None) for one in inputs)


def parted(inputs: Inputs, index: int, parts: int) -> Inputs:
    """The inputs of one of several equal parts of the step."""
    return tuple(one.part(index, parts) for one in inputs)
