"""Simulation of the frames that a frame change needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import bpy

from ...core.errors import DampSimError
from ..blender.sampler import GroupSampler
from ..scene.groups import Group
from . import display
from .session import Session

# Time, s, for which a frame change simulates skipped frames after a jump. The next frame change continues.
PATIENCE = 0.25

# A group, its session and its sampler.
Waiting = tuple[Group, Session, GroupSampler]


def prepare(scene: bpy.types.Scene, todo: list[Waiting]) -> list[Waiting]:
    """Simulate up to the frame before the current one, and take the samples that precede the current frame.

    Returns the groups that need the evaluation of the current frame. Their simulated modifiers stay muted.
    """
    number, subframe = min(scene.frame_current, scene.frame_end), scene.frame_subframe
    shown = (scene.frame_current, subframe)
    end = time.monotonic() + PATIENCE
    samplers = [sampler for _, _, sampler in todo]
    for sampler in samplers:
        sampler.mute()
    try:
        todo = [one for one in todo if guarded(one[1], lambda one=one: one[1].begin(one[2]), one[2])]
        while time.monotonic() < end:
            late = [one for one in todo if one[1].next < number]
            if not late:
                break
            first = min(session.next for _, session, _ in late)
            late = [one for one in late if one[1].next == first]
            sampled = _sample(late, until=float(first))
            done = [one for one in sampled if guarded(one[1], one[1].advance, one[2])]
            todo = [one for one in todo if one in done or one not in late]
        # Past the end or between two frames, the coming evaluation is not at a frame that can be sampled.
        ready = [one for one in todo if one[1].next == number and shown == (number, 0.0)]
        for one in todo:
            if one not in ready:
                one[2].unmute()
        return _sample(ready, until=number - 0.5 / 64.0)
    except BaseException:
        # An unexpected error must not leave modifiers muted.
        for sampler in samplers:
            sampler.unmute()
        raise
    finally:
        # Blender evaluates the frame after this handler.
        scene.frame_current, scene.frame_subframe = shown


def catch_up(scene: bpy.types.Scene, todo: list[Waiting], alive: Callable[[], None] = lambda: None) -> None:
    """Simulate up to the current frame without a time limit and show it, for a render.

    on_frame: called after each simulated frame.
    """
    number, shown = min(scene.frame_current, scene.frame_end), (scene.frame_current, scene.frame_subframe)
    done = []
    for group, session, sampler in todo:
        sampler.mute()
        try:
            going = guarded(session, partial(session.begin, sampler), sampler)
            while going and session.next <= number:
                going = bool(_sample([(group, session, sampler)], until=float(session.next)))
                going = going and guarded(session, session.advance, sampler)
                alive()
        finally:
            sampler.unmute()
            scene.frame_current, scene.frame_subframe = shown
        if going:
            done.append((group, session))
    # Display only after all groups are read, so that no group reads the displayed shape of another one.
    for group, session in done:
        display.show_frame(group, session, scene, number)


def _sample(sessions: list[Waiting], until: float) -> list[Waiting]:
    """Take the samples up to a frame. Returns the sessions for which this succeeded."""
    for when in sorted({when for _, session, _ in sessions for when in session.wanted() if when <= until}):
        if not sessions:
            break
        sessions[0][2].members[0].go(when)
        sessions = [one for one in sessions if guarded(one[1], partial(one[1].sample, when), one[2])]
    return sessions


def guarded(session: Session, work: Callable[[], object], sampler: GroupSampler) -> bool:
    """Run work and return whether it succeeded. A DampSimError is stored as the problem of the session."""
    try:
        work()
    except DampSimError as error:
        session.problem = str(error)
        sampler.unmute()
        return False
    except BaseException:
        sampler.unmute()
        raise
    return True
