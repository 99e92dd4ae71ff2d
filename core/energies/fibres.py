"""Active contractile fibres in tetrahedra (docs/physics.md section 11).

    Psi = k/2 (l - t)^2,  l = |F a|;  continued linearly below l = t - p:  -k p (l - t) - k p^2/2

with the fibre direction a at rest and the target stretch t, which is 1 for a passive fibre. The compressive stress of a
fibre is limited to k p; otherwise a compressed fibre would rotate sideways and shear the flesh.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.assembly import assembled
from ..elements.fibres import LEAST, AlongFibres
from ..elements.strains import gradients
from .density import ElasticDensity
from .strain_energy import StrainEnergy

# Largest compressive stress of a fibre relative to Young's modulus, in addition to the stress that lengthens the flesh.
PUSH = 0.1
# Bisections for the width of a stretched piece: down to machine precision.
_HALVINGS = 60


@dataclass(frozen=True)
class FibreEnergy(StrainEnergy):
    """Sum over tetrahedra of weight * Psi/k. weights: (m,) J, volume times k.  max_compression: p, see above.

    operators: the matrix (m, n) in 1/m that maps positions to F a of all fibres, and its transpose.
    """

    most: float = np.inf
    along: tuple[csr_matrix, csr_matrix] = field(kw_only=True)

    @staticmethod
    def of(rest: Array, tets: Index, directions: Array, weights: Array, most: float) -> FibreEnergy:
        """Return passive fibres (t = 1). rest: (n, 3) m.  tets: (m, 4).  directions: (m, 3), unit, at rest."""
        shares = np.einsum("mki,mi->mk", gradients(rest, tets), directions)
        operator = csr_matrix(
            (shares.ravel(), tets.ravel(), 4 * np.arange(len(tets) + 1)), shape=(len(tets), len(rest))
        )
        both = operator, operator.T.tocsr()
        return FibreEnergy(AlongFibres(shares, tets), np.ones((1, 1)), weights, most=most, along=both)

    @property
    def rounding(self) -> float:
        # Forces, and so the rounding error, grow with the target stretch, which may be far below zero.
        return (1.0 + float(np.max(np.abs(self._lengths), initial=0.0))) ** 2 * super().rounding

    @property
    def _lengths(self) -> Array:
        assert isinstance(self.strain, AlongFibres)
        return np.asarray(self.strain.lengths)

    def striving(self, length: float, most: float) -> FibreEnergy:
        """Return the same fibres with another target stretch t and compression limit p."""
        assert isinstance(self.strain, AlongFibres)
        return replace(self, strain=self.strain.striving(length), most=most)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        gradient, divergence = self.along
        ways = np.asarray(gradient @ positions)
        length = np.sqrt(np.einsum("mi,mi->m", ways, ways))
        values = length - self._lengths
        stress = np.maximum(values, -self.most)
        # Beyond p the energy continues linearly, with constant stress.
        energy = float(self.weights @ (0.5 * stress**2 + stress * (values - stress)))
        ways *= (self.weights * stress / np.maximum(length, LEAST))[:, None]
        return energy, np.asarray(divergence @ ways)

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian; if projected, without the transverse stiffness of compressed fibres, as for springs."""
        corners = positions[self.strain.elements]
        values = self.strain.values(corners)
        stress = np.maximum(values, 0.0 if project else -self.most)
        slope = self.strain.gradient(corners)
        along = (values > -self.most)[:, :, None] * (slope.transpose(0, 2, 1) @ slope)
        blocks = along + self.strain.bent(corners, stress)
        return assembled(blocks * self.weights[:, None, None], self.strain.elements, len(positions))


def uniaxial_stress(law: ElasticDensity, stretch: float) -> float:
    """Return the first Piola-Kirchhoff stress in Pa under uniaxial stretch, with free transverse strain."""
    low, high = 0.05, 20.0
    for _ in range(_HALVINGS):
        width = float(np.sqrt(low * high))
        if _stress(law, stretch, width)[1] > 0.0:
            high = width
        else:
            low = width
    return _stress(law, stretch, float(np.sqrt(low * high)))[0]


def _stress(law: ElasticDensity, stretch: float, width: float) -> tuple[float, float]:
    """Return the axial and transverse stress in Pa."""
    F = np.diag([stretch, width, width])[:, :, None]
    _, stress = law.density_stress(F)
    return float(stress[0, 0, 0]), float(stress[1, 1, 0])


def striven(law: ElasticDensity, contraction: float, modulus: float, young: float) -> tuple[float, float]:
    """Return t and p for which fibres of a given modulus (Pa) shorten a free piece of flesh exactly by `contraction`.

    The equilibrium is P(1 - c) + k (1 - c - t) = 0 with the stress P of the flesh, so the result does not depend on its
    stiffness. With a negative t fibres pull at any length.  law, young: density and Young's modulus (Pa) of the flesh.
    """
    length, slack = 1.0 - contraction, PUSH * young / modulus
    if contraction == 0.0:
        return 1.0, slack
    beyond = uniaxial_stress(law, length) / modulus
    return length + beyond, slack + max(beyond, 0.0)
