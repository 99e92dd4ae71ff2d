"""Force term of plastic elements (docs/physics.md section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import Array
from ..energies import Energy, TetElasticity
from ..energies.plastic import Flow, TensorFlow
from .inputs import BlockInputs
from .term import Memory, Potential

# Suffix of the history key of the flow at which the stiffness at rest is taken.
_SETTLED = ", where its stiffness is found"


@dataclass(frozen=True)
class Plastic(Potential):
    """Elastic energy whose elements can flow. Without flow in the history the block is as it was created.

    flow: kind of plastic flow.
    name: history key of the flow.
    reference_flow: flow at which the stiffness at rest is taken; None for the modelled shape.
    """

    flow: Flow = field(kw_only=True)
    name: str = "flow"
    begun: Array | None = None
    _last: list[tuple[Array, Energy]] = field(default_factory=list, compare=False, repr=False)

    @staticmethod
    def of(flow: Flow, name: str = "flow") -> Plastic:
        """Create the term of a flow."""
        return Plastic(flow.energy, flow=flow, name=name)

    @property
    def settled_name(self) -> str:
        """History key of the next reference flow."""
        return self.name + _SETTLED

    def now(self, memory: Memory) -> Array:
        """Return the flow in the history of a block."""
        found = memory.get(self.name, self.begun)
        return self.flow.none() if found is None else found

    def begin(self) -> Mapping[str, Array]:
        """Return the history at the start of a shot."""
        return {self.name: self.flow.none() if self.begun is None else self.begun}

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return self.energy_of(memory)

    def energy_of(self, memory: Memory) -> Energy:
        """Return the energy at the flow in the history of a block."""
        found = memory.get(self.name, self.begun)
        return self.energy if found is None else self.after(found)

    def after(self, flow: Array) -> Energy:
        """Return the energy at a flow. The last one is cached."""
        if not self._last or not (self._last[0][0] is flow or np.array_equal(self._last[0][0], flow)):
            self._last[:] = [(flow, self.flow.after(flow))]
        return self._last[0][1]

    def at_rest(self, rest: Array) -> Energy | None:
        return self.energy if self.begun is None else self.flow.after(self.begun)

    def with_energy(self, energy: Energy) -> Potential:
        # Only tetrahedral energies support a change of rest shape.
        assert isinstance(energy, TetElasticity)
        return replace(self, energy=energy, flow=TensorFlow(energy), _last=[])

    def restarted(self, flow: Array | None) -> Plastic:
        """Return the term with its stiffness at rest taken at another flow."""
        return replace(self, begun=flow, _last=[])
