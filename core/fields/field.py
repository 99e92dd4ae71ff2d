"""One force field at one time, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ..arrays import Array


class Kind(Enum):
    """What a field does; see forces.FORCES."""

    WIND = 0
    FORCE = 1
    VORTEX = 2
    MAGNET = 3
    HARMONIC = 4
    TURBULENCE = 5
    DRAG = 6


class Shape(Enum):
    """What a field comes from: its place, the plane through it across its axis, or the line along its axis."""

    POINT = 0
    PLANE = 1
    LINE = 2


class Within(Enum):
    """What its strength falls off with: the distance; that along the axis and across it; that along it and an angle."""

    SPHERE = 0
    TUBE = 1
    CONE = 2


class Side(Enum):
    """The side of the plane across its axis on which a field acts."""

    BOTH = 0
    POSITIVE = 1
    NEGATIVE = 2


@dataclass(frozen=True)
class Fade:
    """How strength fades with a distance r: by (1 + r - least)^-power, by nothing below least, to nothing beyond most.

    least, most: m, or degrees; None where there is no such limit.
    """

    power: float = 0.0
    least: float | None = None
    most: float | None = None

    def __call__(self, r: Array) -> Array:
        """(n,) of what is there at distances (n,)."""
        past = np.maximum(r - (self.least or 0.0), 0.0) if self.least is not None else r
        found = (1.0 + past) ** -self.power
        return found if self.most is None else np.where(r > self.most, 0.0, found)

    def numbers(self) -> list[float]:
        return [self.power, *(np.nan if limit is None else limit for limit in (self.least, self.most))]


@dataclass(frozen=True)
class Field:
    """A force field.

    kind: what it does.
    shape: what it comes from.
    place: (3,) m, where it stands.
    axis: (3,), of length 1.
    strength: m/s^2 for a wind or a force; see forces for the others.
    damping: second number of Harmonic and Drag.
    flow: 1/s, how fast it slows what it acts on.
    size: m, of turbulence.
    rest_length: m, of Harmonic.
    gravitation: whether a force falls off with the distance squared as well.
    noise: how far the strength flickers.
    seed: of noise and turbulence.
    fixed_pattern: whether turbulence stays in place when the field moves.
    within, fade, across, side: where it acts; across is for the second distance, see Within.
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
        """Everything about it, in one row."""
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
    """What acts on a body from outside at one time.

    gravity: (3,) m/s^2, of the scene.
    fields: that reach it.
    """

    gravity: Array
    fields: tuple[Field, ...] = ()

    def numbers(self) -> Array:
        """Everything about it, in one row."""
        return np.concatenate([self.gravity, *(one.numbers() for one in self.fields)])
