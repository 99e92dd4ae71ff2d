"""Parameters of simulated objects and colliders: defaults, ranges, labels and tooltips."""

from __future__ import annotations

from .choices import (
    Accuracy,
    BounceBy,
    DampingBy,
    ExitDirection,
    FibreDirection,
    FrontDirection,
    ReferenceChoice,
    StiffnessBy,
    Struts,
)
from .contact import COLLIDER_PARAMETERS, ColliderSettings
from .damping import ViscosityBy
from .parameter import AffectedPart, Choice, Parameter
from .settings import PARAMETERS, TOLERANCES, Settings

__all__ = [
    "COLLIDER_PARAMETERS",
    "PARAMETERS",
    "TOLERANCES",
    "Accuracy",
    "AffectedPart",
    "BounceBy",
    "Choice",
    "ColliderSettings",
    "DampingBy",
    "ExitDirection",
    "FibreDirection",
    "FrontDirection",
    "Parameter",
    "ReferenceChoice",
    "Settings",
    "StiffnessBy",
    "Struts",
    "ViscosityBy",
]
