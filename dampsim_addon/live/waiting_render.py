"""Work in the main thread on behalf of a render thread, in which Blender cannot evaluate other frames.

The render waits inside its handler while the main thread simulates the missing frames.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import bpy

# Interval at which the main thread checks for requests during a render, s; four times as long otherwise.
_LOOK = 0.05
# Longest time for which a render waits for the start of the work, or for the next simulated frame, s.
_PATIENCE = 60.0

_asked: SimpleQueue[_Request] = SimpleQueue()


class _Request:
    """Request to the main thread. work: called there.  heartbeat: set after each step.  finished: set at the end."""

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        self.work, self.alive, self.done = work, threading.Event(), threading.Event()


def here() -> bool:
    """Return whether this is the main thread, which may evaluate frames."""
    return threading.current_thread() is threading.main_thread()


def done_there(work: Callable[[Callable[[], None]], None]) -> bool:
    """Run work in the main thread and wait. Returns whether it was done. work gets a callback for each step."""
    request = _Request(work)
    _asked.put(request)
    while not request.done.is_set():
        request.alive.clear()
        if not request.alive.wait(_PATIENCE):
            return request.done.is_set()
    return True


def tell(text: str) -> None:
    """Show a message in the window, or print it in background mode."""
    if bpy.app.background:
        print(f"dampsim: {text}", flush=True)
    else:
        _asked.put(_Request(lambda _: _pop_up(text)))


def afterwards(work: Callable[[], None]) -> None:
    """Run work in the main thread without waiting; immediately if this is the main thread."""
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
