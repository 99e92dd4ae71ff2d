"""Potential energies. None of them contains damping.

An energy maps positions (n, 3) m to a value in J, forces' negative (the gradient, (n, 3) N) and a sparse Hessian
(3n, 3n) N/m. A new one is one file here and one line in ELASTIC_MODELS (elastic densities) below.
"""

from __future__ import annotations

from typing import Protocol

from scipy.sparse import csr_matrix

from ..arrays import Array
from .load import DeadLoad
from .pins import SoftPins
from .stable_neo_hookean import StableNeoHookean
from .stvk import StVK
from .tetrahedra import ElasticDensity, Material, TetElasticity


class Energy(Protocol):
    """What the step needs of a potential energy."""

    @property
    def rounding(self) -> float:
        """Differences of values up to this are rounding, J."""
        ...

    def value_gradient(self, positions: Array) -> tuple[float, Array]: ...

    def hessian(self, positions: Array, project: bool) -> csr_matrix: ...


ELASTIC_MODELS: tuple[type[ElasticDensity], ...] = (StableNeoHookean, StVK)

__all__ = [
    "ELASTIC_MODELS",
    "DeadLoad",
    "ElasticDensity",
    "Energy",
    "Material",
    "SoftPins",
    "StVK",
    "StableNeoHookean",
    "TetElasticity",
]
