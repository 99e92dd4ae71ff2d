"""Registry of all dampings. To add one, add a file in this folder and its class to DAMPINGS."""

from __future__ import annotations

from .damping import DampedBody, Damping
from .direct import DirectDamping
from .point import PointDamping
from .rayleigh import RayleighDamping
from .spring import SpringDamping, UnprojectedSpringDamping
from .strain_rate import StrainRateDamping
from .traditional import TraditionalDamping

DAMPINGS: tuple[type[Damping], ...] = (
    PointDamping,
    SpringDamping,
    UnprojectedSpringDamping,
    DirectDamping,
    StrainRateDamping,
    RayleighDamping,
    TraditionalDamping,
)

__all__ = ["DAMPINGS", "DampedBody", "Damping"]
