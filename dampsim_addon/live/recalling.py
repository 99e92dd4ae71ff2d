"""Scene that reads all moving inputs from stored samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ...core.fields.field import Outside
from ...core.scene.body import Body, Motion
from ...core.scene.collider import Obstacle
from ...core.scene.muscles import Watched
from ...core.scene.parameters import ColliderDials, Settings
from ...core.scene.scene import Scene
from .kept import Read

# Returns the sample at a time (frames) of the input with a key.
Reading = Callable[[float, str], Read]
Value = TypeVar("Value")


def mark_of(obstacle: str) -> str:
    """Return the sample key of a collider. Links may use the plain name of the same object."""
    return f"{obstacle} as a collider"


def recalling(taken: Scene, read: Reading) -> Scene:
    """Return the scene with all motions, keyed parameters, external forces and sensors taken from samples."""

    def motion(name: str) -> Motion:
        return lambda time: read(time, name).positions

    def body(one: Body) -> Body:
        name = one.identity

        def settings(time: float) -> Settings:
            return _there(read(time, name).settings)

        def outside(time: float) -> Outside:
            return _there(read(time, name).outside)

        def watched(time: float) -> Watched:
            return _there(read(time, name).watched)

        return replace(
            one,
            motion=motion(name),
            dials=settings if one.dials else None,
            outside=outside if one.outside else None,
            watched=watched if one.watched else None,
        )

    def obstacle(one: Obstacle) -> Obstacle:
        name = mark_of(one.name)

        def dials(time: float) -> ColliderDials:
            return _there(read(time, name).collider)

        return replace(one, motion=motion(name), dials=dials)

    return replace(
        taken,
        bodies=tuple(body(one) for one in taken.bodies),
        colliders=tuple(replace(one, motion=motion(one.name)) for one in taken.colliders),
        obstacles=tuple(obstacle(one) for one in taken.obstacles),
    )


def _there(found: Value | None) -> Value:
    assert found is not None
    return found
