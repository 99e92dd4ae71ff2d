"""Muscles and sensors: springs that a simple machine switches, and what it looks at ([Ctl])."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ..arrays import Array, Index
from ..errors import SceneError


class Sense(StrEnum):
    """What a sensor looks at."""

    LENGTH = "LENGTH"
    CONTACT = "CONTACT"
    DISTANCE = "DISTANCE"


class Force(StrEnum):
    """Whether its sensors switch a muscle, or a keyframe does."""

    AUTO = "AUTO"
    OFF = "OFF"
    ON = "ON"


FORCES = tuple(Force)
"""In the order of their numbers in Watched."""


@dataclass(frozen=True)
class Muscle:
    """Springs that have another length, stiffness and damping while they are on.

    name: unique among the body's muscles.
    edges: (k, 2) vertices of the body's edges.
    length: rest length while on, in parts of the one while off.
    stiffness, stiffness_on: N/m while off and on, in parts of what the edge has without the muscle.
    damping, damping_on: s, the damper beside each spring while off and on, over its stiffness then, N s/m over N/m.
    threshold: it wants to be on where its sensors' weights add up to more.
    delay: frames that it has to want so.  fps: frames per second in which that is dialled.
    weights: of the controller's sensors, in their order.
    """

    name: str
    edges: Index
    length: float = 0.7
    stiffness: float = 1.0
    stiffness_on: float = 1.0
    damping: float = 0.0
    damping_on: float = 0.0
    threshold: float = 1.0
    delay: int = 0
    weights: tuple[float, ...] = ()
    fps: float = 24.0


@dataclass(frozen=True)
class Sensor:
    """Reads 1 where low <= value <= high, else 0.

    name: unique among the body's sensors.
    sense: what the value is.
    edges: (k, 2) of a LENGTH, whose value is their length in parts of that at rest, of all of them together.
    vertices: (k,) of the others. The value of a CONTACT is how hard they are pressed, N; it reads 1 where they are,
        whatever its limits. That of a DISTANCE is how far their middle is from the target, m.
    target: the place of a DISTANCE's target among those of Watched.
    """

    name: str
    sense: Sense = Sense.LENGTH
    low: float = 0.0
    high: float = math.inf
    edges: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    vertices: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    target: int = -1

    def reads(self, value: float) -> bool:
        if self.sense == Sense.CONTACT:
            return value > 0.0
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Controller:
    """Of one body."""

    muscles: tuple[Muscle, ...]
    sensors: tuple[Sensor, ...] = ()

    def delays(self, fps: float) -> Array:
        """(m,) frames that each muscle waits at a frame rate: as long, to the nearest frame."""
        return np.array([math.floor(one.delay * fps / one.fps + 0.5) for one in self.muscles], dtype=float)

    def weights(self) -> Array:
        """(m, s) of each sensor in each muscle's sum."""
        return np.array([one.weights for one in self.muscles], dtype=float).reshape(
            len(self.muscles), len(self.sensors)
        )

    def numbers(self) -> list[Array]:
        """All that the machine is made of, for digests."""
        found = []
        for one in self.muscles:
            springs = (one.length, one.stiffness, one.stiffness_on, one.damping, one.damping_on)
            found += [np.array([*springs, one.threshold, one.delay, one.fps, *one.weights]), one.edges.astype(float)]
        for sensor in self.sensors:
            limits = (list(Sense).index(sensor.sense), sensor.low, sensor.high, sensor.target)
            found += [np.array(limits), sensor.edges.astype(float), sensor.vertices.astype(float)]
        return found


@dataclass(frozen=True)
class Watched:
    """What the animation tells a body's machine at a frame.

    forced: (m,) of each muscle the place of its Force in FORCES.
    targets: (t, 3) m, where the sensors' targets are.
    """

    forced: Array
    targets: Array = field(default_factory=lambda: np.zeros((0, 3)))


Watching = Callable[[float], Watched]
"""At a frame for which the body's motion was just asked."""


def check_controller(name: str, controller: Controller) -> None:
    """Raise SceneError where a machine cannot work. name: of the body."""
    for one in controller.muscles:
        if not len(one.edges):
            raise SceneError(
                f"{name}: muscle {one.name} has no edges; select some in Edit Mode and press Assign, or remove it."
            )
        if len(one.weights) != len(controller.sensors):
            raise SceneError(
                f"{name}: muscle {one.name} has {len(one.weights)} weights for {len(controller.sensors)} sensors; "
                "give it one for each."
            )
        if not min(one.length, one.stiffness, one.stiffness_on) > 0.0:
            raise SceneError(f"{name}: muscle {one.name} has no length or stiffness; set them above 0.")
        if not min(one.damping, one.damping_on) >= 0.0:
            raise SceneError(f"{name}: muscle {one.name} has a negative damping; set it to 0 or above.")
    for sensor in controller.sensors:
        if sensor.sense == Sense.LENGTH and not len(sensor.edges):
            raise SceneError(f"{name}: sensor {sensor.name} has no edges; choose a muscle, or assign edges to it.")
        if sensor.sense != Sense.LENGTH and not len(sensor.vertices):
            raise SceneError(f"{name}: sensor {sensor.name} has no vertices; choose a vertex group with some in it.")
        if sensor.sense == Sense.DISTANCE and sensor.target < 0:
            raise SceneError(f"{name}: sensor {sensor.name} has no target; choose an object.")
