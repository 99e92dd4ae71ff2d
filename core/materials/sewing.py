"""Seams: zero-length springs between pairs of nodes at any distance, E = sum k/2 |x_a - x_b|^2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags, identity, kron

from ..base.arrays import Array, Index


@dataclass(frozen=True)
class Sewing:
    """Sewing springs. pairs: (s, 2) nodes.  stiffness: (s,) N/m.  node_count: n."""

    pairs: Index
    stiffness: Array
    node_count: int
    rounding: ClassVar[float] = 0.0
    has_constant_hessian: ClassVar[bool] = True

    @cached_property
    def _difference_operator(self) -> csr_matrix:
        """Difference operator (s, n): the first minus the second node of each pair."""
        rows = np.arange(len(self.pairs)).repeat(2)
        signs = np.tile([1.0, -1.0], len(self.pairs))
        return csr_matrix((signs, (rows, self.pairs.ravel())), shape=(len(self.pairs), self.node_count))

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        offset = self._difference_operator @ positions
        pull = self.stiffness[:, None] * offset
        return 0.5 * float(np.vdot(pull, offset)), np.asarray(self._difference_operator.T @ pull)

    def with_nodal_scale(self, factors: Array) -> Sewing:
        return replace(self, stiffness=self.stiffness * factors[self.pairs].mean(axis=1))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        one = self._difference_operator.T @ diags(self.stiffness) @ self._difference_operator
        return kron(one, identity(3), format="csr")
