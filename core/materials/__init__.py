"""Potential energies, without damping.

An energy maps positions (n, 3) m to a value in J, the gradient (n, 3) N (the negative forces) and a sparse Hessian
(3n, 3n) N/m. To add one, add a file here and list the class below, in ELASTIC_MODELS (elastic densities of solids) or
in MEMBRANES (sheets).
"""

from __future__ import annotations

from .dead_load import DeadLoad
from .elastic_density import ElasticDensity, ElasticMaterial
from .membrane import Corotational, Fabric, Membrane, StVKMembrane
from .pressure import Pressure
from .rod_bending import RodBending
from .sewing import Sewing
from .shell_bending import ShellBending
from .soft_pins import SoftPins
from .stable_neo_hookean import StableNeoHookean
from .strain_energy import Energy, StrainEnergy
from .stvk import StVK
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
