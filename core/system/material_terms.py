"""Force terms of plastic elements and of fibres (docs/explanation/physics/09-plasticity.md, 11-fibres.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from ..base.arrays import Array, Mask
from ..base.computation import Memo
from ..materials import ElasticDensity, Energy, TetElasticity
from ..materials.fibres import FibreEnergy, contraction_coefficients
from ..materials.plastic_flow import PlasticFlow, TensorFlow
from .discretization import BodyDiscretization
from .inputs import BlockInputs, Inputs
from .state import BlockHistory
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


# Cached energies: the contractions of a step's start and end are requested repeatedly.
_CACHE_SIZE = 8


@dataclass(frozen=True)
class FibreTerm(Potential):
    """Fibres of a solid; `energy` is theirs without contraction.

    law, young: of the surrounding flesh, Pa.
    modulus: fibre stiffness at full paint, Pa.
    strengths: (m,) 0 to 1, painted strength in each fibre tetrahedron.
    is_inside: (m,) whether a tetrahedron lies mostly inside the user's surface.
    """

    energy: FibreEnergy
    law: ElasticDensity = field(kw_only=True)
    young: float = field(kw_only=True)
    modulus: float = field(kw_only=True)
    strengths: Array = field(kw_only=True)
    is_inside: Mask = field(kw_only=True)
    _cache: Memo[Energy] = field(init=False, default_factory=lambda: Memo(_CACHE_SIZE), compare=False, repr=False)

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return self.energy_at_contraction(inputs.contraction[1])

    def energy_at_contraction(self, contraction: float) -> Energy:
        """Return the energy for a target contraction, as a fraction of the length."""
        if contraction == 0.0:
            return self.energy

        def contracted() -> Energy:
            coefficients = contraction_coefficients(self.law, contraction, self.modulus, self.young)
            return self.energy.with_contraction(*coefficients)

        return self._cache.get(contraction, contracted)


def has_active_fibres(blocks: Iterable[BodyDiscretization], inputs: Inputs) -> bool:
    """Return whether fibres of any block are contracted or extended at the end of a step."""
    return any(
        one.contraction[1] != 0.0 and any(isinstance(term, FibreTerm) for term in block.terms)
        for block, one in zip(blocks, inputs, strict=True)
    )
