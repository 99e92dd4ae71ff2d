"""How a shot starts: at rest in its first pose, out of a preroll, or in the middle of a loop."""

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

# Part of the preroll in which the pose changes; in the rest it calms.
_RAMP = 0.6
# A loop is closed when a cycle more moves no node by more than this part of the size; or it is as good as it gets.
_CLOSED = 1e-4
_MOST_CYCLES = 40
# What lies at the start may sink by so much of its size, and turn by the angle of this cosine; else it fell.
_LEFT, _UPRIGHT = 0.25, 0.98
# Two animated surfaces nearer than this part of the size are the same pose.
_SAME = 1e-4


class Stepping(Protocol):
    """What a start needs of a simulation."""

    scene: Scene
    posing: Posing
    statics: Statics
    dials: Dials

    def sampled(self, number: int, before: int = 1) -> Sampled: ...

    def step(self, state: State, pose: Pose, sampled: Sampled) -> tuple[State, Pose, int, int]: ...

    def shapes(self, state: State, animated: Animated) -> dict[str, Array]: ...


def warm_up(stepping: Stepping) -> Generator[tuple[int, int], None, tuple[Frame, float]]:
    """Yield (done, total); returns the first Frame, and how far a loop is from closing in parts of the size."""
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
            # What nothing settles begins with its fibres at rest: let go, it would jump there.
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
    """Where a held island hangs, or leans on what it touches. begun: where that is looked for from."""
    system = statics.islands[island].system
    touches = system.contact is not None
    if begun is None and not touches:
        begun = statics.hanging(island, factors)
        if not has_weave(system):
            return begun
    return statics.settled_pose(island, animated, factors, begun, touching=touches, slides=True)


def _laid(statics: Statics, island: int, animated: Animated, factors: Array, begun: State) -> State:
    """Where an island that nothing holds lies on what it touches; as it begun if it touches nothing, or would leave."""
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
    """The state after so many frames in which the rest shape, in place, became the first pose."""
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
    """The state at the first frame after enough cycles, and how much the last one still changed."""
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
            # How many cycles it will take is not known; the bar shows how near it came.
            near = min(max(np.log(max(change, _CLOSED)) / np.log(_CLOSED), 0.0), 0.99)
            yield round(100 * max(near, cycle / _MOST_CYCLES)), 100
        state = _joined(stepping, [state])
        change = float(np.abs(state.positions - before.positions).max()) / size
        if change <= _CLOSED:
            break
    return state, float(change)


def _cycle_end(stepping: Stepping, first: Animated) -> int:
    """The frame at which the animation is again what it is at the first one: the last one, or the one after it."""
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
        f"{scene.name}: neither frame {scene.last} nor the one after it is posed like frame "
        f"{scene.first}; make the animation a cycle or switch Loop off."
    )
