"""Modal operator for long jobs: runs their steps between redraws, shows the progress and is cancelled by Esc."""

from __future__ import annotations

import time
from collections.abc import Generator

import bpy
import numpy as np
from bpy.types import Context, Event

from ...core.errors import DampSimError
from ..blender.views import redraw, redraw_sidebars
from .steps import Step

# Ratio of work to redraw time, so that redraws of the viewports after frame changes do not dominate. The work between
# two redraws takes at least and at most this long, s; Esc reacts after that time.
_SHARE, _LEAST, _MOST = 3.5, 0.05, 0.5
_TIMER = 0.01
# Events that only navigate the view.
_LOOKING = {"MIDDLEMOUSE", "MOUSEMOVE", "WHEELUPMOUSE", "WHEELDOWNMOUSE", "TRACKPADPAN", "TRACKPADZOOM", "MOUSEROTATE"}


class Pace:
    """Estimate of the remaining time from the rate of the steps so far."""

    def __init__(self) -> None:
        self._text, self._first, self._began = "", 0, 0.0

    def left(self, step: Step) -> float | None:
        """Return the estimated remaining time of the current stage, s; None if it is unknown yet."""
        if step.text != self._text or step.done < self._first:
            self._text, self._first, self._began = step.text, step.done, time.monotonic()
        if step.done == self._first:
            return None
        return (time.monotonic() - self._began) / (step.done - self._first) * (step.total - step.done)


class ModalJob:
    """Mixin of operators that run a job: a subclass implements subject(), work() and completion_messages()."""

    # Effect of Esc, shown after "ESC".
    ended_by_esc = "stops and changes nothing"

    _steps: Generator[Step, None, object]
    _worked: float
    _drawing: float
    _timer: bpy.types.Timer
    _pace: Pace

    def subject(self, context: Context) -> str:
        """Return the name of the object that the job processes."""
        raise NotImplementedError

    def work(self, context: Context) -> Generator[Step, None, object]:
        """Return the steps of the job. Closing the generator cancels it."""
        raise NotImplementedError

    def said(self, context: Context) -> tuple[str, str]:
        """Return the messages after completion and after cancellation."""
        raise NotImplementedError

    def execute(self, context: Context) -> set[str]:
        """Run the whole job at once, as scripts do."""
        try:
            for _ in self.work(context):
                pass
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}

    def invoke(self, context: Context, event: Event) -> set[str]:
        if context.screen.is_animation_playing:
            bpy.ops.screen.animation_cancel(restore_frame=False)
        self._steps = self.work(context)
        self._pace = Pace()
        self._worked, self._drawing = 0.0, 0.0
        progress = context.window_manager.dampsim_progress
        progress.object_name = self.subject(context)
        progress.factor, progress.text, progress.ended_by_esc = 0.0, "Preparing", self.ended_by_esc
        self._timer = context.window_manager.event_timer_add(_TIMER, window=context.window)
        context.window_manager.modal_handler_add(self)
        redraw()
        return {"RUNNING_MODAL"}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type == "ESC" and event.value == "PRESS":
            return self._end(context, stopped=True)
        if event.type != "TIMER":
            # The user must not change the scene while it is read, but may navigate the view.
            return {"PASS_THROUGH"} if event.type in _LOOKING else {"RUNNING_MODAL"}
        began = time.monotonic()
        if self._worked:
            self._drawing = 0.5 * (self._drawing + began - self._worked)
        until = began + min(max(_SHARE * self._drawing, _LEAST), _MOST)
        try:
            for step in self._steps:
                self._show(context, step)
                if time.monotonic() >= until:
                    break
            else:
                return self._end(context, stopped=False)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            self._end(context, stopped=True, say=False)
            return {"CANCELLED"}
        except Exception:
            self._end(context, stopped=True, say=False)
            raise
        self._worked = time.monotonic()
        return {"RUNNING_MODAL"}

    def cancel(self, context: Context) -> None:
        self._end(context, stopped=True)

    def _show(self, context: Context, step: Step) -> None:
        progress = context.window_manager.dampsim_progress
        progress.factor = step.done / step.total
        progress.text = how_far(step)
        left = self._pace.left(step)
        if left is not None:
            progress.text += f", {time_left(left)} left"
        context.workspace.status_text_set(f"DampSim: {progress.text}    ESC {self.ended_by_esc}")
        redraw_sidebars()

    def _end(self, context: Context, stopped: bool, say: bool = True) -> set[str]:
        # Closing the generator restores the scene.
        self._steps.close()
        progress = context.window_manager.dampsim_progress
        name, progress.object_name = progress.object_name, ""
        context.window_manager.event_timer_remove(self._timer)
        context.workspace.status_text_set(None)
        redraw()
        done, ended = self.said(context)
        if say:
            self.report({"INFO"}, f"{name}: {ended if stopped else done}")
        return {"CANCELLED"} if stopped else {"FINISHED"}


def how_far(step: Step) -> str:
    """Return the progress of a step as text."""
    # Separate "Generation 1 of 5" and "2 / 6", else it reads "Generation 1 of 52 / 6".
    text = f"{step.text}," if step.text[-1:].isdigit() else step.text
    return f"{text} {step.done} / {step.total}" if step.total > 1 else step.text


def time_left(seconds: float) -> str:
    """Return a duration as minutes:seconds."""
    whole = int(np.ceil(seconds))
    return f"{whole // 60}:{whole % 60:02d}"
