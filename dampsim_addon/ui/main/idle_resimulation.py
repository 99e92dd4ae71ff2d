"""Idle resimulation: while playback is paused, outdated frames are simulated again up to the current frame.

A timer starts it when the user is idle. It works in short slices between events and passes all events on to Blender.
ESC stops it until the next edit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import bpy
from bpy.types import Context, Event, Operator

from ... import live
from ...blender.animation import is_playing, object_with_unkeyed_change
from ...blender.sampler import ACTIVE_SAMPLERS
from ...model.groups import Group, groups_of
from ...model.objects import is_job_running, simulated_in_scene
from ...session import SessionState, Subscriber
from ...translations import translate
from ..common.operators import NamedOperator

# Delay (s) after an edit, click or key press; delay (s) between two slices.
_IDLE_DELAY, _TIMER_INTERVAL = 0.6, 0.02
_CHECK_INTERVAL = 0.3
# Events that are no user input.
_IDLE_EVENTS = {"TIMER", "MOUSEMOVE", "INBETWEEN_MOUSEMOVE", "NONE", "WINDOW_DEACTIVATE", "TIMER_REPORT", "TIMERREGION"}


@dataclass
class _Activity(SessionState):
    """Activity of the user and of the operator.

    input_time: s, of the last input.  is_cancelled: stopped by ESC until the next edit.  is_running: of the operator.
    inputs: of the outdated groups at the last check; while the user drags a slider, they change from check to check.
    """

    input_time: float = 0.0
    is_cancelled: bool = False
    is_running: bool = False
    inputs: list[object] = field(default_factory=list)

    def record_edit(self) -> None:
        """Record the time of an edit, which ends the effect of ESC."""
        self.input_time, self.is_cancelled = time.monotonic(), False


def outdated_groups(context: Context) -> list[Group]:
    """Return the groups that were simulated live and whose current frame is out of date."""
    scene = context.scene
    frame = min(scene.frame_current, scene.frame_end)
    outdated = []
    for group in groups_of(simulated_in_scene(scene)):
        first = group.members[0]
        session = live.find_session(first)
        # After a switch between Draft and full resolution, the new session counts as played if the other one was.
        if not live.has_session(first) or frame < scene.frame_start or not live.is_live(first):
            continue
        if session is not None and session.problem:
            continue
        if not any(obj.visible_get(view_layer=context.view_layer) for obj in group.members):
            continue
        if session is None or not session.frame_status(first, scene, frame).can_be_shown:
            outdated.append(group)
    return outdated


def is_idle(context: Context) -> bool:
    """Return whether Blender and the user are idle, so that a frame change disturbs nothing."""
    windows = context.window_manager.windows
    other_operators = sum(len(window.modal_operators) for window in windows) - int(_Activity.current().is_running)
    if other_operators > 0 or is_playing():
        return False
    if ACTIVE_SAMPLERS or is_job_running(context) or bpy.app.is_job_running("RENDER"):
        return False
    scene = context.scene
    if time.monotonic() - _Activity.current().input_time < _IDLE_DELAY or scene.frame_subframe:
        return False
    return not object_with_unkeyed_change(scene.objects, scene.frame_current)


def _inputs_changed(groups: list[Group], scene: bpy.types.Scene) -> bool:
    """Return whether an input of the groups changed since the last call."""
    activity = _Activity.current()
    inputs: list[object] = [live.static_inputs(group, scene, live.is_in_draft(group)) for group in groups]
    if inputs == activity.inputs:
        return False
    activity.inputs = inputs
    activity.record_edit()
    return True


class DAMPSIM_OT_go_on(NamedOperator, Operator):
    """Simulate outdated frames again up to the current frame. ESC stops"""

    bl_label = "Simulate to the Current Frame"
    bl_options = {"INTERNAL"}

    _timer: bpy.types.Timer

    def invoke(self, context: Context, event: Event) -> set[str]:
        self._timer = context.window_manager.event_timer_add(_TIMER_INTERVAL, window=context.window)
        context.window_manager.modal_handler_add(self)
        _Activity.current().is_running = True
        return {"RUNNING_MODAL"}

    def modal(self, context: Context, event: Event) -> set[str]:
        activity = _Activity.current()
        if is_playing():
            # ESC belongs to the playback. The timer starts the operator again.
            self._end(context)
            return {"CANCELLED", "PASS_THROUGH"}
        if event.type == "ESC" and event.value == "PRESS":
            activity.is_cancelled = True
            self._end(context)
            return {"CANCELLED"}
        if event.type not in _IDLE_EVENTS:
            activity.input_time = time.monotonic()
        if event.type != "TIMER" or not is_idle(context):
            return {"PASS_THROUGH"}
        outdated = outdated_groups(context)
        if _inputs_changed(outdated, context.scene) and outdated:
            return {"PASS_THROUGH"}
        if not outdated:
            self._end(context)
            return {"FINISHED"}
        frames_before = [session.verified for group in outdated if (session := live.find_session(group.members[0]))]
        simulate_slice(context.scene)
        sessions = [session for group in outdated if (session := live.find_session(group.members[0]))]
        if [session.verified for session in sessions] == frames_before:
            # No progress: the error is reported at the next playback.
            activity.is_cancelled = True
        context.workspace.status_text_set(translate(resimulation_text(sessions, context.scene)))
        if activity.is_cancelled:
            self._end(context)
            return {"CANCELLED"}
        return {"PASS_THROUGH"}

    def cancel(self, context: Context) -> None:
        self._end(context)

    def _end(self, context: Context) -> None:
        _Activity.current().is_running = False
        context.window_manager.event_timer_remove(self._timer)
        context.workspace.status_text_set(None)


def resimulation_text(sessions: list[live.Session], scene: bpy.types.Scene) -> str:
    """Return the progress as text for the status bar."""
    last = min(scene.frame_current, scene.frame_end)
    frame = min((session.next_frame for session in sessions if session.simulation), default=last)
    return f"DampSim: updating frame {min(frame, last)} of {last}    ESC: stop"


def simulate_slice(scene: bpy.types.Scene) -> None:
    """Simulate a slice, by setting the current frame again."""
    scene.frame_set(scene.frame_current)


def _on_depsgraph_update(scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    """Record the time of an edit. Edits that no frame depends on do not touch a session."""
    if any(session.needs_inputs for session in live.LiveSessions.current().values()):
        _Activity.current().record_edit()


def _start_if_idle() -> None:
    context, activity = bpy.context, _Activity.current()
    windows = context.window_manager.windows
    if not windows or activity.is_running or not live.is_installed():
        return
    groups = outdated_groups(context)
    if groups and not _inputs_changed(groups, context.scene) and not activity.is_cancelled and is_idle(context):
        with context.temp_override(window=windows[0]):
            bpy.ops.dampsim.go_on("INVOKE_DEFAULT")


SUBSCRIBER = Subscriber(
    "idle_resimulation", {"depsgraph_update_post": _on_depsgraph_update}, _start_if_idle, _CHECK_INTERVAL
)
