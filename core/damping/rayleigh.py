"""Rayleigh damping with the full tangent stiffness, C = beta K(x): the bad reference of [SRD]; it damps turning too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.sparse import csr_matrix

from ..arrays import Array
from ..energies import Energy
from .method import Method

if TYPE_CHECKING:
    from .method import Subject


def beta(subject: Subject) -> float:
    """2 zeta/sqrt(lambda_1) in s: gives the first mode the dialled damping ratio."""
    return 2.0 * subject.settings.damping_ratio / math.sqrt(subject.eigenvalue)


@dataclass(frozen=True)
class StiffnessDrag:
    """C = beta K(x) of energies. beta: s, times the factor on the energies."""

    energies: tuple[Energy, ...]
    beta: float

    def matrix(self, positions: Array) -> csr_matrix:
        parts = [energy.hessian(positions, True) for energy in self.energies]
        return (self.beta * sum(parts[1:], parts[0])).tocsr()


class Rayleigh(Method):
    name = "RAYLEIGH"
    label = "Rayleigh"
    text = "Damped by the stiffness matrix, as most solvers do; a stretched body is slowed when it turns"
    parameters = ("damping_ratio",)
    angular = False

    def matrix(self, positions: Array) -> csr_matrix:
        scale = beta(self.subject) * self.subject.stiffness
        return StiffnessDrag(self.subject.system.energies, scale).matrix(positions)
