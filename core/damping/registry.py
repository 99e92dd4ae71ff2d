"""Registry of all dampings. To add one, add a file in this folder and its class to DAMPINGS."""

from __future__ import annotations

from .damping import DampedBody, Damping
from .direct import Direct
from .point import Point
from .rayleigh import Rayleigh
from .spring import Spring, WholeSpring
from .strain_rate import StrainRate
from .traditional import Traditional

DAMPINGS: tuple[type[Damping], ...] = (
    Point,
    Spring,
    WholeSpring,
    Direct,
    StrainRate,
    Rayleigh,
    Traditional,
)

__all__ = ["DAMPINGS", "DampedBody", "Damping"]
