"""Strain-rate damping ([SRD]), by default as "good Rayleigh" (12): lambda_d = beta lambda, mu_d = beta mu.

Both are dialled by factors on these values, or directly, as the two independent viscosities of (15).

Painted factors make the potential heterogeneous (section 7): each element has the mean of those at its nodes.

It damps deformation only: a rigid motion of the deformed body has no strain rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from scipy.sparse import csr_matrix

from ...base.arrays import Array, Index
from ...base.errors import ParameterError
from ...materials import Energy, Membrane, RodBending, ShellBending, StrainEnergy, TetElasticity
from ...materials.fibres import FibreEnergy
from ...materials.strain_energy import isotropic_moduli
from ...materials.strains import BiotStrain, GreenStrain, SpatialStrain, Strain
from ...materials.surface_strains import SurfaceGreenStrain
from .damping import DampedBody, DissipationPotential, PotentialDamping
from .dissipation import Dissipation
from .rayleigh import rayleigh_beta


class ViscosityBy(StrEnum):
    """Meaning of the dialled viscosities."""

    FACTORS = "FACTORS"
    VALUES = "VALUES"


STRAINS: dict[str, Callable[[Array, Index], Strain]] = {
    "GREEN": GreenStrain,
    "BIOT": BiotStrain,
    "SPATIAL": SpatialStrain,
}


@dataclass(frozen=True)
class BendingRateDamping:
    """Damping potential C = scale (d theta/d x)^T K_b (d theta/d x) of the angles' rate; ignores rigid rotation."""

    energy: ShellBending | RodBending
    scale: float

    def matrix(self, positions: Array) -> csr_matrix:
        return (self.scale * self.energy.strain_stiffness(positions)).tocsr()


class StrainRateDamping(PotentialDamping):
    """Damping of the strain rate of each elastic energy."""

    name = "STRAIN_RATE"
    number = 7
    label = "Strain Rate"
    description = "Damps deformation by the damping ratio of the first mode. Does not damp rotation and flight"
    parameters = (
        "damping_ratio", "viscosity_by", "lambda_d", "mu_d", "lambda_d_value", "mu_d_value", "strain", "anisotropy",
        "damp_axis",
    )  # fmt: skip

    def __init__(self, body: DampedBody) -> None:
        self.body = body
        painted = body.block.damping_scale
        energies = [one if painted is None else one.with_nodal_scale(painted) for one in body.block.energies]
        super().__init__(*(self._potential_of(energy) for energy in energies))

    def _potential_of(self, energy: Energy) -> DissipationPotential:
        body, dials = self.body, self.body.dials
        scale, count = rayleigh_beta(body), len(body.block.rest)
        if isinstance(energy, FibreEnergy) and dials["viscosity_by"] == ViscosityBy.VALUES:
            # The viscosities of the flesh are all that damps it.
            scale = 0.0
        if isinstance(energy, StrainEnergy):
            # Uses the strain energy's modulus, as dialled.
            return Dissipation(energy.strain, scale * body.stiffness_factor * energy.moduli, energy.weights, count)
        if isinstance(energy, ShellBending | RodBending):
            return BendingRateDamping(energy, scale * body.stiffness_factor)
        if isinstance(energy, Membrane):
            stiffness, fabric = scale * body.stiffness_factor, energy.fabric
            sheet = isotropic_moduli(*self._viscosities(stiffness * fabric.lam, stiffness * fabric.mu), 2)
            if dials["viscosity_by"] != ViscosityBy.VALUES:
                # The yarns are along the first two components of the strain.
                sheet[[0, 1], [0, 1]] += dials["mu_d"] * stiffness * fabric.yarn_modulus
            return Dissipation(
                SurfaceGreenStrain(energy.shape_gradients, energy.triangles), sheet, energy.weights, count
            )
        if not isinstance(energy, TetElasticity):
            raise ParameterError(
                f"{body.block.name}: Strain Rate does not support its elastic model. Choose another damping."
            )
        viscosity = isotropic_moduli(*self._viscosities(scale * body.material.lam, scale * body.material.mu), 3)
        # A potential permits stronger damping along one direction of the rest shape.
        along = "XYZ".index(dials["damp_axis"])
        viscosity[along, along] *= dials["anisotropy"]
        strain = STRAINS[dials["strain"]](body.block.rest, energy.tets)
        return Dissipation(strain, viscosity, energy.weights, count)

    def _viscosities(self, lam: float, mu: float) -> tuple[float, float]:
        """Return lambda_d and mu_d in Pa s, or N s/m for cloth. lam, mu: beta lambda and beta mu, set by the ratio."""
        dials = self.body.dials
        if dials["viscosity_by"] == ViscosityBy.VALUES:
            return dials["lambda_d_value"], dials["mu_d_value"]
        return dials["lambda_d"] * lam, dials["mu_d"] * mu
