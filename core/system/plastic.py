"""Force term of plastic elements (docs/explanation/physics/09-plasticity.md)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..base.arrays import Array
from ..materials import Energy, TetElasticity
from ..materials.plastic_flow import PlasticFlow, TensorFlow
from .history import BlockHistory
from .inputs import BlockInputs
from .term import Potential


@dataclass(frozen=True)
class PlasticTerm(Potential):
    """Elastic energy whose elements can flow. Without flow in the history the block is as it was created.

    flow: kind of plastic flow.
    name: of the flow among the variables of the terms, see BlockHistory.
    reference_flow: flow at which the stiffness at rest is taken; None for the modelled shape.
    """

    flow: PlasticFlow = field(kw_only=True)
    name: str = "flow"
    reference_flow: Array | None = None
    _cached_energy: list[tuple[Array, Energy]] = field(default_factory=list, compare=False, repr=False)

    @staticmethod
    def create(flow: PlasticFlow, name: str = "flow") -> PlasticTerm:
        """Create the term of a flow."""
        return PlasticTerm(flow.energy, flow=flow, name=name)

    def current_flow(self, history: BlockHistory) -> Array:
        """Return the flow in the history of a block."""
        found = history.terms.get(self.name, self.reference_flow)
        return self.flow.zero_flow() if found is None else found

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return self.energy_from_history(history)

    def energy_from_history(self, history: BlockHistory) -> Energy:
        """Return the energy at the flow in the history of a block."""
        found = history.terms.get(self.name, self.reference_flow)
        return self.energy if found is None else self.energy_after(found)

    def energy_after(self, flow: Array) -> Energy:
        """Return the energy at a flow. The last one is cached."""
        if not self._cached_energy or not (
            self._cached_energy[0][0] is flow or np.array_equal(self._cached_energy[0][0], flow)
        ):
            self._cached_energy[:] = [(flow, self.flow.energy_after(flow))]
        return self._cached_energy[0][1]

    def rest_energy(self, rest: Array) -> Energy | None:
        return self.energy if self.reference_flow is None else self.flow.energy_after(self.reference_flow)

    def with_energy(self, energy: Energy) -> Potential:
        # Only tetrahedral energies support a change of rest shape.
        assert isinstance(energy, TetElasticity)
        return replace(self, energy=energy, flow=TensorFlow(energy), _cached_energy=[])

    def with_reference_flow(self, flow: Array | None) -> PlasticTerm:
        """Return the term with its stiffness at rest taken at another flow."""
        return replace(self, reference_flow=flow, _cached_energy=[])
