"""Rayleigh damping, C = alpha M + beta K+(x) ([SRD] 3.5): the bad reference of that paper; it damps turning too.

K+ is the positive part of the tangent stiffness, element by element, so that C never feeds; where nothing is crushed it
is the stiffness itself. alpha damps absolute motion, as syrup around the body would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.sparse import csr_matrix, diags

from ..arrays import Array
from ..energies import Energy
from .damping import DampedBody, Damping, added


def beta(body: DampedBody) -> float:
    """2 zeta/sqrt(lambda_1) in s: gives the first mode the dialled damping ratio."""
    return 2.0 * float(body.dials["damping_ratio"]) / math.sqrt(body.eigenvalue)


@dataclass(frozen=True)
class StiffnessDrag:
    """C = beta K+(x) of energies. beta: s, times the factor on the energies.

    whole: K(x) as it is, [SRD] (11), which may feed where an element is crushed; for the papers' pages.
    """

    energies: tuple[Energy, ...]
    beta: float
    whole: bool = False

    def matrix(self, positions: Array) -> csr_matrix:
        return (self.beta * added([energy.hessian(positions, not self.whole) for energy in self.energies])).tocsr()


class Rayleigh(Damping):
    name = "RAYLEIGH"
    label = "Rayleigh"
    text = "Damped by the stiffness matrix, as most solvers do; a stretched body is slowed when it turns"
    parameters = ("damping_ratio", "alpha")
    linear = angular = False

    def matrix(self, positions: Array) -> csr_matrix:
        scale = beta(self.body) * self.body.stiffness
        stiff = StiffnessDrag(self.body.block.energies, scale).matrix(positions)
        alpha = float(self.body.dials["alpha"])
        if alpha == 0.0:
            return stiff
        return (stiff + alpha * diags(self.body.block.mass.repeat(3))).tocsr()
