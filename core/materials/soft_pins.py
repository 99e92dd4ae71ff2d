"""Soft pins: springs of zero length from nodes to animated targets, E = sum k_i/2 |x_i - target_i|^2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags

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
