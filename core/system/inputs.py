"""Inputs of a step: pins, reference motion, external accelerations and contact data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..base.arrays import Array, Index
from ..contact.collision_state import ContactInputs


class ReferenceMotion:
    """Prescribed motion of a block's undeformed shape during a step, instead of the rigid motion of its pins.

    The base class is a reference at rest: all motion is deformation.
    """

    def undeformed_positions(self, nodes: Index) -> Array | None:
        """Return the undeformed positions of nodes at the start of the step, (k, 3) m; None for the current ones."""
        return None

    def end_positions(self, nodes: Index, positions: Array) -> Array:
        """Return the end positions (k, 3) m of nodes (k,) that follow the reference motion from positions (k, 3)."""
        return positions

    def rotations(self, nodes: Index) -> Array:
        """Return the rotation around each node in the step, (k, 3, 3)."""
        return np.tile(np.eye(3), (len(nodes), 1, 1))

    @property
    def is_still(self) -> bool:
        """Return whether the reference motion is zero in the step."""
        return True

    def subinterval(self, index: int, count: int) -> ReferenceMotion:
        """Return the motion in one of several equal parts of the step."""
        return self


_Value = TypeVar("_Value", float, Array)


@dataclass(frozen=True)
class BlockInputs:
    """Inputs of one block during a step.

    start, end: (p, 3) m, positions of its pins, in the order of BodyDiscretization.pinned.
    reference: reference motion; None for the rigid motion of its pins.
    acceleration: (3,) or (n, 3) m/s^2, external acceleration of its nodes; None for the gravity of the system.
    contact: contact data; None if contact is impossible.
    contraction: of its fibres at the start and at the end, as a fraction of their length.
    pressure_change: of the air at the start and at the end, since the first frame, Pa.
    drag: (n, 3, 3) N s/m, symmetric C of a force -C v on each of its nodes, such as that of the air; None without one.
    has_changing_load: whether the acceleration at the start of the step differs from that at its end.
    steady_load: (3,) m/s^2, mean acceleration of a load that varies slowly in space and not in time; None otherwise.
    """

    start: Array
    end: Array
    reference: ReferenceMotion | None = None
    acceleration: Array | None = None
    contact: ContactInputs | None = None
    contraction: tuple[float, float] = (0.0, 0.0)
    pressure_change: tuple[float, float] = (0.0, 0.0)
    drag: Array | None = None
    has_changing_load: bool = False
    steady_load: Array | None = None

    @property
    def is_still(self) -> bool:
        """Return whether no input moves the block in the step."""
        contact_is_still = self.contact is None or self.contact.is_still
        is_constant = np.array_equal(self.start, self.end) and all(
            start == end for start, end in (self.contraction, self.pressure_change)
        )
        return contact_is_still and is_constant and (self.reference is None or self.reference.is_still)

    def at_start(self) -> BlockInputs:
        """Return the pins, the contraction and the pressure of the start as constant inputs."""
        contraction, pressure = (self.contraction[0],) * 2, (self.pressure_change[0],) * 2
        return BlockInputs(self.start, self.start, contraction=contraction, pressure_change=pressure)

    def at_end(self) -> BlockInputs:
        """Return all inputs of the end as constant inputs."""
        contact = None if self.contact is None else self.contact.at_end()
        contraction, pressure = (self.contraction[1],) * 2, (self.pressure_change[1],) * 2
        return BlockInputs(self.end, self.end, None, self.acceleration, contact, contraction, pressure, self.drag)

    def subinterval(self, index: int, count: int) -> BlockInputs:
        """Return the inputs of one of several equal parts of the step, interpolated linearly."""
        if count == 1:
            return self
        return BlockInputs(
            *_part_of((self.start, self.end), index, count),
            self.reference.subinterval(index, count) if self.reference else None,
            self.acceleration,
            None if self.contact is None else self.contact.subinterval(index, count),
            _part_of(self.contraction, index, count),
            _part_of(self.pressure_change, index, count),
            self.drag,
            steady_load=self.steady_load,
        )


def _part_of(ends: tuple[_Value, _Value], index: int, count: int) -> tuple[_Value, _Value]:
    """Return the ends of one of several equal parts of a linear change."""
    first, last = ends
    is_last = index + 1 == count
    return first + (last - first) * (index / count), last if is_last else first + (last - first) * ((index + 1) / count)


Inputs = tuple[BlockInputs, ...]
"""Inputs of a step, in the order of System.blocks."""


def without_contact(inputs: Inputs) -> Inputs:
    """Return the inputs without contact."""
    return tuple(replace(one, contact=None) for one in inputs)


def subinterval_inputs(inputs: Inputs, index: int, count: int) -> Inputs:
    """Return the inputs of one of several equal parts of the step."""
    return tuple(one.subinterval(index, count) for one in inputs)
