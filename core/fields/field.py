"""Parameters of a force field at one time, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ..base.arrays import Array


class ForceFieldType(Enum):
    """Type of a force field; see forces.FORCES."""

    WIND = 0
    FORCE = 1
    VORTEX = 2
    MAGNET = 3
    HARMONIC = 4
    TURBULENCE = 5
    DRAG = 6


class ForceFieldShape(Enum):
    """Source of a field: its location, the plane through it normal to its axis, or the line along its axis."""

    POINT = 0
    PLANE = 1
    LINE = 2


class FalloffType(Enum):
    """Falloff variables: distance (SPHERE), axial and radial distance (TUBE), or axial distance and angle (CONE)."""

    SPHERE = 0
    TUBE = 1
    CONE = 2


class ForceFieldSide(Enum):
    """Side of the plane normal to its axis on which a field acts."""

    BOTH = 0
    POSITIVE = 1
    NEGATIVE = 2


@dataclass(frozen=True)
class Falloff:
    """Falloff of the strength with a distance r: (1 + r - min)^-power, 1 below min and 0 beyond max.

    min, max: m, or degrees; None for no limit.
    """

    power: float = 0.0
    min: float | None = None
    max: float | None = None

    def __call__(self, r: Array) -> Array:
        """Return the fraction (n,) of the strength at distances (n,)."""
        past = np.maximum(r - (self.min or 0.0), 0.0) if self.min is not None else r
        found = (1.0 + past) ** -self.power
        return found if self.max is None else np.where(r > self.max, 0.0, found)

    def numbers(self) -> list[float]:
        return [self.power, *(np.nan if limit is None else limit for limit in (self.min, self.max))]


@dataclass(frozen=True)
class ForceField:
    """Force field of Blender.

    kind: type of the field.
    shape: source of the field.
    location: (3,) m.
    axis: (3,) unit vector.
    strength: m/s^2 for Wind and Force; see forces for the others.
    damping: damping of Harmonic, linear coefficient of Drag.
    flow: 1/s, drag rate of the field on moving nodes.
    size: m, size of the turbulence.
    rest_length: m, of Harmonic.
    gravitation: whether Force also falls off with the squared distance.
    noise: amplitude of the random variation of the strength.
    seed: seed of noise and turbulence.
    fixed_pattern: whether turbulence stays in place when the field moves.
    falloff_type, falloff, second_falloff, side: region in which it acts; see FalloffType for the second variable.
    """

    kind: ForceFieldType
    shape: ForceFieldShape
    location: Array
    axis: Array
    strength: float = 1.0
    damping: float = 0.0
    flow: float = 0.0
    size: float = 0.0
    rest_length: float = 0.0
    gravitation: bool = False
    noise: float = 0.0
    seed: int = 0
    fixed_pattern: bool = False
    falloff_type: FalloffType = FalloffType.SPHERE
    falloff: Falloff = field(default_factory=Falloff)
    second_falloff: Falloff = field(default_factory=Falloff)
    side: ForceFieldSide = ForceFieldSide.BOTH

    def numbers(self) -> Array:
        """Return all parameters in one row."""
        found: list[float] = []
        for value in vars(self).values():
            if isinstance(value, Enum):
                found.append(float(value.value))
            elif isinstance(value, Falloff):
                found += value.numbers()
            else:
                found += np.ravel(np.asarray(value, dtype=float)).tolist()
        return np.array(found)


@dataclass(frozen=True)
class ExternalForces:
    """Gravity and force fields that act on a body at one time.

    gravity: (3,) m/s^2, of the scene.
    fields: force fields that affect the body.
    """

    gravity: Array
    fields: tuple[ForceField, ...] = ()

    def numbers(self) -> Array:
        """Return all parameters in one row."""
        return np.concatenate([self.gravity, *(one.numbers() for one in self.fields)])
