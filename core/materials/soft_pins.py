"""Springs of zero length to animated targets: from nodes, E = sum k_i/2 |x_i - target_i|^2, or from means of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags, kron

from ..base.arrays import Array, Index, take_rows


@dataclass(frozen=True)
class SoftPins:
    """Springs from nodes to targets. nodes: (p,).  stiffness: (p,) N/m.  targets: (p, 3) m."""

    nodes: Index
    stiffness: Array
    targets: Array
    rounding: ClassVar[float] = 0.0
    has_constant_hessian: ClassVar[bool] = True

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        offset = take_rows(positions, self.nodes) - self.targets
        pull = self.stiffness[:, None] * offset
        gradient = np.zeros_like(positions)
        gradient[self.nodes] = pull
        return 0.5 * float(np.vdot(pull, offset)), gradient

    def with_nodal_scale(self, factors: Array) -> SoftPins:
        return replace(self, stiffness=self.stiffness * factors[self.nodes])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        diagonal = np.zeros(positions.shape)
        diagonal[self.nodes] = self.stiffness[:, None]
        return diags(diagonal.ravel()).tocsr()


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
