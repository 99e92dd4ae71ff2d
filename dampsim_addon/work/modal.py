"""Long work behind a progress bar: step by step between redraws, and ended by ESC."""

from __future__ import annotations

import time
from collections.abc import Generator

import bpy
import numpy as np
from bpy.types import Context, Event

from ...core.errors import DampSimError
from ..blender.views import redraw, redraw_sidebars
from .steps import Step

# Between two redraws a job works for so many times as long as the last redraws took: what changes the frame has the
# viewports drawn anew, which must not cost more than the work. In s, at least and at most, for ESC waits as long.
_SHARE, _LEAST, _MOST = 3.5, 0.05, 0.5
_TIMER = 0.01
# Events that only turn the view.
_LOOKING = {"MIDDLEMOUSE", "MOUSEMOVE", "WHEELUPMOUSE", "WHEELDOWNMOUSE", "TRACKPADPAN", "TRACKPADZOOM", "MOUSEROTATE"}


class Pace:
    """How long each kind of work takes."""

    def __init__(self) -> None:
        self._text, self._first, self._began = "", 0, 0.0

    def left(self, step: Step) -> float | None:
        """How long the work in hand will still take, s; None where nobody knows yet."""
        if step.text != self._text or step.done < self._first:
            self._text, self._first, self._began = step.text, step.done, time.monotonic()
        if step.done == self._first:
            return None
        return (time.monotonic() - self._began) / (step.done - self._first) * (step.total - step.done)


class ModalJob:
    """Of an operator: work() is its work."""

    # What ESC does to it.
    ended_by_esc = "stops and changes nothing"

    _steps: Generator[Step, None, object]
    _worked: float
    _drawing: float
    _timer: bpy.types.Timer
    _pace: Pace

    def subject(self, context: Context) -> str:
        """What the work is on, by name."""
        raise NotImplementedError

    def work(self, context: Context) -> Generator[Step, None, object]:
        """The work. Closing it leaves everything as it is then."""
        raise NotImplementedError

    def said(self, context: Context) -> tuple[str, str]:
        """What to report at the end: of work that was done, and of work that was stopped."""
        raise NotImplementedError

    def execute(self, context: Context) -> set[str]:
        """Without a window: all at once."""
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
            # Nothing of the scene may change while it is being read, but the view may be turned.
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
        # Closing the generator gives the scene back as it was.
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
    """In words: what is done of what."""
    # Of "Generation 1 of 5" and 26 nobody shall read 526.
    text = f"{step.text}," if step.text[-1:].isdigit() else step.text
    return f"{text} {step.done} / {step.total}" if step.total > 1 else step.text


def time_left(seconds: float) -> str:
    whole = int(np.ceil(seconds))
    return f"{whole // 60}:{whole % 60:02d}"
