"""Rayleigh damping, C = alpha M + beta K+(x) ([SRD] 3.5): that paper's negative example, as it damps rotation too.

K+ is the positive part of the tangent stiffness, element by element, so that C never adds energy. It is the stiffness
itself where nothing is compressed. alpha damps absolute motion, like a viscous fluid around the body.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.sparse import csr_matrix, diags

from ...base.arrays import Array
from ...materials import Energy
from .damping import DampedBody, Damping, sum_matrices


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
