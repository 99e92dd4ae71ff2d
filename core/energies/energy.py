"""The interface of a potential energy."""

from __future__ import annotations

from typing import Protocol

from scipy.sparse import csr_matrix

from ..arrays import Array


class Energy(Protocol):
    """What the step needs of a potential energy."""

    @property
    def rounding(self) -> float:
        """Differences of values up to this are rounding, J."""
        ...

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """The value in J and its gradient (n, 3) in N at positions (n, 3) m."""
        ...

    def scaled(self, parts: Array) -> Energy:
        """The same with each element's share times the mean of parts (n,) at its nodes."""
        ...

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """(3n, 3n) N/m; with project, positive semi-definite."""
        ...
