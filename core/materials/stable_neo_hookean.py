"""Stable Neo-Hookean elasticity: Smith, de Goes, Kim, *Stable Neo-Hookean Flesh Simulation*, 2018, eq. (14)-(16).

    Psi = mu/2 (I_C - 3) + lambda/2 (J - alpha)^2 - mu/2 log(I_C + 1),   I_C = tr(F^T F), J = det F

It is robust to inversion and stress-free for F = I. Its mu and lambda are chosen so that small strains obey Hooke's law
with the material's Lamé parameters (section 3.4 of the paper).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..base.arrays import Array
from .elastic_density import ElasticMaterial, cofactor


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
