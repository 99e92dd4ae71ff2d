"""Force term of woven cloth: elasticity of its yarns at their current sliding positions.

See docs/explanation/woven-cloth.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array
from ..energies import Energy
from ..weave.energy import Elastic
from ..weave.woven import Woven
from .inputs import BlockInputs
from .system import System
from .term import Memory, Term

# History keys per crossing: sliding position m, speed m/s, anchor m and normal force N.
PLACES, SPEEDS, ANCHORS, PRESSED = "yarn places", "yarn speeds", "yarn anchors", "yarn presses"
# History key per block: number of steps without motion, and the dials in use.
STILL = "yarns still"


@dataclass(frozen=True)
class Held(Energy):
    """Energy over the nodes with frozen sliding of the yarns. u: (p,) m.  scale: factor on the energy."""

    elastic: Elastic
    u: Array
    parts: float = 1.0

    @property
    def rounding(self) -> float:
        cloth = self.elastic.cloth
        return 8.0 * float(np.finfo(float).eps) * cloth.material.stretch * float(cloth.rest_lengths.sum()) * self.parts

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        value, gradient = self.elastic.value_gradient(positions, self.u)
        return self.parts * value, self.parts * gradient[: positions.size].reshape(positions.shape)

    def scaled(self, parts: Array) -> Held:
        """Return the energy times the mean of factors, as a yarn is uniform along its length."""
        return Held(self.elastic, self.u, self.parts * float(parts.mean()))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return self.parts * self.elastic.hessian_of_nodes(positions, self.u, project)


@dataclass(frozen=True)
class Weave(Term):
    """Elasticity of a block's yarns.

    cloth: over the block's nodes.
    """

    cloth: Woven
    elastic: Elastic = field(init=False, compare=False, repr=False)
    _last: list[tuple[float, Elastic]] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "elastic", Elastic(self.cloth))

    def elastic_of(self, factor: float) -> Elastic:
        """Return the elastic energy with a factor on its stiffness. The last one is cached."""
        if not self._last or self._last[0][0] != factor:
            self._last[:] = [(factor, Elastic(self.cloth, factor))]
        return self._last[0][1]

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return Held(self.elastic, memory.get(PLACES, self.cloth.places))

    def at_rest(self, rest: Array) -> Energy | None:
        return Held(self.elastic, self.cloth.places)


def weave_of(terms: tuple[Term, ...]) -> Weave | None:
    """Return the woven cloth among a block's terms, if any."""
    return next((term for term in terms if isinstance(term, Weave)), None)


def has_weave(system: System) -> bool:
    """Return whether any block is woven."""
    return any(weave_of(block.terms) is not None for block in system.blocks)
