"""Dampings by potentials of the velocities, or by viscous matrices: Rayleigh, strain-rate and traditional damping.

Dissipation potentials are quadratic in a strain rate: D = sum w/2 eps' V eps' ([SRD] section 3). Scripts can also use
one with a power law.

Rayleigh damping, C = alpha M + beta K+(x) ([SRD] 3.5), is that paper's negative example, as it damps rotation too.
K+ is the positive part of the tangent stiffness, element by element, so that C never adds energy. It is the stiffness
itself where nothing is compressed. alpha damps absolute motion, like a viscous fluid around the body.

Strain-rate damping ([SRD]) is by default "good Rayleigh" (12): lambda_d = beta lambda, mu_d = beta mu. Both are
dialled by factors on these values, or directly, as the two independent viscosities of (15). Painted factors make the
potential heterogeneous (section 7): each element has the mean of those at its nodes. It damps deformation only: a rigid
motion of the deformed body has no strain rate.

Traditional damping of [You] 4.2 has the viscosities that critically damp the two waves of one wavelength,

    psi = 2 sqrt(rho mu)/k,   phi = 2 sqrt(rho (2 mu + lambda))/k - 2 psi,   k = 2 pi/wavelength

with sigma_d = phi tr(eps') I + 2 psi eps'. phi is negative below a Poisson's ratio of 1/3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.sparse import csr_matrix, diags

from ...base.arrays import Array, Index
from ...base.errors import ParameterError
from ...materials import Energy, Membrane, RodBending, ShellBending, StrainEnergy, TetElasticity
from ...materials.assembly import assemble_matrix, assemble_vector
from ...materials.fibres import FibreEnergy
from ...materials.strain_energy import isotropic_moduli, tensile_stress
from ...materials.strains import BiotStrain, GreenStrain, SpatialStrain, Strain, SurfaceGreenStrain
from .damping import DampedBody, Damping, DissipationPotential, PotentialDamping, sum_matrices

STRAINS: dict[str, Callable[[Array, Index], Strain]] = {
    "GREEN": GreenStrain,
    "BIOT": BiotStrain,
    "SPATIAL": SpatialStrain,
}
# Smallest Poisson's ratio at which no viscosity is negative.
MIN_POISSON = 1.0 / 3.0


@dataclass(frozen=True)
class StrainRatePotential:
    """Damping by the stress that a strain rate produces, linear in the rate unless a subclass overrides it.

    viscosity: (c, c) or (m, c, c), with weights (m,): N s m together.  node_count: number of nodes n.
    """

    strain: Strain
    viscosity: Array
    weights: Array
    node_count: int

    def _stress_of(self, rate: Array) -> Array:
        """Return the viscous stress S_d (m, c) of a strain rate (m, c), 1/s."""
        return np.asarray((self.viscosity @ rate[:, :, None])[:, :, 0])

    def _tangent(self, rate: Array) -> Array:
        """Return d S_d/d rate, (m, c, c) or (c, c)."""
        return self.viscosity

    def strain_rate(self, positions: Array, velocities: Array) -> Array:
        """Return the strain rate (m, c) in 1/s."""
        B = self.strain.gradient(positions[self.strain.elements])
        return np.asarray((B @ velocities[self.strain.elements].reshape(len(B), -1, 1))[:, :, 0])

    def stress(self, positions: Array, velocities: Array) -> Array:
        """Return the viscous stress S_d (m, c)."""
        return self._stress_of(self.strain_rate(positions, velocities))

    def force(self, positions: Array, velocities: Array) -> Array:
        """Return the force -grad(eps) S_d, (n, 3) N."""
        B = self.strain.gradient(positions[self.strain.elements])
        pull = np.einsum("m,mc,mcw->mw", self.weights, self.stress(positions, velocities), B)
        return -assemble_vector(pull, self.strain.elements, self.node_count)

    def velocity_jacobian(self, positions: Array, velocities: Array) -> csr_matrix:
        """Return d force / d v, (3n, 3n) N s/m, [SRD] (8)."""
        B = self.strain.gradient(positions[self.strain.elements])
        blocks = B.transpose(0, 2, 1) @ self._tangent(self.strain_rate(positions, velocities)) @ B
        return assemble_matrix(-blocks * self.weights[:, None, None], self.strain.elements, self.node_count)

    def position_jacobian(
        self, positions: Array, velocities: Array, include_unsymmetric: bool, without_compression_stress: bool = False
    ) -> csr_matrix:
        """Return d force / d x, (3n, 3n) N/m, [SRD] (9): the geometric part, and on request the unsymmetric rest."""
        corners = positions[self.strain.elements]
        stress = self.stress(positions, velocities)
        blocks = self.strain.contracted_hessian(
            corners, tensile_stress(stress) if without_compression_stress else stress
        )
        if include_unsymmetric:
            B, rate = self.strain.gradient(corners), self._rate_gradient(corners, velocities)
            blocks = blocks + B.transpose(0, 2, 1) @ self._tangent(self.strain_rate(positions, velocities)) @ rate
        return assemble_matrix(-blocks * self.weights[:, None, None], self.strain.elements, self.node_count)

    def _rate_gradient(self, corners: Array, velocities: Array) -> Array:
        """Return d (grad(eps) v)/dx, (m, c, 3k): second derivatives of each component along v."""
        m = len(corners)
        v = velocities[self.strain.elements].reshape(m, -1)
        count = self.strain.values(corners).shape[1]
        units = (np.tile(unit, (m, 1)) for unit in np.eye(count))
        return np.stack([(self.strain.contracted_hessian(corners, one) @ v[:, :, None])[:, :, 0] for one in units], 1)


@dataclass(frozen=True)
class Dissipation(StrainRatePotential):
    """Quadratic dissipation potential of a strain rate."""

    def matrix(self, positions: Array) -> csr_matrix:
        """Return C(x), (3n, 3n) N s/m; the force is -C v."""
        B = self.strain.gradient(positions[self.strain.elements])
        blocks = B.transpose(0, 2, 1) @ self.viscosity @ B
        return assemble_matrix(blocks * self.weights[:, None, None], self.strain.elements, self.node_count)


@dataclass(frozen=True)
class PowerLawDissipation(StrainRatePotential):
    """Nonlinear dissipation potential of a strain rate, which [SRD] section 7 permits without a formula.

    With q = eps' V eps', the density is q0/p ((1 + q/q0)^(p/2) - 1). It is quadratic while q is far below q0, and a
    power p of the rate far above: p > 2 damps fast motion more, p < 2 less. It is convex for p >= 1.

    exponent: p >= 1; 2 is quadratic.  reference_power: q0 > 0, with weights: W together.
    """

    exponent: float
    reference_power: float

    def __post_init__(self) -> None:
        if not (self.exponent >= 1.0 and self.reference_power > 0.0):
            raise ParameterError(
                f"The power-law damping has an exponent of {self.exponent:g} and a reference power of "
                f"{self.reference_power:g}. Choose an exponent of at least 1 and a positive power."
            )

    def _growth(self, rate: Array) -> tuple[Array, Array]:
        """Return the stress (m, c) of the quadratic potential, and 1 + q/q0 (m,)."""
        linear = super()._stress_of(rate)
        return linear, 1.0 + (linear * rate).sum(axis=1) / self.reference_power

    def _stress_of(self, rate: Array) -> Array:
        linear, growth = self._growth(rate)
        return np.asarray(linear * (growth ** (0.5 * self.exponent - 1.0))[:, None])

    def _tangent(self, rate: Array) -> Array:
        linear, growth = self._growth(rate)
        along = (self.exponent - 2.0) / (self.reference_power * growth)
        outer = linear[:, :, None] * linear[:, None, :]
        factor = growth ** (0.5 * self.exponent - 1.0)
        return np.asarray(factor[:, None, None] * (self.viscosity + along[:, None, None] * outer))

    def value(self, positions: Array, velocities: Array) -> float:
        """Return the potential in W."""
        logarithm = np.log(self._growth(self.strain_rate(positions, velocities))[1])
        return float(self.weights @ np.expm1(0.5 * self.exponent * logarithm)) * self.reference_power / self.exponent


def rayleigh_beta(body: DampedBody) -> float:
    """Return 2 zeta/sqrt(lambda_1) in s, which gives the first mode the dialled damping ratio."""
    return 2.0 * float(body.dials["damping_ratio"]) / math.sqrt(body.eigenvalue)


@dataclass(frozen=True)
class StiffnessDamping:
    """Damping potential C = beta K+(x) of energies.

    beta: s, times the factor on the energies.
    use_exact_stiffness: use the exact K(x), [SRD] (11), which may add energy where an element is compressed; for
        comparisons with the papers.
    """

    energies: tuple[Energy, ...]
    beta: float
    use_exact_stiffness: bool = False

    def matrix(self, positions: Array) -> csr_matrix:
        matrices = [energy.hessian(positions, not self.use_exact_stiffness) for energy in self.energies]
        return (self.beta * sum_matrices(matrices)).tocsr()


class RayleighDamping(Damping):
    """Damping by the positive stiffness and by mass."""

    name = "RAYLEIGH"
    number = 8
    label = "Rayleigh"
    description = (
        "Damps in proportion to stiffness and mass, as most solvers do. Stretched bodies also rotate more slowly"
    )
    parameters = ("damping_ratio", "alpha")
    conserves_linear_momentum = conserves_angular_momentum = False

    def matrix(self, positions: Array) -> csr_matrix:
        scale = rayleigh_beta(self.body) * self.body.stiffness_factor
        stiffness_part = StiffnessDamping(self.body.block.energies, scale).matrix(positions)
        alpha = float(self.body.dials["alpha"])
        if alpha == 0.0:
            return stiffness_part
        return (stiffness_part + alpha * diags(self.body.block.mass.repeat(3))).tocsr()


class ViscosityBy(StrEnum):
    """Meaning of the dialled viscosities."""

    FACTORS = "FACTORS"
    VALUES = "VALUES"


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
