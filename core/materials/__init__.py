"""Potential energies, without damping.

An energy maps positions (n, 3) m to a value in J, the gradient (n, 3) N (the negative forces) and a sparse Hessian
(3n, 3n) N/m. To add one, add a file here and list the class below, in ELASTIC_MODELS (elastic densities of solids) or
in MEMBRANES (sheets).
"""

from __future__ import annotations

from .elastic_density import ElasticDensity, ElasticMaterial, StableNeoHookean, StVK
from .loads_and_springs import DeadLoad, Pressure, Sewing, SoftPins
from .membrane import Corotational, Fabric, Membrane, StVKMembrane
from .rod_bending import RodBending
from .shell_bending import ShellBending
from .strain_energy import Energy, StrainEnergy
from .tetrahedra import TetElasticity

ELASTIC_MODELS: tuple[type[ElasticDensity], ...] = (StableNeoHookean, StVK)
MEMBRANES: tuple[type[Membrane], ...] = (Corotational, StVKMembrane)

__all__ = [
    "ELASTIC_MODELS",
    "MEMBRANES",
    "Corotational",
    "DeadLoad",
    "ElasticDensity",
    "ElasticMaterial",
    "Energy",
    "Fabric",
    "Membrane",
    "Pressure",
    "RodBending",
    "Sewing",
    "ShellBending",
    "SoftPins",
    "StVK",
    "StVKMembrane",
    "StableNeoHookean",
    "StrainEnergy",
    "TetElasticity",
]
