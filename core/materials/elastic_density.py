"""Elastic energy densities Psi(F) of the deformation gradient F.

Stable Neo-Hookean elasticity: Smith, de Goes, Kim, *Stable Neo-Hookean Flesh Simulation*, 2018, eq. (14)-(16).

    Psi = mu/2 (I_C - 3) + lambda/2 (J - alpha)^2 - mu/2 log(I_C + 1),   I_C = tr(F^T F), J = det F

It is robust to inversion and stress-free for F = I. Its mu and lambda are chosen so that small strains obey Hooke's law
with the material's Lamé parameters (section 3.4 of the paper).

Saint Venant-Kirchhoff elasticity: Psi = lambda/2 tr(E)^2 + mu E:E with Green's strain E = (F^T F - I)/2. It is provided
because the papers use it; it collapses under strong compression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ..base.arrays import Array, cofactor


@dataclass(frozen=True)
class ElasticMaterial:
    """Isotropic material: Young's modulus E in Pa, Poisson's ratio nu, density rho in kg/m^3."""

    young: float
    poisson: float
    density: float

    @property
    def mu(self) -> float:
        """Second Lamé parameter (shear modulus), Pa."""
        return self.young / (2.0 * (1.0 + self.poisson))

    @property
    def lam(self) -> float:
        """First Lamé parameter, Pa."""
        return self.young * self.poisson / ((1.0 + self.poisson) * (1.0 - 2.0 * self.poisson))


class ElasticDensity(Protocol):
    """Energy density Psi(F) in Pa. F has shape (3, 3, m): row (space), column (material), element.

    name, label, description: of the panel entry.  number: value stored in .blend files.  parameters: names of the
    settings used.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    label: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]

    def __init__(self, material: ElasticMaterial) -> None:
        """Compute the moduli from a material."""

    def density_stress(self, F: Array) -> tuple[Array, Array]:
        """Return Psi (m,) in Pa and the first Piola-Kirchhoff stress P = dPsi/dF (3, 3, m) in Pa."""
        ...

    def stiffness(self, F: Array) -> Array:
        """Return d2Psi/dF2 as (m, 9, 9) Pa, both index pairs flattened in row-major order."""
        ...


class StVK:
    """Saint Venant-Kirchhoff energy density."""

    name: ClassVar[str] = "StVK"
    number: ClassVar[int] = 1
    label: ClassVar[str] = "Saint Venant-Kirchhoff"
    description: ClassVar[str] = "The model used by the papers; it collapses under strong compression"
    parameters: ClassVar[tuple[str, ...]] = ("stiffness", "poisson")

    def __init__(self, material: ElasticMaterial) -> None:
        self.mu = material.mu
        self.lam = material.lam

    def _strain_stress(self, F: Array) -> tuple[Array, Array]:
        """Return Green's strain and the second Piola-Kirchhoff stress in Pa, both (3, 3, m)."""
        strain = 0.5 * (np.einsum("kim,kjm->ijm", F, F) - np.eye(3)[:, :, None])
        trace = np.einsum("iim->m", strain)
        return strain, self.lam * trace * np.eye(3)[:, :, None] + 2.0 * self.mu * strain

    def density_stress(self, F: Array) -> tuple[Array, Array]:
        strain, S = self._strain_stress(F)
        return 0.5 * np.einsum("ijm,ijm->m", strain, S), np.einsum("rkm,kcm->rcm", F, S)

    def stiffness(self, F: Array) -> Array:
        m = F.shape[2]
        _, S = self._strain_stress(F)
        eye = np.eye(3)
        # dP = dF S + F (lambda tr(dE) I + 2 mu dE),  dE = (dF^T F + F^T dF)/2
        C = np.einsum("rs,dcm->rcsdm", eye, S)
        C += self.lam * np.einsum("rcm,sdm->rcsdm", F, F)
        C += self.mu * np.einsum("rdm,scm->rcsdm", F, F)
        C += self.mu * np.einsum("cd,rsm->rcsdm", eye, np.einsum("rkm,skm->rsm", F, F))
        return np.ascontiguousarray(C.reshape(9, 9, m).transpose(2, 0, 1))


class StableNeoHookean:
    """Stable Neo-Hookean energy density."""

    name: ClassVar[str] = "StableNeoHookean"
    number: ClassVar[int] = 0
    label: ClassVar[str] = "Stable Neo-Hookean"
    description: ClassVar[str] = "Stable under any bending, compression or inversion"
    parameters: ClassVar[tuple[str, ...]] = ("stiffness", "poisson")

    def __init__(self, material: ElasticMaterial) -> None:
        self.mu = 4.0 / 3.0 * material.mu
        self.lam = material.lam + 5.0 / 6.0 * material.mu
        self.alpha = 1.0 + 0.75 * self.mu / self.lam
        # Subtracted, so that the energy is zero at rest.
        self._offset = 0.5 * self.lam * (1.0 - self.alpha) ** 2 - 0.5 * self.mu * np.log(4.0)

    @property
    def kernel_parameters(self) -> tuple[float, float, float, float]:
        """mu, lambda, alpha, and the constant subtracted from Psi."""
        return self.mu, self.lam, self.alpha, float(self._offset)

    def density_stress(self, F: Array) -> tuple[Array, Array]:
        cof = cofactor(F)
        volume_change = F[0, 0] * cof[0, 0]
        volume_change += F[0, 1] * cof[0, 1]
        volume_change += F[0, 2] * cof[0, 2]
        volume_change -= self.alpha
        shifted_invariant = np.einsum("rcm,rcm->m", F, F)
        shifted_invariant += 1.0
        # Since I_C + 1 >= 1, log is as accurate as log1p(I_C), and faster.
        density = shifted_invariant - 4.0
        density -= np.log(shifted_invariant)
        density *= 0.5 * self.mu
        density += (0.5 * self.lam) * (volume_change * volume_change)
        density -= self._offset
        volume_change *= self.lam
        cof *= volume_change
        np.divide(-self.mu, shifted_invariant, out=shifted_invariant)
        shifted_invariant += self.mu
        cof += shifted_invariant * F
        return density, cof

    def stiffness(self, F: Array) -> Array:
        m = F.shape[2]
        cof = cofactor(F)
        volume_change = np.einsum("cm,cm->m", F[0], cof[0]) - self.alpha
        ic = np.einsum("rcm,rcm->m", F, F)
        f = F.reshape(9, m).T
        g = cof.reshape(9, m).T
        C = self.lam * g[:, :, None] * g[:, None, :]
        C += (2.0 * self.mu / (ic + 1.0) ** 2)[:, None, None] * f[:, :, None] * f[:, None, :]
        C += (self.mu * (1.0 - 1.0 / (ic + 1.0)))[:, None, None] * np.eye(9)
        C += (self.lam * volume_change)[:, None, None] * determinant_hessian(F)
        return C


def determinant_hessian(F: Array) -> Array:
    """Return d2(det F)/dF2 as (m, 9, 9)."""
    m = F.shape[2]
    H = np.zeros((3, 3, 3, 3, m))
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            c, d = (j + 1) % 3, (j + 2) % 3
            # Derivative of cof[i, j] as defined in elastic_density.cofactor.
            H[i, j, a, c] += F[b, d]
            H[i, j, b, d] += F[a, c]
            H[i, j, a, d] -= F[b, c]
            H[i, j, b, c] -= F[a, d]
    return np.ascontiguousarray(H.reshape(9, 9, m).transpose(2, 0, 1))
