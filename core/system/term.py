"""Force terms of a block: elasticity, pins and loads, with one interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..materials import Energy, Pressure, SoftPins
from .inputs import BlockInputs
from .state import BlockHistory


class StiffnessScaling(Enum):
    """Scaling of a term's energy."""

    SCALED = "the block's stiffness factor"
    FIXED = "nothing"


class ForceTerm:
    """Energy of a block that depends on the inputs and history of a step. Node numbers are the block's own.

    scaling: factor on the energy.
    damping_scaling: factor on the damping; None for that on the energy.
    """

    scaling: StiffnessScaling = StiffnessScaling.SCALED
    damping_scaling: ClassVar[StiffnessScaling | None] = None

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        """Return the energy for a step that ends with these inputs."""
        raise NotImplementedError

    def rest_energy(self, rest: Array) -> Energy | None:
        """Return the energy that defines the stiffness at rest (n, 3); None if there is no such stiffness."""
        return None

    def preconditioner_energy(self, rest: Array) -> Energy | None:
        """Return the energy for the preconditioner at rest; terms that switch use their stiffest configuration."""
        return self.rest_energy(rest)

    def damping_matrix(self, history: BlockHistory, positions: Array) -> csr_matrix | None:
        """Return C (3n, 3n) N s/m of a damping force -C v at positions (n, 3) m; None if there is none."""
        return None

    def largest_step(self, positions: Array, displacement: Array) -> float:
        """Return the largest admissible fraction, at most 1, of a displacement (n, 3) from positions (n, 3)."""
        return 1.0

    def history_update(self, history: BlockHistory, positions: Array) -> Mapping[str, Array]:
        """Return the term's changed variables at the end of a step at positions (n, 3), see BlockHistory.terms."""
        return {}


@dataclass(frozen=True)
class Potential(ForceTerm):
    """Energy independent of inputs: elasticity or a load.

    energy: of the block's nodes.  scaling: see ForceTerm.
    """

    energy: Energy
    scaling: StiffnessScaling = StiffnessScaling.SCALED

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return self.energy

    def rest_energy(self, rest: Array) -> Energy | None:
        return self.energy

    def with_energy(self, energy: Energy) -> Potential:
        """Return the term with another energy of the same number of elements."""
        return replace(self, energy=energy)


@dataclass(frozen=True)
class PinSprings(ForceTerm):
    """Springs between nodes and the end positions of their pins (docs/explanation/physics/06-body-models.md).

    nodes: (p,) soft-pinned nodes.  stiffness: (p,) N/m.  pin_indices: (p,) of the nodes among the block's pins.
    """

    nodes: Index
    stiffness: Array
    pin_indices: Index

    @property
    def hinges(self) -> csr_matrix | None:
        """Weights (c, n) of the nodes at points that stay on hard pins; None without any."""
        return None

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return SoftPins(self.nodes, self.stiffness, inputs.end[self.pin_indices])

    def rest_energy(self, rest: Array) -> Energy | None:
        return SoftPins(self.nodes, self.stiffness, rest[self.nodes])


@dataclass(frozen=True)
class AirPressure(ForceTerm):
    """Air pressure in a closed sheet, plus the change that the inputs of a step give.

    energy: at the first frame.
    """

    energy: Pressure
    scaling: ClassVar[StiffnessScaling] = StiffnessScaling.FIXED  # type: ignore[misc]

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        change = inputs.pressure_change[1]
        return replace(self.energy, pressure=self.energy.pressure + change) if change else self.energy

    def rest_energy(self, rest: Array) -> Energy | None:
        return self.energy


def pin_springs(pinned: Index, stiffness: Array) -> tuple[PinSprings, ...]:
    """Return the soft-pin term of a block, if any. pinned: (p,).  stiffness: (p,) N/m, infinite for hard pins."""
    soft_pins = np.flatnonzero(np.isfinite(stiffness))
    return (PinSprings(pinned[soft_pins], stiffness[soft_pins], soft_pins),) if len(soft_pins) else ()
