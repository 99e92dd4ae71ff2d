"""Damping models from the literature. To add one, add a file in this folder and its class to DAMPINGS."""

from __future__ import annotations

from .damping import DampedBody, Damping
from .velocity_dampings import DirectDamping, PointDamping, SpringDamping, UnprojectedSpringDamping
from .viscous_dampings import RayleighDamping, StrainRateDamping, TraditionalDamping

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
