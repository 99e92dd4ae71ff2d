"""Every parameter once."""

from __future__ import annotations

from .parameter import Affects, Choice, Parameter
from .settings import PARAMETERS, TOLERANCES, Settings

__all__ = ["PARAMETERS", "TOLERANCES", "Affects", "Choice", "Parameter", "Settings"]
