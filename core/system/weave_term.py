"""Force term of woven cloth: elasticity of its yarns at their current sliding positions.

See docs/explanation/woven-cloth.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..base.computation import Memo
from ..materials import Energy
from ..yarns.energy import YarnElasticity
from ..yarns.woven_cloth import WovenCloth
from .inputs import BlockInputs
from .state import BlockHistory
from .system import System
from .term import ForceTerm


@dataclass(frozen=True)
class FrozenSliding(Energy):
    """Energy over the nodes with frozen sliding of the yarns. u: (p,) m.  scale: factor on the energy."""

    elastic: YarnElasticity
    u: Array
    scale: float = 1.0

    @property
    def rounding(self) -> float:
        """Rounding error of the energy, J."""
        return self.scale * self.elastic.rounding

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        value, gradient = self.elastic.value_gradient(positions, self.u)
        return self.scale * value, self.scale * gradient[: positions.size].reshape(positions.shape)

    def with_nodal_scale(self, factors: Array) -> FrozenSliding:
        """Return the energy times the mean of factors, as a yarn is uniform along its length."""
        return FrozenSliding(self.elastic, self.u, self.scale * float(factors.mean()))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return self.scale * self.elastic.node_hessian(positions, self.u, project)


@dataclass(frozen=True)
class WeaveTerm(ForceTerm):
    """Elasticity of a block's yarns.

    cloth: over the block's nodes.
    """

    cloth: WovenCloth
    # The energies for a factor of 1 and for the last other one.
    _cached_elastic: Memo[YarnElasticity] = field(
        init=False, default_factory=lambda: Memo(2), compare=False, repr=False
    )

    def scaled_elastic(self, factor: float = 1.0) -> YarnElasticity:
        """Return the elastic energy with a factor on its stiffness."""
        return self._cached_elastic.get(factor, lambda: YarnElasticity(self.cloth, factor))

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        u = self.cloth.rest_arc_lengths if history.yarns is None else history.yarns.positions
        return FrozenSliding(self.scaled_elastic(), u)

    def rest_energy(self, rest: Array) -> Energy | None:
        return FrozenSliding(self.scaled_elastic(), self.cloth.rest_arc_lengths)


def find_weave_term(terms: tuple[ForceTerm, ...]) -> WeaveTerm | None:
    """Return the woven cloth among a block's terms, if any."""
    return next((term for term in terms if isinstance(term, WeaveTerm)), None)


def has_weave(system: System) -> bool:
    """Return whether any block is woven."""
    return any(find_weave_term(block.terms) is not None for block in system.blocks)
