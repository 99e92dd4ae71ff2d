"""Simulation of an object with other parameters, for ghosts and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from ...core.frames.frame import Frame
from ...core.scene.body import Body
from ...core.scene.fingerprint import model_fingerprint
from ...core.scene.parameters import PARAMETERS
from ...core.scene.scene import Scene
from ...core.simulation.assembly import Assembly
from ...core.simulation.simulation import Simulation
from ..jobs.prepare import prepared
from ..work.steps import Step

Read = TypeVar("Read")


class Variants:
    """Simulations of variants that share the animation and equal models: each frame is read once.

    Keyframed parameters that are not varied keep their animation.
    """

    def __init__(self, taken: Scene, name: str) -> None:
        """name: the body whose parameters vary."""
        self.name = name
        bodies = []
        for body in taken.bodies:
            motion = _Once(body.motion)
            dials = None if body.dials is None else _Once(body.dials)
            outside = None if body.outside is None else _Once(body.outside)
            # Parameters, external forces and sensors can be read only at the frame at which the motion was just read.
            watched = None if body.watched is None else _Once(body.watched)
            motion.then = tuple(one for one in (dials, outside, watched) if one is not None)
            bodies.append(replace(body, motion=motion, dials=dials, outside=outside, watched=watched))
        colliders = tuple(replace(one, motion=_Once(one.motion)) for one in taken.colliders)
        obstacles = []
        for one in taken.obstacles:
            motion = _Once(one.motion)
            numbers = None if one.dials is None else _Once(one.dials)
            motion.then = () if numbers is None else (numbers,)
            obstacles.append(replace(one, motion=motion, dials=numbers))
        self.taken = replace(taken, bodies=tuple(bodies), colliders=colliders, obstacles=tuple(obstacles))
        self._known: dict[str, Assembly] = {}

    def prepared(self, values: Mapping[str, object]) -> Generator[Step, None, Simulation]:
        """Return the simulation with these parameter values. Raises DampSimError."""
        changed = {name: PARAMETERS[name].checked(value) for name, value in values.items()}

        def varied(body: Body) -> Body:
            if body.name != self.name:
                return body
            asked = body.dials
            dials = None if asked is None else lambda frame: replace(asked(frame), **changed)
            return replace(body, settings=replace(body.settings, **changed), dials=dials)

        scene = replace(self.taken, bodies=tuple(varied(body) for body in self.taken.bodies))
        mark = model_fingerprint(scene)
        simulation = yield from prepared(scene, self._known.get(mark))
        self._known[mark] = simulation.assembly
        return simulation


class _Once(Generic[Read]):
    """Reader that caches its values by frame.

    dependents: readers that must read at the same visit of a frame.
    """

    def __init__(self, ask: Callable[[float], Read]) -> None:
        self._ask = ask
        self._found: dict[float, Read] = {}
        self.then: tuple[Callable[[float], object], ...] = ()

    def __call__(self, frame: float) -> Read:
        if frame not in self._found:
            self._found[frame] = self._ask(frame)
            for other in self.then:
                other(frame)
        return self._found[frame]


def simulated(simulation: Simulation, which: int, of: int) -> Generator[Step, None, list[Frame]]:
    """Simulate all frames and return them. index, count: position among several simulations, for the progress."""
    scene = simulation.scene
    total = scene.last - scene.first + 1
    for done, parts in simulation.warm_up():
        yield Step(done, parts, "Preparing")
    frames = []
    for frame in simulation.frames():
        frames.append(frame)
        yield Step(which * total + len(frames), of * total, "Simulating")
    return frames
