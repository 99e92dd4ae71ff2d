"""Traditional damping of [You] 4.2: viscosities that critically damp the two waves of one wavelength.

    psi = 2 sqrt(rho mu)/k,   phi = 2 sqrt(rho (2 mu + lambda))/k - 2 psi,   k = 2 pi/wavelength

with sigma_d = phi tr(eps') I + 2 psi eps'. phi is negative below a Poisson's ratio of 1/3.
"""

from __future__ import annotations

import math

from ...base.errors import ParameterError
from ...materials import TetElasticity
from ...materials.fibres import FibreEnergy
from ...materials.strain_energy import isotropic_moduli
from ...materials.strains import GreenStrain
from .damping import DampedBody, PotentialDamping
from .dissipation import Dissipation

# Smallest Poisson's ratio at which no viscosity is negative.
MIN_POISSON = 1.0 / 3.0


def viscosities(lam: float, mu: float, density: float, wavelength: float) -> tuple[float, float]:
    """Return the viscosities (phi, psi) in Pa s. lam, mu: Pa.  density: kg/m^3.  wavelength: m."""
    k = 2.0 * math.pi / wavelength
    psi = 2.0 * math.sqrt(density * mu) / k
    return 2.0 * math.sqrt(density * (2.0 * mu + lam)) / k - 2.0 * psi, psi


class TraditionalDamping(PotentialDamping):
    """Viscosity that critically damps the waves of one wavelength."""

    name = "TRADITIONAL"
    number = 9
    label = "Traditional"
    description = "Critically damps waves of one length. Longer waves still swing, shorter ones creep"
    parameters = ("wavelength",)

    def __init__(self, body: DampedBody) -> None:
        self.body = body
        block, material = body.block, body.material
        solids = [energy for energy in block.energies if isinstance(energy, TetElasticity)]
        # Fibres do not change the viscosity.
        if len(solids) < sum(not isinstance(energy, FibreEnergy) for energy in block.energies):
            raise ParameterError(
                f"{block.name}: traditional damping supports solids only. "
                "Choose another damping, or set its kind to Solid."
            )
        if material.poisson < MIN_POISSON - 1e-9:
            raise ParameterError(
                f"{block.name}: traditional damping would have a negative viscosity at a Poisson's ratio of "
                f"{material.poisson:g}. Raise it to 1/3 or more, or choose another damping."
            )
        phi, psi = viscosities(material.lam, material.mu, material.density, float(body.dials["wavelength"]))
        viscosity, count = isotropic_moduli(phi, psi, 3), len(block.rest)
        super().__init__(
            *(Dissipation(GreenStrain(block.rest, one.tets), viscosity, one.weights, count) for one in solids)
        )
