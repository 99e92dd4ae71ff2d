"""All dampings of the papers. A new one is one file in damping/ or dissipation/ and one line here."""

from __future__ import annotations

from .direct import Direct
from .method import Method, Subject
from .point import Point
from .rayleigh import Rayleigh
from .spring import Spring, WholeSpring
from .strain_rate import StrainRate
from .traditional import Traditional

METHODS: tuple[type[Method], ...] = (
    Point,
    Spring,
    WholeSpring,
    Direct,
    StrainRate,
    Rayleigh,
    Traditional,
)

__all__ = ["METHODS", "Method", "Subject"]
