"""Scenes whose objects are animated by functions of the frame, object by object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dampsim.core.fields.field import ExternalForces
from dampsim.core.scene.body import Body, BodySample, ColliderSample, SceneSample
from dampsim.core.scene.muscles import SensorInputs
from dampsim.core.scene.parameters import ColliderSettings, Settings
from dampsim.core.scene.scene import Collider, Scene

Motion = Callable[[float], np.ndarray]
"""Function from a frame to the animated vertices (v, 3) m."""


@dataclass(frozen=True)
class AnimatedBody(Body):
    """Body with functions of the frame; None for what stays as it is. Use it in an AnimatedScene."""

    motion: Motion | None = None
    settings_by_frame: Callable[[float], Settings] | None = None
    external_forces: Callable[[float], ExternalForces] | None = None
    sensor_inputs: Callable[[float], SensorInputs] | None = None
    pins_by_frame: Callable[[float], np.ndarray] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_animated_settings", self.settings_by_frame is not None)

    def vertices_at(self, frame: float) -> np.ndarray:
        return self.surface.vertices if self.motion is None else self.motion(frame)

    def settings_at(self, frame: float) -> Settings:
        return self.settings if self.settings_by_frame is None else self.settings_by_frame(frame)

    def sample(self, frame: float) -> BodySample:
        forces = None if self.external_forces is None else self.external_forces(frame)
        inputs = None if self.sensor_inputs is None else self.sensor_inputs(frame)
        pins = None if self.pins_by_frame is None else self.pins_by_frame(frame)
        return BodySample(self.vertices_at(frame), self.settings_at(frame), forces, inputs, pins)


@dataclass(frozen=True)
class AnimatedCollider(Collider):
    """Collider with functions of the frame; None for what stays as it is. Use it in an AnimatedScene."""

    motion: Motion | None = None
    settings_by_frame: Callable[[float], ColliderSettings] | None = None

    def vertices_at(self, frame: float) -> np.ndarray:
        return self.vertices if self.motion is None else self.motion(frame)

    def sample(self, frame: float) -> ColliderSample:
        settings = ColliderSettings() if self.settings_by_frame is None else self.settings_by_frame(frame)
        return ColliderSample(self.vertices_at(frame), settings)


@dataclass(frozen=True)
class AnimatedScene(Scene):
    """Scene that samples its animated bodies and colliders. Other objects stay at rest."""

    def __post_init__(self) -> None:
        # A copy with other objects must sample those. A sampler from elsewhere stays.
        if self.sampler is None or getattr(self.sampler, "__func__", None) is AnimatedScene._sample_objects:
            object.__setattr__(self, "sampler", self._sample_objects)

    def _sample_objects(self, frame: float) -> SceneSample:
        rest = self.rest_sample(frame)
        bodies = (
            body.sample(frame) if isinstance(body, AnimatedBody) else one
            for body, one in zip(self.bodies, rest.bodies, strict=True)
        )
        colliders = (
            collider.sample(frame) if isinstance(collider, AnimatedCollider) else one
            for collider, one in zip(self.colliders, rest.colliders, strict=True)
        )
        return SceneSample(frame, tuple(bodies), rest.anchors, tuple(colliders))
