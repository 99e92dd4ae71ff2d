"""Potential of a constant force (dead load), E = -f . x."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array


@dataclass(frozen=True)
class DeadLoad:
    """Constant nodal forces. force: (n, 3) N."""

    force: Array
    rounding: ClassVar[float] = 0.0

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        return -float(np.vdot(self.force, positions)), -self.force

    def with_nodal_scale(self, factors: Array) -> DeadLoad:
        return replace(self, force=self.force * factors[:, None])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return csr_matrix((positions.size, positions.size))
