"""Work in the main thread on behalf of a render thread, in which Blender cannot evaluate other frames.

The render waits inside its handler while the main thread simulates the missing frames.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import bpy

from ..session import Subscriber
from ..translations import translate

# Interval at which the main thread checks for requests during a render, s; four times as long otherwise.
_POLL_INTERVAL = 0.05
# Longest time for which a render waits for the start of the work, or for the next simulated frame, s.
_TIMEOUT = 60.0

_requests: SimpleQueue[_Request] = SimpleQueue()


class _Request:
    """Request to the main thread. work: called there.  heartbeat: set after each step.  finished: set at the end."""

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        self.work, self.heartbeat, self.finished = work, threading.Event(), threading.Event()


def is_main_thread() -> bool:
    """Return whether this is the main thread, which may evaluate frames."""
    return threading.current_thread() is threading.main_thread()


def run_on_main_thread(work: Callable[[Callable[[], None]], None]) -> bool:
    """Run work in the main thread and wait. Returns whether it was done. work gets a callback for each step."""
    request = _Request(work)
    _requests.put(request)
    while not request.finished.is_set():
        request.heartbeat.clear()
        if not request.heartbeat.wait(_TIMEOUT):
            return request.finished.is_set()
    return True


def notify(text: str) -> None:
    """Show a message in the window, or print it in background mode."""
    if bpy.app.background:
        print(f"dampsim: {text}", flush=True)
    else:
        _requests.put(_Request(lambda _: _pop_up(text)))


def post_to_main_thread(work: Callable[[], None]) -> None:
    """Run work in the main thread without waiting; immediately if this is the main thread."""
    if is_main_thread():
        work()
    else:
        _requests.put(_Request(lambda _: work()))


def _pop_up(text: str) -> None:
    def draw(menu: bpy.types.Menu, context: bpy.types.Context) -> None:
        menu.layout.label(text=translate(text))

    bpy.context.window_manager.popup_menu(draw, title="DampSim", icon="ERROR")


def _handle_request() -> float | None:
    try:
        request = _requests.get_nowait()
    except Empty:
        return _POLL_INTERVAL if bpy.app.is_job_running("RENDER") else None
    try:
        request.work(request.heartbeat.set)
    finally:
        request.finished.set()
        request.heartbeat.set()
    return _POLL_INTERVAL


SUBSCRIBER = Subscriber("main_thread", timer=_handle_request, interval=4.0 * _POLL_INTERVAL)
