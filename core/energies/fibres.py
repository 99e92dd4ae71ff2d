"""Fibres in tetrahedra that pull themselves shorter (docs/physics.md section 11).

    Psi = k/2 (l - t)^2,  l = |F a|;  from l = t - p downwards straight on, -k p (l - t) - k p^2/2

with the fibre's direction a at rest and the length t for which it strives, over its own at rest. t = 1 while it does
nothing. No fibre pushes with more than k p: it gives way, where it would else turn aside and shear the flesh.
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

# What a fibre may push with before it gives way, in parts of Young's modulus, beyond what lengthening the flesh takes.
PUSH = 0.1
# Halvings of the interval in which the width of a stretched piece is looked for: down to its last digits.
_HALVINGS = 60


@dataclass(frozen=True)
class FibreEnergy(StrainEnergy):
    """Sum over tetrahedra of weight * Psi/k. weights: (m,) J, volume times k.  most: p, see above.

    along: (m, n) 1/m, which gives F a of every fibre at once, and its transpose.
    """

    most: float = np.inf
    along: tuple[csr_matrix, csr_matrix] = field(kw_only=True)

    @staticmethod
    def of(rest: Array, tets: Index, directions: Array, weights: Array, most: float) -> FibreEnergy:
        """Fibres of t = 1. rest: (n, 3) m.  tets: (m, 4).  directions: (m, 3), unit, at rest."""
        shares = np.einsum("mki,mi->mk", gradients(rest, tets), directions)
        operator = csr_matrix(
            (shares.ravel(), tets.ravel(), 4 * np.arange(len(tets) + 1)), shape=(len(tets), len(rest))
        )
        both = operator, operator.T.tocsr()
        return FibreEnergy(AlongFibres(shares, tets), np.ones((1, 1)), weights, most=most, along=both)

    @property
    def rounding(self) -> float:
        # What strives for far less than nothing pulls with as much more, and the flesh withstands it.
        return (1.0 + float(np.max(np.abs(self._lengths), initial=0.0))) ** 2 * super().rounding

    @property
    def _lengths(self) -> Array:
        assert isinstance(self.strain, AlongFibres)
        return np.asarray(self.strain.lengths)

    def striving(self, length: float, most: float) -> FibreEnergy:
        """The same fibres with another t and p."""
        assert isinstance(self.strain, AlongFibres)
        return replace(self, strain=self.strain.striving(length), most=most)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        gradient, divergence = self.along
        ways = np.asarray(gradient @ positions)
        length = np.sqrt(np.einsum("mi,mi->m", ways, ways))
        values = length - self._lengths
        stress = np.maximum(values, -self.most)
        # What is beyond p counts with the last stress.
        energy = float(self.weights @ (0.5 * stress**2 + stress * (values - stress)))
        ways *= (self.weights * stress / np.maximum(length, LEAST))[:, None]
        return energy, np.asarray(divergence @ ways)

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Projected, it is without what a fibre that pushes has across its direction, as a spring's."""
        corners = positions[self.strain.elements]
        values = self.strain.values(corners)
        stress = np.maximum(values, 0.0 if project else -self.most)
        slope = self.strain.gradient(corners)
        along = (values > -self.most)[:, :, None] * (slope.transpose(0, 2, 1) @ slope)
        blocks = along + self.strain.bent(corners, stress)
        return assembled(blocks * self.weights[:, None, None], self.strain.elements, len(positions))


def uniaxial_stress(law: ElasticDensity, stretch: float) -> float:
    """The first Piola-Kirchhoff stress in Pa of a piece that is stretched along one axis and free across it."""
    low, high = 0.05, 20.0
    for _ in range(_HALVINGS):
        width = float(np.sqrt(low * high))
        if _stress(law, stretch, width)[1] > 0.0:
            high = width
        else:
            low = width
    return _stress(law, stretch, float(np.sqrt(low * high)))[0]


def _stress(law: ElasticDensity, stretch: float, width: float) -> tuple[float, float]:
    """Along and across, Pa."""
    F = np.diag([stretch, width, width])[:, :, None]
    _, stress = law.density_stress(F)
    return float(stress[0, 0, 0]), float(stress[1, 1, 0])


def striven(law: ElasticDensity, contraction: float, modulus: float, young: float) -> tuple[float, float]:
    """t and p with which fibres of a modulus in Pa shorten a free piece of the flesh by the contraction, exactly.

    The balance is P(1 - c) + k (1 - c - t) = 0 with the flesh's own stress P: nobody has to know how stiff it is. Below
    0 for t, they pull however short they are.  law, young: of the flesh, Pa.
    """
    length, slack = 1.0 - contraction, PUSH * young / modulus
    if contraction == 0.0:
        return 1.0, slack
    beyond = uniaxial_stress(law, length) / modulus
    return length + beyond, slack + max(beyond, 0.0)
