"""Sampling of animated surfaces and keyframed dials, with digests that detect changed inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace

import numpy as np

from ..arrays import Array
from ..fields.field import Outside
from ..scene.fingerprint import digest
from ..scene.muscles import Watched
from ..scene.parameters import ColliderDials, Settings
from ..scene.scene import Scene


@dataclass(frozen=True)
class Animated:
    """Scene at one time, in world space.

    bodies, colliders: (v, 3) m each, in the scene's order.
    outside: external forces on each body, see Body; empty if not sampled.
    frame: may be fractional.
    obstacles: (v, 3) m each with their dials, in the scene's order.
    settings: of each body; empty for those at the first frame.
    watched: sensor inputs of each body's muscle controller; empty if not sampled.
    """

    bodies: tuple[Array, ...]
    colliders: tuple[Array, ...] = ()
    outside: tuple[Outside | None, ...] = ()
    frame: float = 0.0
    obstacles: tuple[tuple[Array, ColliderDials], ...] = ()
    settings: tuple[Settings, ...] = ()
    watched: tuple[Watched | None, ...] = ()


@dataclass(frozen=True)
class Sampled:
    """Inputs of one frame.

    number: of the frame.
    samples: the scene at the end of each substep.
    settings: of each body at those times.
    substep_count: substeps that the dials at the frame's end require.
    digests: of all these inputs, by body and collider.
    """

    number: int
    animated: tuple[Animated, ...]
    settings: tuple[tuple[Settings, ...], ...]
    count: int
    digests: Mapping[str, str]


class Sampling:
    """Sampler of a scene's frames."""

    def __init__(self, scene: Scene, substeps: Callable[[tuple[Settings, ...]], int]) -> None:
        """Store the scene and a function that returns the substep count for the settings of all bodies."""
        self._scene, self._substeps = scene, substeps

    def times(self, number: int, before: int) -> list[float]:
        """Return the times, in frames, at which the inputs of a frame are sampled.

        before: substep count of the previous frame, see FrameInputs.
        """
        if number == self._scene.first:
            return [float(number)]
        return [number - 1 + part / before for part in range(1, before)] + [float(number)]

    def sampled(self, number: int, before: int = 1) -> Sampled:
        """Return the inputs of a frame. before: substep count of the previous frame."""
        bodies = self._scene.bodies
        if any(body.dials is not None for body in bodies):
            # The host can read dials only at the time at which motion was last sampled.
            self.animated(float(number))
        count = self._substeps(self._settings(float(number)))
        animated, settings = [], []
        for frame in self.times(number, max(before, count)):
            now = self.animated(frame)
            settings.append(self._settings(frame))
            animated.append(replace(now, settings=settings[-1]))
        digests = {}
        for k, body in enumerate(bodies):
            dials = np.array([one[k].animated for one in settings])
            surfaces = [one.bodies[k] for one in animated]
            more = self._outside(k, animated, settings)
            if self._scene.touching:
                more.append(np.array([one[k].grip for one in settings]))
            flows = [one[k].flow for one in settings]
            if any(flows):
                more += [np.array(one) for one in flows]
            if body.fibre_map is not None:
                more.append(np.array([one[k].contraction for one in settings]))
            watched = animated[-1].watched[k] if animated[-1].watched else None
            if watched is not None:
                more += [watched.forced, watched.targets]
            digests[body.name] = digest(dials, *surfaces, *more)
        for k, collider in enumerate(self._scene.colliders):
            digests[collider.name] = digest(*(one.colliders[k] for one in animated))
        for k, obstacle in enumerate(self._scene.obstacles):
            there = [one.obstacles[k] for one in animated]
            numbers = np.array([astuple(dials) for _, dials in there])
            # The same object may also be an anchor of links.
            mark = f"{obstacle.name} as a collider"
            digests[mark] = digest(numbers, *(vertices for vertices, _ in there))
        return Sampled(number, tuple(animated), tuple(settings), count, digests)

    def animated(self, frame: float) -> Animated:
        """Return the scene at a frame. All of one frame is sampled before the next one."""
        bodies = tuple(body.animated(frame) for body in self._scene.bodies)
        # Like dials, these can be read only at the time at which motion was last sampled.
        outside = tuple(None if body.outside is None else body.outside(frame) for body in self._scene.bodies)
        watched = tuple(None if body.watched is None else body.watched(frame) for body in self._scene.bodies)
        anchors = tuple(one.motion(frame) for one in self._scene.colliders)
        obstacles = tuple((one.animated(frame), one.at(frame)) for one in self._scene.obstacles)
        return Animated(bodies, anchors, outside, frame, obstacles, watched=watched)

    def _outside(self, body: int, animated: list[Animated], settings: list[tuple[Settings, ...]]) -> list[Array]:
        """Return the arrays that describe a body's external forces in a frame; empty for constant gravity alone."""
        there = [one.outside[body] for one in animated]
        weights = np.array([one[body].weights for one in settings])
        found = [one.numbers() for one in there if one is not None]
        return [weights, *found] if found or (weights != 1.0).any() else []

    def _settings(self, frame: float) -> tuple[Settings, ...]:
        return tuple(body.at(frame) for body in self._scene.bodies)
