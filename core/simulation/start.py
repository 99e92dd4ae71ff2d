"""How a shot starts: at rest in its first pose, out of a preroll, or in the middle of a loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Array
from ..errors import SceneError
from ..frames.frame import Frame, Sampled
from ..geometry.rigid import rigid_motion
from ..system.state import State

if TYPE_CHECKING:
    from .simulation import Simulation

# Part of the preroll in which the pose changes; in the rest it calms.
_RAMP = 0.6
# A loop is closed when a cycle more moves no node by more than this part of the size; or it is as good as it gets.
_CLOSED = 1e-4
_MOST_CYCLES = 40
# Two animated surfaces nearer than this part of the size are the same pose.
_SAME = 1e-4


def warm_up(simulation: Simulation) -> Generator[tuple[int, int], None, Frame]:
    """Yield (done, total); returns the first Frame."""
    scene = simulation.scene
    settings = scene.body.settings
    sampled = simulation.sampled(scene.first)
    animated = sampled.animated[-1]
    state = simulation.animated_pose(animated)
    if settings.preroll:
        state = yield from _preroll(simulation, sampled, settings.preroll)
    if settings.start_settled and simulation.held:
        stiffness = simulation.controls(settings).stiffness
        hanging = simulation.hanging(stiffness) if not settings.preroll else None
        state = hanging or simulation.settled_pose(animated, stiffness, state)
    if settings.loop:
        state = yield from _loop(simulation, sampled, state)
    return Frame(scene.first, state, simulation.surface(state, animated), sampled.digest, 0)


def _preroll(simulation: Simulation, first: Sampled, count: int) -> Generator[tuple[int, int], None, State]:
    """The state after so many frames in which the rest shape, in place, became the first pose."""
    rest, goal = simulation.scene.body.surface.vertices, first.animated[-1]
    turn, shift = rigid_motion(rest, goal)
    begin = rest @ turn.T + shift

    def blend(part: float) -> Array:
        t = min(part / _RAMP, 1.0)
        ramp = t * t * (3.0 - 2.0 * t)
        return np.asarray(begin + ramp * (goal - begin))

    settings = first.settings[-1]
    parts = simulation.substeps(settings).count
    state, pose = simulation.animated_pose(begin), simulation.pose(begin)
    for frame in range(1, count + 1):
        way = tuple(blend((frame - 1 + part / parts) / count) for part in range(1, parts + 1))
        step = Sampled(first.number - count + frame, way, (settings,) * parts, parts, "")
        state, pose, _ = simulation.step(state, pose, step)
        yield frame, count
    return State(first.number / simulation.scene.fps, state.positions, state.velocities, state.carrier)


def _loop(simulation: Simulation, first: Sampled, state: State) -> Generator[tuple[int, int], None, State]:
    """The state at the first frame after enough cycles that the last one changes it no more."""
    scene, size = simulation.scene, simulation.scene.body.surface.size
    end = _cycle_end(simulation, first.animated[-1])
    change = np.inf
    for cycle in range(_MOST_CYCLES):
        pose, count, before = simulation.pose(first.animated[-1]), first.count, state
        for number in range(scene.first + 1, end + 1):
            sampled = simulation.sampled(number, count)
            state, pose, _ = simulation.step(state, pose, sampled)
            count = sampled.count
            # How many cycles it will take is not known; the bar shows how near it came.
            near = min(max(np.log(max(change, _CLOSED)) / np.log(_CLOSED), 0.0), 0.99)
            yield round(100 * max(near, cycle / _MOST_CYCLES)), 100
        state = State(scene.first / scene.fps, state.positions, state.velocities, state.carrier)
        change = float(np.abs(state.positions - before.positions).max()) / size
        if change <= _CLOSED:
            break
    simulation.loop_error = change
    return state


def _cycle_end(simulation: Simulation, first: Array) -> int:
    """The frame at which the animation is again what it is at the first one: the last one, or the one after it."""
    scene = simulation.scene
    for number in (scene.last, scene.last + 1):
        if number > scene.first:
            there = simulation.sampled(number).animated[-1]
            if float(np.abs(there - first).max()) <= _SAME * scene.body.surface.size:
                return number
    raise SceneError(
        f"{scene.body.surface.name}: neither frame {scene.last} nor the one after it is posed like frame "
        f"{scene.first}; make the animation a cycle or switch Loop off."
    )
