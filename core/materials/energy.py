"""The interface of a potential energy."""

from __future__ import annotations

from typing import Protocol

from scipy.sparse import csr_matrix

from ..base.arrays import Array


class Energy(Protocol):
    """Potential energy of nodal positions, as used by time steps and static solves."""

    @property
    def rounding(self) -> float:
        """Rounding error of values in J: smaller differences are not significant."""
        ...

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """Return the value in J and its gradient (n, 3) in N at positions (n, 3) m."""
        ...

    def with_nodal_scale(self, factors: Array) -> Energy:
        """Return this energy with each element's part multiplied by the mean of factors (n,) at its nodes."""
        ...

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) in N/m, projected to positive semi-definite if `project`."""
        ...
