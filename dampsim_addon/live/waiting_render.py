"""Renders from the window: they have a thread of their own, in which Blender can evaluate no other frame.

The render waits within its handler while the window's thread simulates what it lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import bpy

# How often the window's thread looks whether a render waits, s; while none runs it is not asked at all.
_LOOK = 0.05
# A render waits so long for a sign that somebody works for it, s: at its beginning, and between two frames.
_PATIENCE = 60.0

_asked: SimpleQueue[_Request] = SimpleQueue()


class _Request:
    """work: of the window's thread, in steps.  alive: set at each of them.  done: at their end."""

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        self.work, self.alive, self.done = work, threading.Event(), threading.Event()


def here() -> bool:
    """Whether this is the thread of the window, which may evaluate frames."""
    return threading.current_thread() is threading.main_thread()


def done_there(work: Callable[[Callable[[], None]], None]) -> bool:
    """Let the window's thread do it, and wait; whether it was done. work is given what it calls after each step."""
    request = _Request(work)
    _asked.put(request)
    while not request.done.is_set():
        request.alive.clear()
        if not request.alive.wait(_PATIENCE):
            return request.done.is_set()
    return True


def tell(text: str) -> None:
    """Say it in the window, or on the console where there is none."""
    if bpy.app.background:
        print(f"dampsim: {text}", flush=True)
    else:
        _asked.put(_Request(lambda _: _pop_up(text)))


def afterwards(work: Callable[[], None]) -> None:
    """Do it in the window's thread, which nobody waits for; at once where that is this one."""
    if here():
        work()
    else:
        _asked.put(_Request(lambda _: work()))


def _pop_up(text: str) -> None:
    def draw(menu: bpy.types.Menu, context: bpy.types.Context) -> None:
        menu.layout.label(text=text)

    bpy.context.window_manager.popup_menu(draw, title="DampSim", icon="ERROR")


def _look() -> float:
    try:
        request = _asked.get_nowait()
    except Empty:
        return _LOOK if bpy.app.is_job_running("RENDER") else 4.0 * _LOOK
    try:
        request.work(request.alive.set)
    finally:
        request.done.set()
        request.alive.set()
    return _LOOK


def register() -> None:
    bpy.app.timers.register(_look, persistent=True)


def unregister() -> None:
    if bpy.app.timers.is_registered(_look):
        bpy.app.timers.unregister(_look)
