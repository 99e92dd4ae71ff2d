"""Saint Venant-Kirchhoff elasticity: Psi = lambda/2 tr(E)^2 + mu E:E with Green's strain E = (F^T F - I)/2.

Provided because the papers use it; it collapses under strong compression.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..base.arrays import Array
from .elastic_density import ElasticMaterial


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
