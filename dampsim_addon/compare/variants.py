"""Simulation of an object with other parameters, for ghosts and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from ...core import PARAMETERS, Body, Frame, Scene, Simulation
from ...core.scene.fingerprint import model_fingerprint
from ...core.simulation.assembly import Assembly
from ..jobs.prepare import prepare_simulation
from ..work.steps import Step

Value = TypeVar("Value")


class Variants:
    """Simulations of variants that share the animation and equal models: each frame is read once.

    Keyframed parameters that are not varied keep their animation.
    """

    def __init__(self, core_scene: Scene, name: str) -> None:
        """name: the body whose parameters vary."""
        self.name = name
        bodies = []
        for body in core_scene.bodies:
            motion = _CachedReader(body.motion)
            dials = None if body.settings_by_frame is None else _CachedReader(body.settings_by_frame)
            outside = None if body.external_forces is None else _CachedReader(body.external_forces)
            # Parameters, external forces and sensors can be read only at the frame at which the motion was just read.
            watched = None if body.sensor_inputs is None else _CachedReader(body.sensor_inputs)
            motion.dependents = tuple(one for one in (dials, outside, watched) if one is not None)
            bodies.append(
                replace(body, motion=motion, settings_by_frame=dials, external_forces=outside, sensor_inputs=watched)
            )
        anchors = tuple(replace(one, motion=_CachedReader(one.motion)) for one in core_scene.anchors)
        colliders = []
        for one in core_scene.colliders:
            motion = _CachedReader(one.motion)
            numbers = None if one.settings_by_frame is None else _CachedReader(one.settings_by_frame)
            motion.dependents = () if numbers is None else (numbers,)
            colliders.append(replace(one, motion=motion, settings_by_frame=numbers))
        self.core_scene = replace(core_scene, bodies=tuple(bodies), anchors=anchors, colliders=tuple(colliders))
        self._assemblies: dict[str, Assembly] = {}

    def prepare(self, values: Mapping[str, object]) -> Generator[Step, None, Simulation]:
        """Return the simulation with these parameter values. Raises DampSimError."""
        checked_values = {name: PARAMETERS[name].validate(value) for name, value in values.items()}

        def with_values(body: Body) -> Body:
            if body.name != self.name:
                return body
            read_dials = body.settings_by_frame
            dials = None if read_dials is None else lambda frame: replace(read_dials(frame), **checked_values)
            return replace(body, settings=replace(body.settings, **checked_values), settings_by_frame=dials)

        scene = replace(self.core_scene, bodies=tuple(with_values(body) for body in self.core_scene.bodies))
        fingerprint = model_fingerprint(scene)
        simulation = yield from prepare_simulation(scene, self._assemblies.get(fingerprint))
        self._assemblies[fingerprint] = simulation.assembly
        return simulation


class _CachedReader(Generic[Value]):
    """Reader that caches its values by frame.

    dependents: readers that must read at the same visit of a frame.
    """

    def __init__(self, read: Callable[[float], Value]) -> None:
        self._read = read
        self._values: dict[float, Value] = {}
        self.dependents: tuple[Callable[[float], object], ...] = ()

    def __call__(self, frame: float) -> Value:
        if frame not in self._values:
            self._values[frame] = self._read(frame)
            for other in self.dependents:
                other(frame)
        return self._values[frame]


def simulate_all_frames(simulation: Simulation, index: int, count: int) -> Generator[Step, None, list[Frame]]:
    """Simulate all frames and return them. index, count: position among several simulations, for the progress."""
    scene = simulation.scene
    total = scene.last - scene.first + 1
    for done, parts in simulation.prepare_first_frame():
        yield Step(done, parts, "Preparing")
    frames = []
    for frame in simulation.frames():
        frames.append(frame)
        yield Step(index * total + len(frames), count * total, "Simulating")
    return frames
