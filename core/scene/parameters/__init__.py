"""Every parameter once."""

from __future__ import annotations

from .choices import Accuracy, BounceBy, DampingBy, Reference, StiffnessBy, Struts
from .parameter import Affects, Choice, Parameter
from .settings import PARAMETERS, TOLERANCES, Settings

__all__ = [
    "PARAMETERS",
    "TOLERANCES",
    "Accuracy",
    "Affects",
    "BounceBy",
    "Choice",
    "DampingBy",
    "Parameter",
    "Reference",
    "Settings",
    "StiffnessBy",
    "Struts",
]
