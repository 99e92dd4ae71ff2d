"""Rayleigh damping with the full tangent stiffness, C = beta K(x): the bad reference of [SRD]; it damps turning too."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.sparse import csr_matrix

from ..arrays import Array
from ..energies import Energy
from .damping import DampedBody, Damping, added


def beta(body: DampedBody) -> float:
    """2 zeta/sqrt(lambda_1) in s: gives the first mode the dialled damping ratio."""
    return 2.0 * float(body.dials["damping_ratio"]) / math.sqrt(body.eigenvalue)


@dataclass(frozen=True)
class StiffnessDrag:
    """C = beta K(x) of energies. beta: s, times the factor on the energies."""

    energies: tuple[Energy, ...]
    beta: float

    def matrix(self, positions: Array) -> csr_matrix:
        return (self.beta * added([energy.hessian(positions, True) for energy in self.energies])).tocsr()


class Rayleigh(Damping):
    name = "RAYLEIGH"
    label = "Rayleigh"
    text = "Damped by the stiffness matrix, as most solvers do; a stretched body is slowed when it turns"
    parameters = ("damping_ratio",)
    angular = False

    def matrix(self, positions: Array) -> csr_matrix:
        scale = beta(self.body) * self.body.stiffness
        return StiffnessDrag(self.body.block.energies, scale).matrix(positions)
