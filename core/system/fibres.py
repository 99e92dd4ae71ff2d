"""Force term of contractile fibres (docs/explanation/physics/11-fibres.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..base.arrays import Array, Mask
from ..materials import ElasticDensity, Energy
from ..materials.fibres import FibreEnergy, contraction_coefficients
from .discretization import BodyDiscretization
from .history import BlockHistory
from .inputs import BlockInputs, Inputs
from .term import Potential

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

    law: ElasticDensity = field(kw_only=True)
    young: float = field(kw_only=True)
    modulus: float = field(kw_only=True)
    strengths: Array = field(kw_only=True)
    is_inside: Mask = field(kw_only=True)
    _cache: dict[float, Energy] = field(init=False, default_factory=dict, compare=False, repr=False)

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return self.energy_at_contraction(inputs.contraction[1])

    def energy_at_contraction(self, contraction: float) -> Energy:
        """Return the energy for a target contraction, as a fraction of the length."""
        if contraction == 0.0:
            return self.energy
        if contraction not in self._cache:
            assert isinstance(self.energy, FibreEnergy)
            while len(self._cache) >= _CACHE_SIZE:
                self._cache.pop(next(iter(self._cache)))
            self._cache[contraction] = self.energy.with_contraction(
                *contraction_coefficients(self.law, contraction, self.modulus, self.young)
            )
        return self._cache[contraction]


def has_active_fibres(blocks: Iterable[BodyDiscretization], inputs: Inputs) -> bool:
    """Return whether fibres of any block are contracted or extended at the end of a step."""
    return any(
        one.contraction[1] != 0.0 and any(isinstance(term, FibreTerm) for term in block.terms)
        for block, one in zip(blocks, inputs, strict=True)
    )
