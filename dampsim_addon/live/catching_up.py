"""How far live frames are simulated at a change of frame."""

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

# After a jump, frames in between are simulated for about this long, s; the rest waits for the next change of frame.
PATIENCE = 0.25

# A group, its frames, and what reads it.
Waiting = tuple[Group, Session, GroupSampler]


def prepare(scene: bpy.types.Scene, todo: list[Waiting]) -> list[Waiting]:
    """Simulate up to the frame before the current one, and sample what of the current one lies before it.

    Returns those that wait for the current frame's evaluation; they stay muted.
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
        # Past the end, or between two frames, nothing is evaluated that could be sampled.
        ready = [one for one in todo if one[1].next == number and shown == (number, 0.0)]
        for one in todo:
            if one not in ready:
                one[2].unmute()
        return _sample(ready, until=number - 0.5 / 64.0)
    except BaseException:
        # A mistake of ours with one of them leaves the modifiers of none switched off.
        for sampler in samplers:
            sampler.unmute()
        raise
    finally:
        # No evaluation: that is about to come.
        scene.frame_current, scene.frame_subframe = shown


def catch_up(scene: bpy.types.Scene, todo: list[Waiting], alive: Callable[[], None] = lambda: None) -> None:
    """Simulate up to the current frame, however long it takes, and show it: what is evaluated next is rendered.

    alive: called after each frame.
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
    # What is shown leads nobody: all are read as they are animated.
    for group, session in done:
        display.show_frame(group, session, scene, number)


def _sample(sessions: list[Waiting], until: float) -> list[Waiting]:
    """Take the samples up to a frame; of which sessions they could be taken."""
    for when in sorted({when for _, session, _ in sessions for when in session.wanted() if when <= until}):
        if not sessions:
            break
        sessions[0][2].members[0].go(when)
        sessions = [one for one in sessions if guarded(one[1], partial(one[1].sample, when), one[2])]
    return sessions


def guarded(session: Session, work: Callable[[], object], sampler: GroupSampler) -> bool:
    """Do it; what the artist must mend is kept with the session."""
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
