"""State that lasts while a file is open, and the add-on's handlers and timers in Blender."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import bpy
from bpy.app.handlers import persistent


class SessionState:
    """Base class of all state that lasts until another file is opened.

    survives_undo: False for references to objects, which undo, redo and import make invalid.
    """

    survives_undo: ClassVar[bool] = True

    @classmethod
    def current(cls) -> Self:
        """Return the state of the open file; a new one on first use."""
        if cls not in _SESSION:
            _SESSION[cls] = cls()
        return cast("Self", _SESSION[cls])

    @classmethod
    def in_use(cls) -> list[Self]:
        """Return the states of this class and its subclasses that the open file has."""
        return [state for state in _SESSION.values() if isinstance(state, cls)]

    def close(self) -> None:
        """Release resources of Blender."""


class OwnUpdates(SessionState):
    """State of the changes that Live makes to the scene. Updates that follow from them are no edits.

    is_running: whether Live changes the scene at the moment.
    """

    is_running = False


# All states of the open file, by class.
_SESSION: dict[type[SessionState], SessionState] = {}


def _discard_all(*_: object) -> None:
    _discard(SessionState.in_use())


def _discard_objects(*_: object) -> None:
    _discard([state for state in SessionState.in_use() if not state.survives_undo])


def _discard(states: list[SessionState]) -> None:
    for state in states:
        del _SESSION[type(state)]
        state.close()


@dataclass
class Subscriber:
    """Callbacks of a module.

    handlers: by the names of the lists of `bpy.app.handlers`.  timer: called every interval (s) if there is a window;
    it may return the next interval.  is_active: whether the handlers are called.
    """

    name: str
    handlers: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    timer: Callable[[], float | None] | None = None
    interval: float = 0.0
    is_active: bool = True

    def handle(self, event: str, *args: Any) -> None:
        """Call the handler of an event."""
        if self.is_active:
            self.handlers[event](*args)


class Dispatcher:
    """Owner of all handlers and timers. They notify subscribers of an event in the given order."""

    def __init__(self, *subscribers: Subscriber) -> None:
        # Objects are discarded before an event, and after it, since other handlers may have read some in between.
        events = ("load_post", "undo_pre", "undo_post", "redo_pre", "redo_post", "blend_import_post")
        discard = {"load_pre": _discard_all, **dict.fromkeys(events, _discard_objects)}
        self.subscribers = (Subscriber("session", discard), *subscribers)
        self._handlers: dict[str, Callable[..., None]] = {}
        self._timers: list[Callable[[], float]] = []

    def register(self) -> None:
        """Add the handlers and timers."""
        for event in dict.fromkeys(event for one in self.subscribers for event in one.handlers):
            self._handlers[event] = self._make_handler(event)
            getattr(bpy.app.handlers, event).append(self._handlers[event])
        for one in self.subscribers:
            if one.timer is not None and not bpy.app.background:
                self._timers.append(lambda call=one.timer, interval=one.interval: call() or interval)
                bpy.app.timers.register(self._timers[-1], first_interval=one.interval, persistent=True)

    def unregister(self) -> None:
        """Remove the handlers and timers, and discard all state."""
        while self._timers:
            timer = self._timers.pop()
            if bpy.app.timers.is_registered(timer):
                bpy.app.timers.unregister(timer)
        while self._handlers:
            event, handler = self._handlers.popitem()
            if handler in getattr(bpy.app.handlers, event):
                getattr(bpy.app.handlers, event).remove(handler)
        _discard_all()

    def _make_handler(self, event: str) -> Callable[..., None]:
        interested = [one for one in self.subscribers if event in one.handlers]

        def handler(*args: Any) -> None:
            # The stack calls all of them, last in first out, even if some fail.
            with contextlib.ExitStack() as stack:
                for one in reversed(interested):
                    stack.callback(one.handle, event, *args)

        return cast("Callable[..., None]", persistent(handler))


def called_before_frames(function: Callable[[int], None]) -> contextlib.AbstractContextManager[None]:
    """Context in which a function is called before each frame is evaluated, with its number.

    It is called before earlier handlers, as these may change the frame.
    """
    return _first_frame_handler(lambda scene, *_: function(scene.frame_current))


def shifted_frames(scene: bpy.types.Scene, offset: int) -> contextlib.AbstractContextManager[None]:
    """Context in which a later frame of a scene is evaluated whenever one is set. offset: frames."""

    def shift(shown: bpy.types.Scene, *_: Any) -> None:
        if shown == scene:
            shown.frame_current += offset

    return _first_frame_handler(shift)


@contextlib.contextmanager
def _first_frame_handler(handler: Callable[..., None]) -> Iterator[None]:
    bpy.app.handlers.frame_change_pre.insert(0, handler)
    try:
        yield
    finally:
        bpy.app.handlers.frame_change_pre.remove(handler)


def _frame_handlers() -> tuple[list[Callable[..., None]], list[Callable[..., None]]]:
    """Return Blender's lists of the handlers that are called before and after a frame is evaluated."""
    return bpy.app.handlers.frame_change_pre, bpy.app.handlers.frame_change_post


def _is_own(handler: Callable[..., None]) -> bool:
    return getattr(handler, "__module__", "") == __name__


def has_frame_handlers_of_others() -> bool:
    """Return whether scripts or other add-ons have handlers of frame changes."""
    return not all(map(_is_own, itertools.chain(*_frame_handlers())))


def enclose_frame_handlers_of_others() -> None:
    """Put our handlers before all others that are called before a frame is evaluated, and behind those called after it.

    Others then still have the state of the last frame when ours begins, and that of this frame when it ends. Blender
    calls handlers by their place, so the one that runs now may move forwards.
    """
    before, after = _frame_handlers()
    if (ordered := sorted(before, key=lambda one: not _is_own(one))) != before:
        before[:] = ordered
    if (ordered := sorted(after, key=_is_own)) != after:
        after[:] = ordered


@contextlib.contextmanager
def without_frame_handlers_of_others() -> Iterator[None]:
    """Context in which a frame is evaluated without the handlers of scripts and other add-ons.

    Only Blender may run meanwhile: handlers that are added or removed are not kept.
    """
    lists = _frame_handlers()
    kept = [list(found) for found in lists]
    try:
        for found in lists:
            found[:] = filter(_is_own, found)
        yield
    finally:
        for found, handlers in zip(lists, kept, strict=True):
            found[:] = handlers
