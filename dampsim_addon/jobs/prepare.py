"""Preparation of a simulation in a background thread, so that the window stays responsive."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Generic, TypeVar

from ...core import Body, Collider, Scene, Simulation
from ...core.simulation.assembly import Assembly
from ..work.background_thread import run_in_thread
from ..work.steps import Step, map_steps

Value = TypeVar("Value")


class _FirstFrameReader(Generic[Value]):
    """Reader that returns the value of one frame while a thread runs that must not access Blender.

    live: once True, it reads from Blender.
    """

    def __init__(self, read: Callable[[float], Value], frame: float) -> None:
        self._read, self._frame = read, frame
        self._first = read(frame)
        self.live = False

    def __call__(self, frame: float) -> Value:
        if self.live:
            return self._read(frame)
        assert frame == self._frame
        return self._first


def prepare_simulation(core_scene: Scene, assembly: Assembly | None = None) -> Generator[Step, None, Simulation]:
    """Build a simulation and its first frame in a background thread.

    assembly: assembly of a scene with the same model fingerprint, to be reused.
    """
    yield Step(0, 1, "Preparing")
    first = float(core_scene.first)
    readers: list[_FirstFrameReader[object]] = []

    def first_frame_reader(read: Callable[[float], Value]) -> _FirstFrameReader[Value]:
        reader = _FirstFrameReader(read, first)
        readers.append(reader)  # type: ignore[arg-type]
        return reader

    def freeze_body(body: Body) -> Body:
        motion = first_frame_reader(body.motion)
        # Parameters, external forces and sensors can be read only at the frame at which the motion was just read.
        dials = None if body.settings_by_frame is None else first_frame_reader(body.settings_by_frame)
        outside = None if body.external_forces is None else first_frame_reader(body.external_forces)
        watched = None if body.sensor_inputs is None else first_frame_reader(body.sensor_inputs)
        return replace(body, motion=motion, settings_by_frame=dials, external_forces=outside, sensor_inputs=watched)

    def freeze_collider(collider: Collider) -> Collider:
        motion = first_frame_reader(collider.motion)
        dials = None if collider.settings_by_frame is None else first_frame_reader(collider.settings_by_frame)
        return replace(collider, motion=motion, settings_by_frame=dials)

    scene = replace(
        core_scene,
        bodies=tuple(freeze_body(body) for body in core_scene.bodies),
        anchors=tuple(replace(anchor, motion=first_frame_reader(anchor.motion)) for anchor in core_scene.anchors),
        colliders=tuple(freeze_collider(collider) for collider in core_scene.colliders),
    )

    stages: list[str] = []
    # Each body needs a simulation mesh and its natural frequency; then follow the hanging shape and the first frame.
    total = (0 if assembly else 2 * len(scene.bodies)) + 2 + any(body.settings.keep_shape for body in scene.bodies)

    def build_simulation() -> Simulation:
        result = Simulation(scene, assembly, report_progress=stages.append)
        stages.append("the first frame")
        result.precompute()
        return result

    def progress_step(_: None) -> Step:
        done = min(max(len(stages) - 1, 0), total - 1)
        return Step(done, total, f"Preparing: {stages[-1]}" if stages else "Preparing")

    simulation = yield from map_steps(run_in_thread(build_simulation), progress_step)
    for one in readers:
        one.live = True
    return simulation
