"""Idle resimulation: while playback is paused, outdated frames are simulated again up to the current frame.

A timer starts it when the user is idle. It works in short slices between events and passes all events on to Blender.
ESC stops it until the next edit.
"""

from __future__ import annotations

import time

import bpy
from bpy.app.handlers import persistent
from bpy.types import Context, Event, Operator

from .. import live
from ..blender.sampler import SAMPLING
from ..live.unkeyed import unkeyed
from ..scene.groups import Group, groups_of
from ..scene.objects import simulated_in, working

# Delay (s) after an edit, click or key press; delay (s) between two slices.
_REST, _PAUSE = 0.6, 0.02
_LOOK = 0.3
# Events that are no user input.
_IDLE = {"TIMER", "MOUSEMOVE", "INBETWEEN_MOUSEMOVE", "NONE", "WINDOW_DEACTIVATE", "TIMER_REPORT", "TIMERREGION"}

_edited = 0.0
# Stopped by ESC until the next edit.
_stopped = False
_running = False
# Inputs of the outdated groups at the last check: while the user drags a slider, they change from check to check.
_dialled: list[object] = []


def waiting(context: Context) -> list[Group]:
    """Return the groups that were simulated live and whose current frame is out of date."""
    scene = context.scene
    number = min(scene.frame_current, scene.frame_end)
    found = []
    for group in groups_of(simulated_in(scene)):
        first = group.members[0]
        session = live.find(first)
        # After a switch between Draft and full resolution, the new session counts as played if the other one was.
        if not live.played(first) or number < scene.frame_start or not live.is_live(first):
            continue
        if session is not None and session.problem:
            continue
        if not any(obj.visible_get(view_layer=context.view_layer) for obj in group.members):
            continue
        if session is None or session.standing(first, scene, number) is not live.Standing.VALID:
            found.append(group)
    return found


def may(context: Context) -> bool:
    """Return whether Blender and the user are idle, so that a frame change disturbs nothing."""
    windows = context.window_manager.windows
    others = sum(len(window.modal_operators) for window in windows) - int(_running)
    playing = any(window.screen.is_animation_playing for window in windows)
    busy = playing or others > 0 or bool(SAMPLING) or working(context) or bpy.app.is_job_running("RENDER")
    scene = context.scene
    if time.monotonic() - _edited < _REST or busy or scene.frame_subframe:
        return False
    return not unkeyed(scene.objects, scene.frame_current)


def _still_dialling(groups: list[Group], scene: bpy.types.Scene) -> bool:
    """Return whether an input of the groups changed since the last call."""
    global _dialled, _edited, _stopped
    now: list[object] = [live.steady(group, scene, live.in_draft(group)) for group in groups]
    if now == _dialled:
        return False
    _dialled, _edited, _stopped = now, time.monotonic(), False
    return True


class DAMPSIM_OT_go_on(Operator):
    """Simulate outdated frames again up to the current frame. ESC stops"""

    bl_idname = "dampsim.go_on"
    bl_label = "Simulate to the Current Frame"
    bl_options = {"INTERNAL"}

    _timer: bpy.types.Timer

    def invoke(self, context: Context, event: Event) -> set[str]:
        global _running
        self._timer = context.window_manager.event_timer_add(_PAUSE, window=context.window)
        context.window_manager.modal_handler_add(self)
        _running = True
        return {"RUNNING_MODAL"}

    def modal(self, context: Context, event: Event) -> set[str]:
        global _edited, _stopped
        if event.type == "ESC" and event.value == "PRESS":
            _stopped = True
            self._end(context)
            return {"CANCELLED"}
        if event.type not in _IDLE:
            _edited = time.monotonic()
        if event.type != "TIMER" or not may(context):
            return {"PASS_THROUGH"}
        left = waiting(context)
        if _still_dialling(left, context.scene) and left:
            return {"PASS_THROUGH"}
        if not left:
            self._end(context)
            return {"FINISHED"}
        done = [session.verified for group in left if (session := live.find(group.members[0]))]
        go_on(context.scene)
        sessions = [session for group in left if (session := live.find(group.members[0]))]
        if [session.verified for session in sessions] == done:
            # No progress: the error is reported at the next playback.
            _stopped = True
        context.workspace.status_text_set(said(sessions, context.scene))
        if _stopped:
            self._end(context)
            return {"CANCELLED"}
        return {"PASS_THROUGH"}

    def cancel(self, context: Context) -> None:
        self._end(context)

    def _end(self, context: Context) -> None:
        global _running
        _running = False
        context.window_manager.event_timer_remove(self._timer)
        context.workspace.status_text_set(None)


def said(sessions: list[live.Session], scene: bpy.types.Scene) -> str:
    """Return the progress as text for the status bar."""
    last = min(scene.frame_current, scene.frame_end)
    frame = min((session.next for session in sessions if session.simulation), default=last)
    return f"DampSim: updating frame {min(frame, last)} of {last}    ESC: stop"


def go_on(scene: bpy.types.Scene) -> None:
    """Simulate a slice, by setting the current frame again."""
    scene.frame_set(scene.frame_current)


@persistent
def _after_edit(scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    """Record the time of an edit. Edits that no frame depends on do not touch a session."""
    global _edited, _stopped
    if any(session.touched for session in live.SESSIONS.values()):
        _edited, _stopped = time.monotonic(), False


def _look() -> float:
    context = bpy.context
    windows = context.window_manager.windows
    if not windows or _running or not live.installed():
        return _LOOK
    groups = waiting(context)
    if not groups or _still_dialling(groups, context.scene) or _stopped or not may(context):
        return _LOOK
    with context.temp_override(window=windows[0]):
        bpy.ops.dampsim.go_on("INVOKE_DEFAULT")
    return _LOOK


def register() -> None:
    bpy.utils.register_class(DAMPSIM_OT_go_on)
    bpy.app.handlers.depsgraph_update_post.append(_after_edit)
    if not bpy.app.background:
        bpy.app.timers.register(_look, first_interval=_LOOK, persistent=True)


def unregister() -> None:
    if bpy.app.timers.is_registered(_look):
        bpy.app.timers.unregister(_look)
    bpy.app.handlers.depsgraph_update_post.remove(_after_edit)
    bpy.utils.unregister_class(DAMPSIM_OT_go_on)
