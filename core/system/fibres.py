"""The term of fibres that contract (docs/physics.md section 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..arrays import Array, Mask
from ..energies import ElasticDensity, Energy
from ..energies.fibres import FibreEnergy, striven
from .block import Block
from .inputs import BlockInputs, Inputs
from .term import Memory, Potential

# Energies of other contractions that are kept: those of a step's start and end are asked for again and again.
_KEPT = 8


@dataclass(frozen=True)
class Fibres(Potential):
    """Fibres of a solid; `energy` is theirs while they do nothing.

    law, young: of the flesh around them, Pa.  modulus: Pa, theirs where they are painted fully.
    strengths: (m,) 0 to 1, how they are painted in each of their tetrahedra.
    within: (m,) which of these lie in the flesh for the most part: the others stick out of the artist's surface.
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
        """The energy while they are to be shorter by a part."""
        if contraction == 0.0:
            return self.energy
        if contraction not in self._made:
            assert isinstance(self.energy, FibreEnergy)
            while len(self._made) >= _KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[contraction] = self.energy.striving(*striven(self.law, contraction, self.modulus, self.young))
        return self._made[contraction]


def draws(blocks: Iterable[Block], inputs: Inputs) -> bool:
    """Whether fibres of any of a system's blocks are to be shorter or longer at the end of a step."""
    return any(
        one.contraction[1] != 0.0 and any(isinstance(term, Fibres) for term in block.terms)
        for block, one in zip(blocks, inputs, strict=True)
    )
