"""The way from a scene to a simulation that is ready, without holding up the window."""

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
    """What was read at one frame, for a thread that must not ask Blender; afterwards, what Blender says."""

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
    """Make the simulation ready in a thread of its own, so that the window goes on living.

    known: of a scene with the same model fingerprint.
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
        # Dials, and what acts from outside, can be read only where the motion was just asked.
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
    # Each body is filled and its swings are found, and then it hangs.
    total = (0 if known else 2 * len(scene.bodies)) + 2 + any(body.settings.keep_shape for body in scene.bodies)

    def ready() -> Simulation:
        made = Simulation(scene, known, tell=begun.append)
        begun.append("its first frame")
        made.prime()
        return made

    def told(_: None) -> Step:
        done = min(max(len(begun) - 1, 0), total - 1)
        return Step(done, total, f"Preparing, {begun[-1]}" if begun else "Preparing")

    simulation = yield from each(computed(ready), told)
    for one in recalled:
        one.aloud = True
    return simulation
