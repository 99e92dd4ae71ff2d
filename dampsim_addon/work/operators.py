"""Blender's operators and window: the modal operator for long jobs, calls of other operators, and redraws.

The modal operator runs the steps of a job between redraws, shows the progress and is cancelled by Esc. Failures of
called operators become errors for the user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import bpy
import numpy as np
from bpy.types import Context, Event

from ...core import DampSimError, SceneError
from ..translations import report, translate
from .steps import Step

# Ratio of work to redraw time, so that redraws of the viewports after frame changes do not dominate. The work between
# two redraws takes at least and at most this long, s; Esc reacts after that time.
_WORK_RATIO, _MIN_WORK, _MAX_WORK = 3.5, 0.05, 0.5
_TIMER = 0.01
# Events that only navigate the view.
_NAVIGATION_EVENTS = {
    "MIDDLEMOUSE",
    "MOUSEMOVE",
    "WHEELUPMOUSE",
    "WHEELDOWNMOUSE",
    "TRACKPADPAN",
    "TRACKPADZOOM",
    "MOUSEROTATE",
}


class RateEstimate:
    """Estimate of the remaining time from the rate of the steps so far."""

    def __init__(self) -> None:
        self._text, self._first, self._start_time = "", 0, 0.0

    def remaining_seconds(self, step: Step) -> float | None:
        """Return the estimated remaining time of the current stage, s; None if it is unknown yet."""
        if step.text != self._text or step.completed < self._first:
            self._text, self._first, self._start_time = step.text, step.completed, time.monotonic()
        if step.completed == self._first:
            return None
        return (time.monotonic() - self._start_time) / (step.completed - self._first) * (step.total - step.completed)


class ModalJob:
    """Mixin of operators that run a job: a subclass implements subject(), work() and completion_messages()."""

    # Effect of Esc, shown after "ESC".
    ended_by_esc = "stops and changes nothing"
    # Names of the objects that the job finished, without those that it has reported to fail; None for subject().
    finished_names: str | None = None

    _steps: Generator[Step, None, object]
    _work_end: float
    _redraw_time: float
    _timer: bpy.types.Timer
    _rate_estimate: RateEstimate

    def subject(self, context: Context) -> str:
        """Return the name of the object that the job processes."""
        raise NotImplementedError

    def work(self, context: Context) -> Generator[Step, None, object]:
        """Return the steps of the job. Closing the generator cancels it."""
        raise NotImplementedError

    def completion_messages(self, context: Context) -> tuple[str, str]:
        """Return the messages after completion and after cancellation."""
        raise NotImplementedError

    def execute(self, context: Context) -> set[str]:
        """Run the whole job at once, as scripts do."""
        try:
            for _ in self.work(context):
                pass
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}

    def invoke(self, context: Context, event: Event) -> set[str]:
        if context.screen.is_animation_playing:
            bpy.ops.screen.animation_cancel(restore_frame=False)
        self._steps = self.work(context)
        self._rate_estimate = RateEstimate()
        self._work_end, self._redraw_time = 0.0, 0.0
        progress = context.window_manager.dampsim_progress
        progress.object_name = self.subject(context)
        progress.factor, progress.text, progress.ended_by_esc = 0.0, "Preparing", self.ended_by_esc
        self._timer = context.window_manager.event_timer_add(_TIMER, window=context.window)
        context.window_manager.modal_handler_add(self)
        redraw_viewports()
        return {"RUNNING_MODAL"}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type == "ESC" and event.value == "PRESS":
            return self._finish(context, is_cancelled=True)
        if event.type != "TIMER":
            # The user must not change the scene while it is read, but may navigate the view.
            return {"PASS_THROUGH"} if event.type in _NAVIGATION_EVENTS else {"RUNNING_MODAL"}
        start = time.monotonic()
        if self._work_end:
            self._redraw_time = 0.5 * (self._redraw_time + start - self._work_end)
        deadline = start + min(max(_WORK_RATIO * self._redraw_time, _MIN_WORK), _MAX_WORK)
        try:
            for step in self._steps:
                self._show(context, step)
                if time.monotonic() >= deadline:
                    break
            else:
                return self._finish(context, is_cancelled=False)
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            self._finish(context, is_cancelled=True, is_reported=False)
            return {"CANCELLED"}
        except Exception:
            self._finish(context, is_cancelled=True, is_reported=False)
            raise
        self._work_end = time.monotonic()
        return {"RUNNING_MODAL"}

    def cancel(self, context: Context) -> None:
        self._finish(context, is_cancelled=True)

    def _show(self, context: Context, step: Step) -> None:
        progress = context.window_manager.dampsim_progress
        progress.factor = step.completed / step.total
        progress.text = progress_text(step)
        remaining = self._rate_estimate.remaining_seconds(step)
        if remaining is not None:
            progress.text += f", {format_duration(remaining)} left"
        context.workspace.status_text_set(translate(f"DampSim: {progress.text}    ESC {self.ended_by_esc}"))
        redraw_sidebars()

    def _finish(self, context: Context, is_cancelled: bool, is_reported: bool = True) -> set[str]:
        # Closing the generator restores the scene.
        self._steps.close()
        progress = context.window_manager.dampsim_progress
        name, progress.object_name = progress.object_name, ""
        context.window_manager.event_timer_remove(self._timer)
        context.workspace.status_text_set(None)
        redraw_viewports()
        done_message, cancelled_message = self.completion_messages(context)
        if not is_cancelled and self.finished_names is not None:
            name = self.finished_names
        if is_reported and name:
            report(self, {"INFO"}, f"{name}: {cancelled_message if is_cancelled else done_message}")
        return {"CANCELLED"} if is_cancelled else {"FINISHED"}


def progress_text(step: Step) -> str:
    """Return the progress of a step as text."""
    # Separate "Generation 1 of 5" and "2 / 6", else it reads "Generation 1 of 52 / 6".
    text = f"{step.text}," if step.text[-1:].isdigit() else step.text
    return f"{text} {step.completed} / {step.total}" if step.total > 1 else step.text


def format_duration(seconds: float) -> str:
    """Return a duration as minutes:seconds."""
    whole = int(np.ceil(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def call_operator(operator: Callable[..., Any], failure: str, fix: str, **arguments: Any) -> None:
    """Call an operator. Raises SceneError with the operator's message where it fails or does not exist.

    failure: the failed action, with the name of the object or file.  fix: advice for the user.
    """
    try:
        operator(**arguments)
    except (RuntimeError, AttributeError) as error:
        # The message of a Python error includes its traceback and the location of this call.
        lines = [line for line in str(error).strip().splitlines() if line and not line.startswith("Location:")]
        raise SceneError(f"{failure} ({lines[-1].removeprefix('Error: ') if lines else error}); {fix}.") from error


def pass_error(operator: Callable[..., Any], place: str, **arguments: Any) -> str:
    """Call an operator of DampSim from another one. Return the message that it reports as an error, or ''.

    place: EXEC_DEFAULT or INVOKE_DEFAULT.  Errors of Python keep their traceback.
    """
    try:
        operator(place, **arguments)
    except RuntimeError as error:
        if "Traceback" in str(error):
            raise
        return str(error).strip().removeprefix("Error: ")
    return ""


def redraw_viewports() -> None:
    """Tag all 3D viewports for redraw."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


def redraw_sidebars() -> None:
    """Tag only the sidebars of 3D viewports for redraw, which is cheap."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            for region in area.regions if area.type == "VIEW_3D" else ():
                if region.type == "UI":
                    region.tag_redraw()
