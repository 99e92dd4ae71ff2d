"""Parameters of simulated objects and colliders: defaults, ranges, labels and tooltips."""

from __future__ import annotations

from .choices import Accuracy, Along, BounceBy, DampingBy, Depth, Front, Reference, StiffnessBy, Struts
from .contact import COLLIDER_PARAMETERS, ColliderDials
from .parameter import Affects, Choice, Parameter
from .settings import PARAMETERS, TOLERANCES, Settings

__all__ = [
    "COLLIDER_PARAMETERS",
    "PARAMETERS",
    "TOLERANCES",
    "Accuracy",
    "Affects",
    "Along",
    "BounceBy",
    "Choice",
    "ColliderDials",
    "DampingBy",
    "Depth",
    "Front",
    "Parameter",
    "Reference",
    "Settings",
    "StiffnessBy",
    "Struts",
]
