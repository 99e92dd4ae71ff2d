"""Simulation of the frames that a frame change needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import bpy

from . import display
from .session import Session

# Time, s, for which a frame change simulates skipped frames after a jump. The next frame change continues.
TIME_BUDGET = 0.25


def simulate_before_frame(scene: bpy.types.Scene, scheduled: list[Session]) -> list[Session]:
    """Simulate up to the frame before the current one, and take the samples that precede the current frame.

    Returns the sessions that need the evaluation of the current frame. Their simulated modifiers stay muted.
    """
    number, subframe = min(scene.frame_current, scene.frame_end), scene.frame_subframe
    current_time = (scene.frame_current, subframe)
    deadline = time.monotonic() + TIME_BUDGET
    for session in scheduled:
        session.sampler.mute()
    try:
        pending = [session for session in scheduled if session.attempt(session.read_inputs)]
        while time.monotonic() < deadline:
            first = min((session.next_frame for session in pending), default=number)
            if first >= number:
                break
            late = [session for session in pending if session.next_frame == first]
            sampled = _take_samples(late, until=float(first))
            simulated = [session for session in sampled if session.attempt(session.advance)]
            pending = [session for session in pending if session in simulated or session not in late]
        # Past the end or between two frames, the coming evaluation is not at a frame that can be sampled.
        ready = [session for session in pending if session.next_frame == number and current_time == (number, 0.0)]
        for session in pending:
            if session not in ready:
                session.sampler.unmute()
        return _take_samples(ready, until=number - 0.5 / 64.0)
    except BaseException:
        # An unexpected error must not leave modifiers muted.
        for session in scheduled:
            session.sampler.unmute()
        raise
    finally:
        # Blender evaluates the frame after this handler.
        scene.frame_current, scene.frame_subframe = current_time


def simulate_to_frame(
    scene: bpy.types.Scene, pending: list[Session], on_frame: Callable[[], None] = lambda: None
) -> None:
    """Simulate up to the current frame without a time limit and show it, for a render.

    on_frame: called after each simulated frame.
    """
    number, current_time = min(scene.frame_current, scene.frame_end), (scene.frame_current, scene.frame_subframe)
    simulated = []
    for session in pending:
        session.sampler.mute()
        try:
            succeeded = session.attempt(session.read_inputs)
            while succeeded and session.next_frame <= number:
                is_sampled = bool(_take_samples([session], until=float(session.next_frame)))
                succeeded = is_sampled and session.attempt(session.advance)
                on_frame()
        finally:
            session.sampler.unmute()
            scene.frame_current, scene.frame_subframe = current_time
        if succeeded:
            simulated.append(session)
    # Display only after all groups are read, so that no group reads the displayed shape of another one.
    for session in simulated:
        display.display_frame(session.group, session, scene, number)


def _take_samples(pending: list[Session], until: float) -> list[Session]:
    """Take the samples up to a frame. Returns the sessions for which this succeeded."""
    for when in sorted({when for session in pending for when in session.required_times() if when <= until}):
        if not pending:
            break
        pending[0].sampler.members[0].set_frame(when)
        pending = [session for session in pending if session.attempt(partial(session.sample, when))]
    return pending
