"""Springs along edges, E = sum k L/2 (l/L - 1)^2, with k in N (docs/explanation/physics/06-body-models.md)."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index
from ..native.library import KernelLibrary
from ..native.ropes import CompiledSprings
from .strain_energy import KernelEnergy, StrainEnergy
from .strains import SpringStrain


class SpringEnergy(KernelEnergy[CompiledSprings], StrainEnergy):
    """Energy of springs."""

    strain: SpringStrain

    def _compile(self, library: KernelLibrary) -> CompiledSprings:
        return CompiledSprings(library, self.strain.elements, self.strain.lengths, self.weights)

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        return StrainEnergy.value_gradient(self, positions)


def spring_energy(edges: Index, lengths: Array, stiffness: Array) -> SpringEnergy:
    """Return the energy of springs.

    edges: (e, 2).  lengths: (e,) m at rest.  stiffness: (e,) N, the force of a spring at twice its rest length.
    The projected Hessian is k/L (n n^T + max(0, 1 - L/l) (I - n n^T)): the negative transverse stiffness of compressed
    springs is left out ([SRD] after (9)).
    """
    # The strain has one component, so the modulus is a scalar; the weights contain the stiffness.
    return SpringEnergy(SpringStrain(lengths, edges), np.ones((1, 1)), stiffness * lengths, clamp_compression=True)
