"""Samples of a scene: all inputs that depend on the frame, read together at one time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.arrays import Array
from ..fields.field import ExternalForces
from .muscles import SensorInputs
from .parameters import ColliderSettings, Settings


@dataclass(frozen=True)
class BodySample:
    """Body at one time.

    vertices: (v, 3) m, animated, in world space.
    settings: of which only animatable ones are used; those of the body unless Body.has_animated_settings.
    external_forces: gravity and force fields; None if there is only the scene's constant gravity.
    sensor_inputs: animated inputs of the muscle controller; None if it has none.
    pins: (v,) evaluated pin weights; None if they are those of the body.
    """

    vertices: Array
    settings: Settings | None = None
    external_forces: ExternalForces | None = None
    sensor_inputs: SensorInputs | None = None
    pins: Array | None = None


@dataclass(frozen=True)
class ColliderSample:
    """Collider at one time. vertices: (v, 3) m, animated, in world space."""

    vertices: Array
    settings: ColliderSettings = field(default_factory=ColliderSettings)


@dataclass(frozen=True)
class SceneSample:
    """Scene at one time, with its objects in the scene's order.

    frame: may be fractional.
    anchors: (v, 3) m of each anchor, animated, in world space.
    """

    frame: float
    bodies: tuple[BodySample, ...]
    anchors: tuple[Array, ...] = ()
    colliders: tuple[ColliderSample, ...] = ()

    @property
    def settings(self) -> tuple[Settings, ...]:
        """Settings of each body, in a sample by Scene.sample()."""
        return tuple(body.settings for body in self.bodies if body.settings is not None)

    def with_body(self, index: int, **changes: Any) -> SceneSample:
        """Return the sample with other fields of one body."""
        changed = replace(self.bodies[index], **changes)
        return replace(self, bodies=(*self.bodies[:index], changed, *self.bodies[index + 1 :]))


Sampler = Callable[[float], SceneSample]
"""Function from a frame, which may be fractional, to the sample of a scene there."""
