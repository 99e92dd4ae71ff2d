"""Session of the open file: its state, and the handlers and timers of the add-on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Subscribers of each event with several of them, in the order in which they are notified.
ORDER = {
    "load_pre": ["session", "saving"],
    "load_post": ["session", "alembic", "followed_names", "isolation", "cache_status", "live"],
    "undo_post": ["session", "cache_status", "bake_changes", "pieces", "model_errors", "late_refusals", "live"],
    "blend_import_post": ["session", "live"],
    "depsgraph_update_post": [
        "registry", "followed_names", "geometry_nodes", "object_index", "contributors", "instances", "cache_status",
        "bake_changes", "pieces", "late_refusals", "live", "idle_resimulation",
    ],
    "frame_change_pre": ["registry", "live"],
    "frame_change_post": ["live"],
    "save_pre": ["save_handlers", "live"],
    "save_post": ["save_handlers", "clear", "cache_status", "live", "saving"],
    "render_init": ["background_render", "live"],
}  # fmt: skip


def our_handlers() -> list[tuple[str, Any]]:
    """Return the add-on's handlers with the names of their lists."""
    lists = {
        name: found for name in dir(bpy.app.handlers) if isinstance(found := getattr(bpy.app.handlers, name), list)
    }
    return [(name, one) for name, found in lists.items() for one in found if one.__module__.startswith("dampsim.")]


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch, load: Load) -> Iterator[list[Callable[[], float]]]:
    """Timers that the add-on has registered, as in a window."""
    found: list[Callable[[], float]] = []

    class Timers:
        is_registered = staticmethod(found.__contains__)
        unregister = staticmethod(found.remove)

        @staticmethod
        def register(function: Callable[[], float], first_interval: float, persistent: bool) -> None:
            assert persistent
            found.append(function)

    class WindowedApp:
        background, timers, app = False, Timers, bpy.app

        def __getattr__(self, name: str) -> object:
            return getattr(self.app, name)

    load("").unregister()
    monkeypatch.setattr(bpy, "app", WindowedApp())
    yield found
    monkeypatch.undo()
    load("").register()


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the installed extension stays on")
def test_handlers_and_timers_are_unregistered(load: Load, timers: list[Callable[[], float]]) -> None:
    for _ in range(2):
        assert our_handlers() == []
        assert timers == []
        load("").register()
        events = [name for name, _ in our_handlers()]
        assert len(events) == len(set(events))
        assert set(events) >= ORDER.keys()
        assert len(timers) == 7
        load("").unregister()
    assert our_handlers() == []
    assert timers == []


def test_subscribers_are_notified_in_order(load: Load) -> None:
    subscribers = load("dampsim_addon").DISPATCHER.subscribers
    assert {event: [one.name for one in subscribers if event in one.handlers] for event in ORDER} == ORDER


def test_failing_subscriber_does_not_stop_others(load: Load) -> None:
    session, called = load("dampsim_addon.session"), []

    def fail(*_: object) -> None:
        called.append("first")
        raise ZeroDivisionError

    first = session.Subscriber("first", {"frame_change_pre": fail})
    idle = session.Subscriber("idle", {"frame_change_pre": lambda *_: called.append("idle")}, is_active=False)
    last = session.Subscriber("last", {"frame_change_pre": lambda *_: called.append("last")})
    handler = session.Dispatcher(first, idle, last)._make_handler("frame_change_pre")
    with pytest.raises(ZeroDivisionError):
        handler(bpy.context.scene, None)
    assert called == ["first", "last"]


@pytest.mark.parametrize("event", ["opened", "undone"])
def test_session_is_emptied(load: Load, live: ModuleType, tmp_path: Path, event: str) -> None:
    """Opening a file discards all state. Undo discards references to objects only."""
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    bpy.ops.ed.undo_push()
    scene.frame_set(2)
    load("dampsim_addon.model.colliders").all_colliders()
    load("dampsim_addon.status.results").store_curve(obj, None, "")
    state = load("dampsim_addon.session").SessionState
    before = state.in_use()
    assert {"Scans", "ColliderIndex", "LiveSessions", "_Results"} <= {type(one).__name__ for one in before}
    if event == "undone":
        bpy.ops.ed.undo_push()
        bpy.ops.ed.undo()
    else:
        new_scene(3)
    kept = {type(one).__name__ for one in before if any(one is other for other in state.in_use())}
    lasting = {type(one).__name__ for one in before if one.survives_undo}
    assert kept == (lasting if event == "undone" else set())
