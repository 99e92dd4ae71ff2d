"""What pushes the nodes of a block: elasticity, pins, loads; one protocol for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..energies import Energy, SoftPins
from .inputs import BlockInputs

Memory = Mapping[str, Array]
"""What a block's terms remember from step to step, by names of their own."""


class Factor(Enum):
    """What a term's energy is multiplied with."""

    MATERIAL = "the block's stiffness factor"
    FIXED = "nothing"


class Term:
    """An energy for a step, made from what moves during it. Node numbers are the block's own.

    factor: what the energy is multiplied with.
    """

    factor: Factor = Factor.MATERIAL

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        """The energy of a step that ends with these inputs."""
        raise NotImplementedError

    def at_rest(self, rest: Array) -> Energy | None:
        """The energy whose stiffness at rest (n, 3) the block has; None where it has none there."""
        return None

    def stiffest(self, rest: Array) -> Energy | None:
        """The energy whose stiffness at rest is in the metric: of what switches, with the most that it ever has."""
        return self.at_rest(rest)

    def drag(self, memory: Memory, positions: Array) -> csr_matrix | None:
        """C (3n, 3n) N s/m of a damping force -C v, taken at positions (n, 3) m; None where there is none."""
        return None

    def largest_step(self, positions: Array, way: Array) -> float:
        """The largest part, at most 1, of a way (n, 3) from positions (n, 3) that may be tried."""
        return 1.0

    def remember(self, memory: Memory, positions: Array) -> Memory:
        """What changes in the memory when a step ends at positions (n, 3)."""
        return {}


@dataclass(frozen=True)
class Potential(Term):
    """An energy that no input changes: elasticity, or a load.

    energy: of the block's nodes.  factor: see Term.
    """

    energy: Energy
    factor: Factor = Factor.MATERIAL

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return self.energy

    def at_rest(self, rest: Array) -> Energy | None:
        return self.energy

    def with_energy(self, energy: Energy) -> Potential:
        """The same of another energy with as many elements."""
        return replace(self, energy=energy)


@dataclass(frozen=True)
class PinSprings(Term):
    """Springs from nodes to where their pins are at the end of the step (docs/physics.md section 6).

    nodes: (p,) softly pinned ones.  stiffness: (p,) N/m.  places: (p,) of the nodes among the block's pins.
    """

    nodes: Index
    stiffness: Array
    places: Index
    factor: ClassVar[Factor] = Factor.MATERIAL  # type: ignore[misc]

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return SoftPins(self.nodes, self.stiffness, inputs.end[self.places])

    def at_rest(self, rest: Array) -> Energy | None:
        return SoftPins(self.nodes, self.stiffness, rest[self.nodes])


def pin_springs(pinned: Index, stiffness: Array) -> tuple[PinSprings, ...]:
    """The term of a block's soft pins, if it has any. pinned: (p,).  stiffness: (p,) N/m, infinite for hard pins."""
    soft = np.flatnonzero(np.isfinite(stiffness))
    return (PinSprings(pinned[soft], stiffness[soft], soft),) if len(soft) else ()
