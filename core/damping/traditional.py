"""The traditional damping of [You] 4.2: viscosities that critically damp the two waves of one wavelength.

    psi = 2 sqrt(rho mu)/k,   phi = 2 sqrt(rho (2 mu + lambda))/k - 2 psi,   k = 2 pi/wavelength

with sigma_d = phi tr(eps') I + 2 psi eps'. phi is negative below a Poisson's ratio of 1/3.
"""

from __future__ import annotations

import math

from scipy.sparse import csr_matrix

from ..arrays import Array
from ..elements.quadratic import Dissipation, isotropic
from ..elements.strains import Green
from ..errors import ParameterError
from .method import Method, Subject

# Poisson's ratio from which on no viscosity is negative.
LEAST_POISSON = 1.0 / 3.0


def viscosities(lam: float, mu: float, density: float, wavelength: float) -> tuple[float, float]:
    """(phi, psi) in Pa s. lam, mu: Pa.  density: kg/m^3.  wavelength: m."""
    k = 2.0 * math.pi / wavelength
    psi = 2.0 * math.sqrt(density * mu) / k
    return 2.0 * math.sqrt(density * (2.0 * mu + lam)) / k - 2.0 * psi, psi


class Traditional(Method):
    name = "TRADITIONAL"
    label = "Traditional"
    text = "Viscosity that stops waves of one length from swinging; longer ones still swing, shorter ones creep"
    parameters = ("wavelength",)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        settings, material = subject.settings, subject.material
        if settings.poisson < LEAST_POISSON - 1e-9:
            raise ParameterError(
                f"{subject.name}: traditional damping would have a negative viscosity at a Poisson's ratio of "
                f"{settings.poisson:g}; raise it to 1/3 or more, or choose another damping."
            )
        phi, psi = viscosities(material.lam, material.mu, material.density, settings.wavelength)
        elastic = subject.elastic
        strain = Green(subject.system.rest, elastic.tets)
        self._potential = Dissipation(strain, isotropic(phi, psi, 3), elastic.weights, len(subject.system.rest))

    def matrix(self, positions: Array) -> csr_matrix:
        return self._potential.matrix(positions)
