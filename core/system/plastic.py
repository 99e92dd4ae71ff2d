"""The term of what flows: its energy is that of what has flowed (docs/physics.md section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import Array
from ..energies import Energy, TetElasticity
from ..energies.plastic import Flow, TensorFlow
from .inputs import BlockInputs
from .term import Memory, Potential

# Between a term's name and what was so when its stiffness at rest was last found.
_SETTLED = ", where its stiffness is found"


@dataclass(frozen=True)
class Plastic(Potential):
    """An energy whose elements may flow. Where the memory has no flow, it is as the block was made.

    flow: how they do.
    name: under which the memory keeps it.
    begun: the flow at which the block has its stiffness at rest; None for that of what was modelled.
    """

    flow: Flow = field(kw_only=True)
    name: str = "flow"
    begun: Array | None = None
    _last: list[tuple[Array, Energy]] = field(default_factory=list, compare=False, repr=False)

    @staticmethod
    def of(flow: Flow, name: str = "flow") -> Plastic:
        return Plastic(flow.energy, flow=flow, name=name)

    @property
    def settled_name(self) -> str:
        """Under which the memory keeps the flow that `begun` is to be."""
        return self.name + _SETTLED

    def now(self, memory: Memory) -> Array:
        """The flow that a block's memory has."""
        found = memory.get(self.name, self.begun)
        return self.flow.none() if found is None else found

    def begin(self) -> Mapping[str, Array]:
        """What the memory has where a shot begins."""
        return {self.name: self.flow.none() if self.begun is None else self.begun}

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return self.energy_of(memory)

    def energy_of(self, memory: Memory) -> Energy:
        """The energy with the flow that a block's memory has."""
        found = memory.get(self.name, self.begun)
        return self.energy if found is None else self.after(found)

    def after(self, flow: Array) -> Energy:
        """The energy of what has flowed; made once as long as nothing flows."""
        if not self._last or not (self._last[0][0] is flow or np.array_equal(self._last[0][0], flow)):
            self._last[:] = [(flow, self.flow.after(flow))]
        return self._last[0][1]

    def at_rest(self, rest: Array) -> Energy | None:
        return self.energy if self.begun is None else self.flow.after(self.begun)

    def with_energy(self, energy: Energy) -> Potential:
        # Rest shapes can be chosen of these alone.
        assert isinstance(energy, TetElasticity)
        return replace(self, energy=energy, flow=TensorFlow(energy), _last=[])

    def restarted(self, flow: Array | None) -> Plastic:
        """The same with its stiffness at rest found after another flow."""
        return replace(self, begun=flow, _last=[])
