"""Active contractile fibres in tetrahedra (docs/explanation/physics/11-fibres.md).

    Psi = k/2 (l - t)^2,  l = |F a|;  continued linearly below l = t - p:  -k p (l - t) - k p^2/2

with the fibre direction a at rest and the target stretch t, which is 1 for a passive fibre. The compressive stress of a
fibre is limited to k p; otherwise a compressed fibre would rotate sideways and shear the flesh.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .assembly import assemble_matrix
from .elastic_density import ElasticDensity
from .strain_energy import StrainEnergy
from .strains import Strain, shape_gradients

# A fibre shorter than this, relative to its rest length, has no direction.
MIN_STRETCH = 1e-30


class FibreStrain(Strain):
    """Fibre strain |F a| - t: the stretch of a fibre minus its target stretch (see Strain).

    F a = sum_k (grad N_k . a) x_k, so a fibre is defined by one coefficient per corner.
    """

    def __init__(self, directional_gradients: Array, elements: Index, target_stretches: float | Array = 1.0) -> None:
        """Store the fibres.

        directional_gradients: (m, 4) 1/m, derivatives of the shape functions along each fibre.  elements: (m, 4).
        target_stretches: t, a number or (m,).
        """
        self.elements = elements
        self.directional_gradients = directional_gradients
        self.target_stretches = target_stretches

    def _directions_and_stretches(self, corners: Array) -> tuple[Array, Array]:
        """Return the unit directions (m, 3) and stretches (m,) of the fibres."""
        along = np.einsum("mk,mki->mi", self.directional_gradients, corners)
        length = np.linalg.norm(along, axis=1)
        return along / np.maximum(length, MIN_STRETCH)[:, None], length

    def stretches(self, corners: Array) -> Array:
        """Return the stretches |F a| (m,)."""
        return self._directions_and_stretches(corners)[1]

    def values(self, corners: Array) -> Array:
        return np.asarray((self._directions_and_stretches(corners)[1] - self.target_stretches)[:, None])

    def gradient(self, corners: Array) -> Array:
        unit, _ = self._directions_and_stretches(corners)
        return np.asarray((self.directional_gradients[:, :, None] * unit[:, None, :]).reshape(len(unit), 1, -1))

    def contracted_hessian(self, corners: Array, stress: Array) -> Array:
        unit, length = self._directions_and_stretches(corners)
        transverse = (np.eye(3) - unit[:, :, None] * unit[:, None, :]) / np.maximum(length, MIN_STRETCH)[:, None, None]
        block = transverse * stress[:, :1, None]
        m, k = self.directional_gradients.shape
        pairs = self.directional_gradients[:, :, None] * self.directional_gradients[:, None, :]
        return np.asarray(np.einsum("mkl,mij->mkilj", pairs, block).reshape(m, 3 * k, 3 * k))


# Largest compressive stress of a fibre relative to Young's modulus, in addition to the stress that lengthens the flesh.
MAX_PUSH = 0.1
# Bisections for the width of a stretched piece: down to machine precision.
_BISECTIONS = 60


@dataclass(frozen=True)
class FibreEnergy(StrainEnergy):
    """Sum over tetrahedra of weight * Psi/k. weights: (m,) J, volume times k.  max_compression: p, see above.

    operators: the matrix (m, n) in 1/m that maps positions to F a of all fibres, and its transpose.
    """

    strain: FibreStrain
    max_compression: float = np.inf
    operators: tuple[csr_matrix, csr_matrix] = field(kw_only=True)

    @staticmethod
    def from_directions(
        rest: Array, tets: Index, directions: Array, weights: Array, max_compression: float
    ) -> FibreEnergy:
        """Return passive fibres (t = 1). rest: (n, 3) m.  tets: (m, 4).  directions: (m, 3), unit, at rest."""
        directional_gradients = np.einsum("mki,mi->mk", shape_gradients(rest, tets), directions)
        operator = csr_matrix(
            (directional_gradients.ravel(), tets.ravel(), 4 * np.arange(len(tets) + 1)), shape=(len(tets), len(rest))
        )
        strain, operators = FibreStrain(directional_gradients, tets), (operator, operator.T.tocsr())
        return FibreEnergy(strain, np.ones((1, 1)), weights, max_compression=max_compression, operators=operators)

    @property
    def rounding(self) -> float:
        # Forces, and so the rounding error, grow with the target stretch, which may be far below zero.
        return (1.0 + float(np.max(np.abs(self.strain.target_stretches), initial=0.0))) ** 2 * super().rounding

    def with_contraction(self, target_stretch: float, max_compression: float) -> FibreEnergy:
        """Return the same fibres with another target stretch t and compression limit p."""
        strain = FibreStrain(self.strain.directional_gradients, self.strain.elements, target_stretch)
        return replace(self, strain=strain, max_compression=max_compression)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        gradient, divergence = self.operators
        fibre_vectors = np.asarray(gradient @ positions)
        stretch = np.sqrt(np.einsum("mi,mi->m", fibre_vectors, fibre_vectors))
        values = stretch - self.strain.target_stretches
        stress = np.maximum(values, -self.max_compression)
        # Beyond p the energy continues linearly, with constant stress.
        energy = float(self.weights @ (0.5 * stress**2 + stress * (values - stress)))
        fibre_vectors *= (self.weights * stress / np.maximum(stretch, MIN_STRETCH))[:, None]
        return energy, np.asarray(divergence @ fibre_vectors)

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian; if projected, without the transverse stiffness of compressed fibres, as for springs."""
        corners = positions[self.strain.elements]
        values = self.strain.values(corners)
        stress = np.maximum(values, 0.0 if project else -self.max_compression)
        slope = self.strain.gradient(corners)
        axial_blocks = (values > -self.max_compression)[:, :, None] * (slope.transpose(0, 2, 1) @ slope)
        blocks = axial_blocks + self.strain.contracted_hessian(corners, stress)
        return assemble_matrix(blocks * self.weights[:, None, None], self.strain.elements, len(positions))


def uniaxial_stress(law: ElasticDensity, stretch: float) -> float:
    """Return the first Piola-Kirchhoff stress in Pa under uniaxial stretch, with free transverse strain."""
    low, high = 0.05, 20.0
    for _ in range(_BISECTIONS):
        width = float(np.sqrt(low * high))
        if _axial_and_transverse_stress(law, stretch, width)[1] > 0.0:
            high = width
        else:
            low = width
    return _axial_and_transverse_stress(law, stretch, float(np.sqrt(low * high)))[0]


def _axial_and_transverse_stress(law: ElasticDensity, stretch: float, width: float) -> tuple[float, float]:
    """Return the axial and transverse stress in Pa."""
    F = np.diag([stretch, width, width])[:, :, None]
    _, stress = law.density_stress(F)
    return float(stress[0, 0, 0]), float(stress[1, 1, 0])


def contraction_coefficients(
    law: ElasticDensity, contraction: float, modulus: float, young: float
) -> tuple[float, float]:
    """Return t and p for which fibres of a given modulus (Pa) shorten a free piece of flesh exactly by `contraction`.

    The equilibrium is P(1 - c) + k (1 - c - t) = 0 with the stress P of the flesh, so the result does not depend on its
    stiffness. With a negative t fibres pull at any length.  law, young: density and Young's modulus (Pa) of the flesh.
    """
    stretch, max_compression = 1.0 - contraction, MAX_PUSH * young / modulus
    if contraction == 0.0:
        return 1.0, max_compression
    relative_stress = uniaxial_stress(law, stretch) / modulus
    return stretch + relative_stress, max_compression + max(relative_stress, 0.0)
