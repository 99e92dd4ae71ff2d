"""All dampings of the papers. A new one is one file in damping/ or dissipation/ and one line here."""

from __future__ import annotations

from .damping.direct import Direct
from .damping.method import Method, Subject
from .damping.point import Point
from .damping.spring import Spring, WholeSpring
from .dissipation.rayleigh import Rayleigh
from .dissipation.strain_rate import StrainRate
from .dissipation.traditional import Traditional

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
