"""Inputs of a step: pins, reference motion, external accelerations and contact data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..arrays import Array, Index
from ..contact.moment import Touching


class ReferenceMotion(Protocol):
    """Prescribed motion of a block's undeformed shape during a step, instead of the rigid motion of its pins."""

    def undeformed(self, nodes: Index) -> Array | None:
        """Return the undeformed positions of nodes at the start of the step, (k, 3) m; None for the current ones."""

    def moved(self, nodes: Index, positions: Array) -> Array:
        """Return the end positions (k, 3) m of nodes (k,) that follow the reference motion from positions (k, 3)."""

    def turned(self, nodes: Index) -> Array:
        """Return the rotation around each node in the step, (k, 3, 3)."""

    @property
    def is_still(self) -> bool:
        """Return whether the reference motion is zero in the step."""

    def part(self, index: int, parts: int) -> ReferenceMotion:
        """Return the motion in one of several equal parts of the step."""


@dataclass(frozen=True)
class NoReferenceMotion:
    """Reference at rest: all motion is deformation."""

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
    """Inputs of one block during a step.

    start, end: (p, 3) m, positions of its pins, in the order of BodyDiscretization.pinned.
    reference: reference motion; None for the rigid motion of its pins.
    acceleration: (3,) or (n, 3) m/s^2, external acceleration of its nodes; None for the gravity of the system.
    contact: contact data; None if contact is impossible.
    contraction: of its fibres at the start and at the end, as a fraction of their length.
    """

    start: Array
    end: Array
    reference: ReferenceMotion | None = None
    pull: Array | None = None
    touching: Touching | None = None
    contraction: tuple[float, float] = (0.0, 0.0)

    @property
    def is_still(self) -> bool:
        """Return whether no input moves the block in the step."""
        around = self.touching is None or self.touching.is_still
        same = np.array_equal(self.start, self.end) and self.contraction[0] == self.contraction[1]
        return around and same and (self.reference is None or self.reference.is_still)

    def begun(self) -> BlockInputs:
        """Return the pins and the contraction of the start as constant inputs."""
        return BlockInputs(self.start, self.start, contraction=(self.contraction[0],) * 2)

    def ended(self) -> BlockInputs:
        """Return all inputs of the end as constant inputs."""
        touching = None if self.touching is None else self.touching.ended()
        return BlockInputs(self.end, self.end, None, self.pull, touching, (self.contraction[1],) * 2)

    def part(self, index: int, parts: int) -> BlockInputs:
        """Return the inputs of one of several equal parts of the step, interpolated linearly."""
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
"""Inputs of a step, in the order of System.blocks."""


def in_the_air(inputs: Inputs) -> Inputs:
    """Return the inputs without contact."""
    return tuple(replace(one, touching=None) for one in inputs)


def parted(inputs: Inputs, index: int, parts: int) -> Inputs:
    """Return the inputs of one of several equal parts of the step."""
    return tuple(one.part(index, parts) for one in inputs)
