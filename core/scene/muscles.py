"""Muscles and sensors: springs that a simple state machine switches by its sensors ([Ctl])."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ..base.arrays import Array, Index
from ..base.errors import SceneError


class SensorType(StrEnum):
    """Quantity that a sensor measures."""

    LENGTH = "LENGTH"
    CONTACT = "CONTACT"
    DISTANCE = "DISTANCE"


class MuscleOverride(StrEnum):
    """Control of a muscle: by its sensors (AUTO), or forced off or on by a keyframe."""

    AUTO = "AUTO"
    OFF = "OFF"
    ON = "ON"


MUSCLE_OVERRIDES = tuple(MuscleOverride)
"""All values of MuscleOverride; SensorInputs.overrides holds indices into this tuple."""


@dataclass(frozen=True)
class Muscle:
    """Springs with a different length, stiffness and damping while switched on.

    name: unique among the body's muscles.
    edges: (k, 2) vertices of the body's edges.
    length: rest length while on, relative to that while off.
    stiffness, stiffness_on: stiffness while off and on, relative to that of the edge without the muscle.
    damping, damping_on: s, damping coefficient divided by stiffness, in the off and the on state.
    threshold: the muscle is requested on if the weights of its active sensors add up to more than this.
    delay: frames for which the request must last.  fps: frames per second to which the delay refers.
    weights: one weight per sensor of the controller, in their order.
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
    """Binary sensor, active if low <= value <= high.

    name: unique among the body's sensors.
    sense: the measured quantity.
    edges: (k, 2) edges of a LENGTH sensor. Its value is their total length, relative to that at rest.
    vertices: (k,) vertices of the other sensors. A CONTACT sensor measures the contact force in N, and is active if
        that is above zero, whatever its limits. A DISTANCE sensor measures the distance in m from the mean of the
        vertices to the target.
    target: index of the target of a DISTANCE sensor in SensorInputs.targets.
    """

    name: str
    sense: SensorType = SensorType.LENGTH
    low: float = 0.0
    high: float = math.inf
    edges: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    vertices: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    target: int = -1

    def is_active(self, value: float) -> bool:
        if self.sense == SensorType.CONTACT:
            return value > 0.0
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Controller:
    """Muscles and sensors of one body."""

    muscles: tuple[Muscle, ...]
    sensors: tuple[Sensor, ...] = ()

    def delays(self, fps: float) -> Array:
        """Return the delay (m,) of each muscle in frames at a frame rate, rounded to the nearest frame."""
        return np.array([math.floor(one.delay * fps / one.fps + 0.5) for one in self.muscles], dtype=float)

    def weights(self) -> Array:
        """Return the weight (m, s) of each sensor in the sum of each muscle."""
        return np.array([one.weights for one in self.muscles], dtype=float).reshape(
            len(self.muscles), len(self.sensors)
        )

    def numbers(self) -> list[Array]:
        """Return all values of the controller as arrays, for digests."""
        found = []
        for one in self.muscles:
            springs = (one.length, one.stiffness, one.stiffness_on, one.damping, one.damping_on)
            found += [np.array([*springs, one.threshold, one.delay, one.fps, *one.weights]), one.edges.astype(float)]
        for sensor in self.sensors:
            limits = (list(SensorType).index(sensor.sense), sensor.low, sensor.high, sensor.target)
            found += [np.array(limits), sensor.edges.astype(float), sensor.vertices.astype(float)]
        return found


@dataclass(frozen=True)
class SensorInputs:
    """Animated inputs of a body's controller at a frame.

    overrides: (m,) index in MUSCLE_OVERRIDES of each muscle's override.
    targets: (t, 3) m, positions of the sensors' targets.
    """

    overrides: Array
    targets: Array = field(default_factory=lambda: np.zeros((0, 3)))


def check_controller(name: str, controller: Controller) -> None:
    """Raise SceneError if a controller is invalid. name: name of the body."""
    for one in controller.muscles:
        if not len(one.edges):
            raise SceneError(
                f"{name}: muscle {one.name} has no edges; select some in Edit Mode and press Assign, or remove it."
            )
        if len(one.weights) != len(controller.sensors):
            raise SceneError(
                f"{name}: muscle {one.name} has {len(one.weights)} weights for {len(controller.sensors)} sensors; "
                "give it one weight per sensor."
            )
        if not min(one.length, one.stiffness, one.stiffness_on) > 0.0:
            raise SceneError(f"{name}: muscle {one.name} has no length or stiffness; set them above 0.")
        if not min(one.damping, one.damping_on) >= 0.0:
            raise SceneError(f"{name}: muscle {one.name} has a negative damping; set it to 0 or above.")
    for sensor in controller.sensors:
        if sensor.sense == SensorType.LENGTH and not len(sensor.edges):
            raise SceneError(f"{name}: sensor {sensor.name} has no edges; choose a muscle, or assign edges to it.")
        if sensor.sense != SensorType.LENGTH and not len(sensor.vertices):
            raise SceneError(f"{name}: sensor {sensor.name} has no vertices; choose a vertex group that is not empty.")
        if sensor.sense == SensorType.DISTANCE and sensor.target < 0:
            raise SceneError(f"{name}: sensor {sensor.name} has no target; choose an object.")
