"""Preparation of a simulation in a background thread, so that the window stays responsive."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Generic, TypeVar

from ...core.scene.body import Body
from ...core.scene.collider import Obstacle
from ...core.scene.scene import Scene
from ...core.simulation.assembly import Assembly
from ...core.simulation.simulation import Simulation
from ..work.background import computed
from ..work.steps import Step, each

Read = TypeVar("Read")


class _Recalled(Generic[Read]):
    """Reader that returns the value of one frame while a thread runs that must not access Blender.

    live: once True, it reads from Blender.
    """

    def __init__(self, ask: Callable[[float], Read], frame: float) -> None:
        self._ask, self._frame = ask, frame
        self._first = ask(frame)
        self.aloud = False

    def __call__(self, frame: float) -> Read:
        if self.aloud:
            return self._ask(frame)
        assert frame == self._frame
        return self._first


def prepared(taken: Scene, known: Assembly | None = None) -> Generator[Step, None, Simulation]:
    """Build a simulation and its first frame in a background thread.

    assembly: assembly of a scene with the same model fingerprint, to be reused.
    """
    yield Step(0, 1, "Preparing")
    first = float(taken.first)
    recalled: list[_Recalled[object]] = []

    def recall(ask: Callable[[float], Read]) -> _Recalled[Read]:
        one = _Recalled(ask, first)
        recalled.append(one)  # type: ignore[arg-type]
        return one

    def still(body: Body) -> Body:
        motion = recall(body.motion)
        # Parameters, external forces and sensors can be read only at the frame at which the motion was just read.
        dials = None if body.dials is None else recall(body.dials)
        outside = None if body.outside is None else recall(body.outside)
        watched = None if body.watched is None else recall(body.watched)
        return replace(body, motion=motion, dials=dials, outside=outside, watched=watched)

    def standing(obstacle: Obstacle) -> Obstacle:
        motion = recall(obstacle.motion)
        return replace(obstacle, motion=motion, dials=None if obstacle.dials is None else recall(obstacle.dials))

    scene = replace(
        taken,
        bodies=tuple(still(body) for body in taken.bodies),
        colliders=tuple(replace(collider, motion=recall(collider.motion)) for collider in taken.colliders),
        obstacles=tuple(standing(obstacle) for obstacle in taken.obstacles),
    )

    begun: list[str] = []
    # Each body needs a simulation mesh and its natural frequency; then follow the hanging shape and the first frame.
    total = (0 if known else 2 * len(scene.bodies)) + 2 + any(body.settings.keep_shape for body in scene.bodies)

    def ready() -> Simulation:
        made = Simulation(scene, known, tell=begun.append)
        begun.append("the first frame")
        made.prime()
        return made

    def told(_: None) -> Step:
        done = min(max(len(begun) - 1, 0), total - 1)
        return Step(done, total, f"Preparing: {begun[-1]}" if begun else "Preparing")

    simulation = yield from each(computed(ready), told)
    for one in recalled:
        one.aloud = True
    return simulation
