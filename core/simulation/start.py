"""First frame of a shot: at rest in its first pose, after a preroll, or in the middle of a loop."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..arrays import Array
from ..errors import SceneError
from ..frames.frame import Frame
from ..geometry.rigid import rigid_motion
from ..scene.scene import Scene
from ..system.state import State
from ..system.weave import has_weave
from .dials import Dials
from .posing import Pose, Posing
from .sampling import Animated, Sampled
from .statics import Statics, held

# Fraction of the preroll during which the pose changes; the motion decays in the rest.
_RAMP = 0.6
# A loop is closed once another cycle moves no node by more than this fraction of the size, or after the most cycles.
_CLOSED = 1e-4
_MOST_CYCLES = 40
# A resting body may sink by this fraction of its size and tilt by the angle with this cosine. Beyond that, it fell.
_LEFT, _UPRIGHT = 0.25, 0.98
# Two animated surfaces have the same pose if no vertex differs by more than this fraction of the size.
_SAME = 1e-4


class Stepping(Protocol):
    """Part of Simulation that the functions here need."""

    scene: Scene
    posing: Posing
    statics: Statics
    dials: Dials

    def sampled(self, number: int, before: int = 1) -> Sampled: ...

    def step(self, state: State, pose: Pose, sampled: Sampled) -> tuple[State, Pose, int, int]: ...

    def shapes(self, state: State, animated: Animated) -> dict[str, Array]: ...


def warm_up(stepping: Stepping) -> Generator[tuple[int, int], None, tuple[Frame, float]]:
    """Find the first frame.

    Yield (done, total). Return the first Frame and the closing error of a loop relative to the size. Raises SceneError
    if a loop has no cycle.
    """
    scene, statics = stepping.scene, stepping.statics
    sampled = stepping.sampled(scene.first)
    animated = sampled.animated[-1]
    state = _joined(stepping, [stepping.posing.at_rest(island, animated) for island in statics.islands])
    preroll = max(body.settings.preroll for body in scene.bodies)
    if preroll:
        state = yield from _preroll(stepping, sampled, preroll)
    parts = []
    for number, island in enumerate(statics.islands):
        own = [scene.bodies[k].settings for k in island.bodies]
        part = island.own(state)
        contracts = any(one.contraction for one in own)
        hangs = all(one.start_settled for one in own) and held(island)
        if contracts and not hangs and not preroll:
            # Without settling, the fibres start relaxed, and the body would jump when released.
            part = statics.drawn(number, animated, part)
        if all(one.start_settled for one in own):
            factors = statics.factors(number, own)
            if held(island):
                part = _hung(statics, number, animated, factors, part if preroll or contracts else None)
                part = statics.blown(number, animated, factors, part)
            elif not preroll:
                part = _laid(statics, number, animated, factors, part)
        parts.append(part)
    state, error = _joined(stepping, parts), 0.0
    if scene.loop:
        state, error = yield from _loop(stepping, sampled, state)
    return Frame(scene.first, state, stepping.shapes(state, animated), sampled.digests, 0), error


def _hung(statics: Statics, island: int, animated: Animated, factors: Array, begun: State | None) -> State:
    """Return the state in which a constrained island hangs or leans on its contacts. initial: start of the search."""
    system = statics.islands[island].system
    touches = system.contact is not None
    if begun is None and not touches:
        begun = statics.hanging(island, factors)
        if not has_weave(system):
            return begun
    return statics.settled_pose(island, animated, factors, begun, touching=touches, slides=True)


def _laid(statics: Statics, island: int, animated: Animated, factors: Array, begun: State) -> State:
    """Return the state in which an unconstrained island rests on its contacts.

    Return the initial state if it touches nothing, or if it would fall off.
    """
    there = statics.islands[island]
    if there.system.contact is None or not there.system.gravity.any() or not statics.lies(island, animated, begun):
        return begun
    found = statics.settled_pose(island, animated, factors, begun, touching=True)
    for block, part in zip(there.system.blocks, there.system.slices, strict=True):
        turn, _ = rigid_motion(begun.positions[part], found.positions[part])
        moved = found.positions[part].mean(axis=0) - begun.positions[part].mean(axis=0)
        if np.linalg.norm(moved) > _LEFT * block.size or np.trace(turn) < 1.0 + 2.0 * _UPRIGHT:
            return begun
    return found


def _joined(stepping: Stepping, states: list[State]) -> State:
    time = stepping.scene.first / stepping.scene.fps
    whole = State.joined(states)
    return State(time, whole.positions, whole.velocities, whole.reference, whole.memory)


def _preroll(stepping: Stepping, first: Sampled, count: int) -> Generator[tuple[int, int], None, State]:
    """Return the state after a preroll of count frames from the rigidly placed rest shape to the first pose."""
    scene, goal = stepping.scene, first.animated[-1]
    begin = []
    for body, there in zip(scene.bodies, goal.bodies, strict=True):
        turn, shift = rigid_motion(body.surface.vertices, there)
        begin.append(body.surface.vertices @ turn.T + shift)

    settings = first.settings[-1]

    def blend(part: float) -> Animated:
        t = min(part / _RAMP, 1.0)
        ramp = t * t * (3.0 - 2.0 * t)
        surfaces = tuple(np.asarray(a + ramp * (b - a)) for a, b in zip(begin, goal.bodies, strict=True))
        fibres = tuple(replace(one, contraction=ramp * one.contraction) for one in settings)
        return replace(goal, bodies=surfaces, settings=fibres)

    parts = stepping.dials.most_substeps(settings)
    animated = blend(0.0)
    state = State.joined([stepping.posing.at_rest(island, animated) for island in stepping.statics.islands])
    pose = stepping.posing.pose(animated)
    for frame in range(1, count + 1):
        way = tuple(blend((frame - 1 + part / parts) / count) for part in range(1, parts + 1))
        step = Sampled(first.number - count + frame, way, (settings,) * parts, parts, {})
        state, pose, *_ = stepping.step(state, pose, step)
        yield frame, count
    return _joined(stepping, [state])


def _loop(stepping: Stepping, first: Sampled, state: State) -> Generator[tuple[int, int], None, tuple[State, float]]:
    """Return the state at the first frame after enough cycles, and the relative change in the last cycle."""
    scene = stepping.scene
    size = min(body.surface.size for body in scene.bodies)
    end = _cycle_end(stepping, first.animated[-1])
    change = np.inf
    for cycle in range(_MOST_CYCLES):
        pose, count, before = stepping.posing.pose(first.animated[-1]), first.count, state
        for number in range(scene.first + 1, end + 1):
            sampled = stepping.sampled(number, count)
            state, pose, *_ = stepping.step(state, pose, sampled)
            count = sampled.count
            # The number of cycles is unknown, so progress is measured by how far the change has fallen.
            near = min(max(np.log(max(change, _CLOSED)) / np.log(_CLOSED), 0.0), 0.99)
            yield round(100 * max(near, cycle / _MOST_CYCLES)), 100
        state = _joined(stepping, [state])
        change = float(np.abs(state.positions - before.positions).max()) / size
        if change <= _CLOSED:
            break
    return state, float(change)


def _cycle_end(stepping: Stepping, first: Animated) -> int:
    """Return the frame at which the animation repeats the first frame: the last frame or the one after it."""
    scene = stepping.scene
    for number in (scene.last, scene.last + 1):
        if number > scene.first:
            there = stepping.sampled(number).animated[-1]
            near = [
                float(np.abs(a - b).max()) <= _SAME * body.surface.size
                for a, b, body in zip(there.bodies, first.bodies, scene.bodies, strict=True)
            ]
            if all(near):
                return number
    raise SceneError(
        f"{scene.name}: neither frame {scene.last} nor the one after it has the pose of frame "
        f"{scene.first}. Make the animation a cycle, or switch off Loop."
    )
