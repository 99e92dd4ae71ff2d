"""Force term of contractile fibres (docs/physics.md section 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..arrays import Array, Mask
from ..energies import ElasticDensity, Energy
from ..energies.fibres import FibreEnergy, striven
from .block import Block
from .inputs import BlockInputs, Inputs
from .term import Memory, Potential

# Cached energies: the contractions of a step's start and end are requested repeatedly.
_KEPT = 8


@dataclass(frozen=True)
class Fibres(Potential):
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
    within: Mask = field(kw_only=True)
    _made: dict[float, Energy] = field(init=False, default_factory=dict, compare=False, repr=False)

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return self.contracted(inputs.contraction[1])

    def contracted(self, contraction: float) -> Energy:
        """Return the energy for a target contraction, as a fraction of the length."""
        if contraction == 0.0:
            return self.energy
        if contraction not in self._made:
            assert isinstance(self.energy, FibreEnergy)
            while len(self._made) >= _KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[contraction] = self.energy.striving(*striven(self.law, contraction, self.modulus, self.young))
        return self._made[contraction]


def draws(blocks: Iterable[Block], inputs: Inputs) -> bool:
    """Return whether fibres of any block are contracted or extended at the end of a step."""
    return any(
        one.contraction[1] != 0.0 and any(isinstance(term, Fibres) for term in block.terms)
        for block, one in zip(blocks, inputs, strict=True)
    )
