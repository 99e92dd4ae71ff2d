"""Scene that reads all moving inputs from stored samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ...core.fields.field import ExternalForces
from ...core.scene.body import Body, Motion
from ...core.scene.collider import Collider
from ...core.scene.muscles import SensorInputs
from ...core.scene.parameters import ColliderSettings, Settings
from ...core.scene.scene import Scene
from .live_frame import Sample

# Returns the sample at a time (frames) of the input with a key.
ReadSample = Callable[[float, str], Sample]
Value = TypeVar("Value")


def collider_sample_key(obstacle: str) -> str:
    """Return the sample key of a collider. Links may use the plain name of the same object."""
    return f"{obstacle} as a collider"


def scene_from_samples(core_scene: Scene, read: ReadSample) -> Scene:
    """Return the scene with all motions, keyed parameters, external forces and sensors taken from samples."""

    def motion(name: str) -> Motion:
        return lambda time: read(time, name).positions

    def body(one: Body) -> Body:
        name = one.identity

        def settings(time: float) -> Settings:
            return _required(read(time, name).settings)

        def outside(time: float) -> ExternalForces:
            return _required(read(time, name).outside)

        def watched(time: float) -> SensorInputs:
            return _required(read(time, name).watched)

        return replace(
            one,
            motion=motion(name),
            settings_by_frame=settings if one.settings_by_frame else None,
            external_forces=outside if one.external_forces else None,
            sensor_inputs=watched if one.sensor_inputs else None,
        )

    def collider(one: Collider) -> Collider:
        name = collider_sample_key(one.name)

        def dials(time: float) -> ColliderSettings:
            return _required(read(time, name).collider)

        return replace(one, motion=motion(name), settings_by_frame=dials)

    return replace(
        core_scene,
        bodies=tuple(body(one) for one in core_scene.bodies),
        anchors=tuple(replace(one, motion=motion(one.name)) for one in core_scene.anchors),
        colliders=tuple(collider(one) for one in core_scene.colliders),
    )


def _required(value: Value | None) -> Value:
    assert value is not None
    return value
