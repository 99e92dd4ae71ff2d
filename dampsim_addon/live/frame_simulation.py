"""Simulation of the frames that a frame change needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import bpy

from ...core import DampSimError
from ..blender.sampler import GroupSampler
from ..model.groups import Group
from . import display
from .session import Session

# Time, s, for which a frame change simulates skipped frames after a jump. The next frame change continues.
TIME_BUDGET = 0.25

# A group, its session and its sampler.
PendingGroup = tuple[Group, Session, GroupSampler]


def simulate_before_frame(scene: bpy.types.Scene, pending: list[PendingGroup]) -> list[PendingGroup]:
    """Simulate up to the frame before the current one, and take the samples that precede the current frame.

    Returns the groups that need the evaluation of the current frame. Their simulated modifiers stay muted.
    """
    number, subframe = min(scene.frame_current, scene.frame_end), scene.frame_subframe
    current_time = (scene.frame_current, subframe)
    deadline = time.monotonic() + TIME_BUDGET
    samplers = [sampler for _, _, sampler in pending]
    for sampler in samplers:
        sampler.mute()
    try:
        pending = [
            one for one in pending if run_reporting_errors(one[1], lambda one=one: one[1].read_inputs(one[2]), one[2])
        ]
        while time.monotonic() < deadline:
            late = [one for one in pending if one[1].next_frame < number]
            if not late:
                break
            first = min(session.next_frame for _, session, _ in late)
            late = [one for one in late if one[1].next_frame == first]
            sampled = _take_samples(late, until=float(first))
            simulated = [one for one in sampled if run_reporting_errors(one[1], one[1].advance, one[2])]
            pending = [one for one in pending if one in simulated or one not in late]
        # Past the end or between two frames, the coming evaluation is not at a frame that can be sampled.
        ready = [one for one in pending if one[1].next_frame == number and current_time == (number, 0.0)]
        for one in pending:
            if one not in ready:
                one[2].unmute()
        return _take_samples(ready, until=number - 0.5 / 64.0)
    except BaseException:
        # An unexpected error must not leave modifiers muted.
        for sampler in samplers:
            sampler.unmute()
        raise
    finally:
        # Blender evaluates the frame after this handler.
        scene.frame_current, scene.frame_subframe = current_time


def simulate_to_frame(
    scene: bpy.types.Scene, pending: list[PendingGroup], on_frame: Callable[[], None] = lambda: None
) -> None:
    """Simulate up to the current frame without a time limit and show it, for a render.

    on_frame: called after each simulated frame.
    """
    number, current_time = min(scene.frame_current, scene.frame_end), (scene.frame_current, scene.frame_subframe)
    simulated = []
    for group, session, sampler in pending:
        sampler.mute()
        try:
            succeeded = run_reporting_errors(session, partial(session.read_inputs, sampler), sampler)
            while succeeded and session.next_frame <= number:
                succeeded = bool(_take_samples([(group, session, sampler)], until=float(session.next_frame)))
                succeeded = succeeded and run_reporting_errors(session, session.advance, sampler)
                on_frame()
        finally:
            sampler.unmute()
            scene.frame_current, scene.frame_subframe = current_time
        if succeeded:
            simulated.append((group, session))
    # Display only after all groups are read, so that no group reads the displayed shape of another one.
    for group, session in simulated:
        display.display_frame(group, session, scene, number)


def _take_samples(pending: list[PendingGroup], until: float) -> list[PendingGroup]:
    """Take the samples up to a frame. Returns the sessions for which this succeeded."""
    for when in sorted({when for _, session, _ in pending for when in session.required_times() if when <= until}):
        if not pending:
            break
        pending[0][2].members[0].set_frame(when)
        pending = [one for one in pending if run_reporting_errors(one[1], partial(one[1].sample, when), one[2])]
    return pending


def run_reporting_errors(session: Session, work: Callable[[], object], sampler: GroupSampler) -> bool:
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
