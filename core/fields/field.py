"""Parameters of a force field at one time, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ..arrays import Array


class Kind(Enum):
    """Type of a force field; see forces.FORCES."""

    WIND = 0
    FORCE = 1
    VORTEX = 2
    MAGNET = 3
    HARMONIC = 4
    TURBULENCE = 5
    DRAG = 6


class Shape(Enum):
    """Source of a field: its location, the plane through it normal to its axis, or the line along its axis."""

    POINT = 0
    PLANE = 1
    LINE = 2


class Within(Enum):
    """Falloff variables: distance (SPHERE), axial and radial distance (TUBE), or axial distance and angle (CONE)."""

    SPHERE = 0
    TUBE = 1
    CONE = 2


class Side(Enum):
    """Side of the plane normal to its axis on which a field acts."""

    BOTH = 0
    POSITIVE = 1
    NEGATIVE = 2


@dataclass(frozen=True)
class Fade:
    """Falloff of the strength with a distance r: (1 + r - min)^-power, 1 below min and 0 beyond max.

    min, max: m, or degrees; None for no limit.
    """

    power: float = 0.0
    least: float | None = None
    most: float | None = None

    def __call__(self, r: Array) -> Array:
        """Return the fraction (n,) of the strength at distances (n,)."""
        past = np.maximum(r - (self.least or 0.0), 0.0) if self.least is not None else r
        found = (1.0 + past) ** -self.power
        return found if self.most is None else np.where(r > self.most, 0.0, found)

    def numbers(self) -> list[float]:
        return [self.power, *(np.nan if limit is None else limit for limit in (self.least, self.most))]


@dataclass(frozen=True)
class Field:
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

    kind: Kind
    shape: Shape
    place: Array
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
    within: Within = Within.SPHERE
    fade: Fade = field(default_factory=Fade)
    across: Fade = field(default_factory=Fade)
    side: Side = Side.BOTH

    def numbers(self) -> Array:
        """Return all parameters in one row."""
        found: list[float] = []
        for value in vars(self).values():
            if isinstance(value, Enum):
                found.append(float(value.value))
            elif isinstance(value, Fade):
                found += value.numbers()
            else:
                found += np.ravel(np.asarray(value, dtype=float)).tolist()
        return np.array(found)


@dataclass(frozen=True)
class Outside:
    """Gravity and force fields that act on a body at one time.

    gravity: (3,) m/s^2, of the scene.
    fields: force fields that affect the body.
    """

    gravity: Array
    fields: tuple[Field, ...] = ()

    def numbers(self) -> Array:
        """Return all parameters in one row."""
        return np.concatenate([self.gravity, *(one.numbers() for one in self.fields)])
