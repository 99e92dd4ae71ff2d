"""Strain-rate damping ([SRD]), by default as "good Rayleigh" (12): lambda_d = beta lambda, mu_d = beta mu.

Both are dialled by factors on these values, so that solids have the two independent viscosities of (15).

It damps deformation only: a rigid motion of the deformed body has no strain rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.strains import Biot, Green, Spatial, Strain
from ..elements.triangles import PlaneGreen
from ..energies import Energy, Membrane, RodBending, ShellBending, StrainEnergy, TetElasticity
from ..energies.strain_energy import isotropic
from ..errors import ParameterError
from .damping import DampedBody, Damping, Dissipative, added
from .dissipation import Dissipation
from .rayleigh import beta

STRAINS: dict[str, Callable[[Array, Index], Strain]] = {"GREEN": Green, "BIOT": Biot, "SPATIAL": Spatial}


@dataclass(frozen=True)
class BendingRate:
    """Damping potential C = scale (d theta/d x)^T K_b (d theta/d x) of the angles' rate; ignores rigid rotation."""

    energy: ShellBending | RodBending
    scale: float

    def matrix(self, positions: Array) -> csr_matrix:
        return (self.scale * self.energy.strain_stiffness(positions)).tocsr()


class StrainRate(Damping):
    """Damping of the strain rate of each elastic energy."""

    name = "STRAIN_RATE"
    label = "Strain Rate"
    text = "Damps deformation by the damping ratio of the first mode. Does not damp rotation and flight"
    parameters = ("damping_ratio", "lambda_d", "mu_d", "strain", "anisotropy", "damp_axis")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        self._potentials = [self._of(energy) for energy in body.block.energies]

    def _of(self, energy: Energy) -> Dissipative:
        body, dials = self.body, self.body.dials
        scale, count = beta(body), len(body.block.rest)
        if isinstance(energy, StrainEnergy):
            # Uses the strain energy's modulus, as dialled.
            return Dissipation(energy.strain, scale * body.stiffness * energy.moduli, energy.weights, count)
        if isinstance(energy, ShellBending | RodBending):
            return BendingRate(energy, scale * body.stiffness)
        if isinstance(energy, Membrane):
            fabric = energy.fabric
            sheet = body.stiffness * isotropic(dials["lambda_d"] * fabric.lam, dials["mu_d"] * fabric.mu, 2)
            return Dissipation(PlaneGreen(energy.shape, energy.triangles), scale * sheet, energy.weights, count)
        if not isinstance(energy, TetElasticity):
            raise ParameterError(
                f"{body.block.name}: Strain Rate does not support its elastic model. Choose another damping."
            )
        lam, mu = dials["lambda_d"] * body.material.lam, dials["mu_d"] * body.material.mu
        viscosity = scale * isotropic(lam, mu, 3)
        # A potential permits stronger damping along one direction of the rest shape.
        along = "XYZ".index(dials["damp_axis"])
        viscosity[along, along] *= dials["anisotropy"]
        strain = STRAINS[dials["strain"]](body.block.rest, energy.tets)
        return Dissipation(strain, viscosity, energy.weights, count)

    def matrix(self, positions: Array) -> csr_matrix:
        return added([potential.matrix(positions) for potential in self._potentials])
