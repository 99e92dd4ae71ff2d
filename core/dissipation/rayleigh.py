"""Rayleigh damping with the full tangent stiffness, C = beta K(x): the bad reference of [SRD]; it damps turning too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy.sparse import csr_matrix

from ..arrays import Array
from ..damping.method import Method

if TYPE_CHECKING:
    from ..damping.method import Subject


def beta(subject: Subject) -> float:
    """2 zeta/sqrt(lambda_1) in s: gives the first mode the dialled damping ratio."""
    return 2.0 * subject.settings.damping_ratio / math.sqrt(subject.eigenvalue)


class Rayleigh(Method):
    name = "RAYLEIGH"
    label = "Rayleigh"
    text = "Damped by the stiffness matrix, as most solvers do; a stretched body is slowed when it turns"
    parameters = ("damping_ratio",)
    angular = False

    def matrix(self, positions: Array) -> csr_matrix:
        total = None
        for energy in self.subject.system.energies:
            part = energy.hessian(positions, True)
            total = part if total is None else total + part
        assert total is not None
        return (beta(self.subject) * self.subject.stiffness * total).tocsr()
