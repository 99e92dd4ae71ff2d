"""Springs of zero length from points of rigid pieces to their targets, E = sum k_i/2 |(W (x - t))_i|^2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags, kron

from ..base.arrays import Array


@dataclass(frozen=True)
class Attachments:
    """Springs between points, which are weighted means of nodes, and the places to which targets of nodes move them.

    operator: (c, n), W.  stiffness: (c,) N/m.  targets: (n, 3) m, t; those of nodes without weight are not used.
    """

    operator: csr_matrix
    stiffness: Array
    targets: Array
    rounding: ClassVar[float] = 0.0
    has_constant_hessian: ClassVar[bool] = True

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        offset = self.operator @ (positions - self.targets)
        pull = self.stiffness[:, None] * offset
        return 0.5 * float(np.vdot(pull, offset)), np.asarray(self.operator.T @ pull)

    def with_nodal_scale(self, factors: Array) -> Attachments:
        return replace(self, stiffness=self.stiffness * (self.operator @ factors))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return kron(self.operator.T @ diags(self.stiffness) @ self.operator, np.eye(3), format="csr")
