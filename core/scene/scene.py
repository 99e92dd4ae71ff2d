"""What Blender hands over: plain arrays, metres and seconds, world space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..errors import PinError, SceneError
from ..geometry.surface import Surface, check_surface
from .parameters import Settings

Motion = Callable[[float], Array]
"""The positions (v, 3) m that the artist's animation gives the surface at a frame, fractions included."""


# No animation goes farther, m; numbers beyond it are mistakes, and lose their digits.
_FAR = 1e9


@dataclass(frozen=True)
class Body:
    """surface: at rest.  pins: (v,) weights 0 to 1 with which the vertices follow the animation.

    settle_map: (v,) parts of the settle time.  stiffness_map: (v,) 0 to 1, see bodies.volume; None where not painted.
    """

    surface: Surface
    pins: Array
    settings: Settings
    settle_map: Array | None = None
    stiffness_map: Array | None = None


@dataclass(frozen=True)
class Scene:
    """fps: frames per second.  gravity: (3,) m/s^2.  first, last: frames, both included.

    dials: the settings at a frame, of which the animatable ones count; body.settings where nothing is keyframed.
    deforming: whether the animation bends the mesh, beyond moving it as a whole.
    """

    body: Body
    motion: Motion
    fps: float
    gravity: Array
    first: int
    last: int
    dials: Callable[[float], Settings] | None = None
    deforming: bool = False

    @property
    def carrier(self) -> str:
        """The carrier in force: PINS, MESH or NONE."""
        chosen = self.body.settings.carrier
        if chosen != "AUTO":
            return chosen
        return "MESH" if self.deforming else "PINS"

    def settings(self, frame: float) -> Settings:
        """At a frame for which the motion was just asked."""
        return self.body.settings if self.dials is None else self.dials(frame)


def check_scene(scene: Scene) -> None:
    """Raise one of the errors for the artist where the scene cannot be simulated."""
    name = scene.body.surface.name
    check_surface(scene.body.surface)
    if not scene.fps > 0.0:
        raise SceneError(f"{name}: the frame rate is {scene.fps:g} per second; set one above zero.")
    if scene.last < scene.first:
        raise SceneError(f"{name}: the frame range {scene.first} to {scene.last} is empty; set an end after its start.")
    for weights in (scene.body.pins, scene.body.settle_map, scene.body.stiffness_map):
        if weights is not None and weights.shape != (len(scene.body.surface.vertices),):
            raise PinError(f"{name}: the painted weights do not fit the mesh; choose the vertex groups again.")
    check_motion(name, scene.motion(float(scene.first)), len(scene.body.surface.vertices), float(scene.first))


def check_motion(name: str, positions: Array, count: int, frame: float) -> None:
    if positions.shape != (count, 3):
        raise SceneError(
            f"{name}: the mesh has {len(positions)} vertices at frame {frame:g} instead of {count}; "
            "move the modifier that changes them below the deforming ones."
        )
    if not float(np.abs(positions).max(initial=0.0)) < _FAR:
        raise SceneError(
            f"{name}: the animation gives vertices no valid position at frame {frame:g}; check its drivers."
        )
