"""Potential energies. None of them contains damping.

An energy maps positions (n, 3) m to a value in J, forces' negative (the gradient, (n, 3) N) and a sparse Hessian
(3n, 3n) N/m. A new one is one file here and its name in ELASTIC_MODELS (elastic densities) below.
"""

from __future__ import annotations

from .density import ElasticDensity, Material
from .energy import Energy
from .load import DeadLoad
from .pins import SoftPins
from .stable_neo_hookean import StableNeoHookean
from .strain_energy import StrainEnergy
from .stvk import StVK
from .tetrahedra import TetElasticity

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
    "StrainEnergy",
    "TetElasticity",
]
