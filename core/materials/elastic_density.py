"""Elastic energy densities Psi(F) of the deformation gradient F."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ..base.arrays import Array


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


def cofactor(F: Array) -> Array:
    """Return cof F = det(F) F^-T for F (3, 3, m), also where F is singular."""
    cof, second = np.empty(F.shape), np.empty(F.shape[2])
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            c, d = (j + 1) % 3, (j + 2) % 3
            np.multiply(F[a, c], F[b, d], out=cof[i, j])
            np.multiply(F[a, d], F[b, c], out=second)
            cof[i, j] -= second
    return cof
