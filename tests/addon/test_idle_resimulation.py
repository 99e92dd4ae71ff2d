"""Idle resimulation: outdated frames are simulated again while paused, unless unkeyed changes would be lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bpy
import pytest
from scenes import armature, new_scene, wobbler

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def play_to(scene: bpy.types.Scene, last: int) -> None:
    for number in range(scene.frame_start, last + 1):
        scene.frame_set(number)


def test_idle_resimulation_up_to_current_frame(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    going_on = load("dampsim_addon.ui.main.idle_resimulation")
    # Frames that were never played are not simulated while idle.
    assert going_on.outdated_groups(bpy.context) == []
    play_to(scene, 8)
    assert going_on.outdated_groups(bpy.context) == []
    obj.dampsim.settle = 15.0
    bpy.context.view_layer.update()
    assert [group.members for group in going_on.outdated_groups(bpy.context)] == [(obj,)]
    for _ in range(20):
        going_on.simulate_slice(scene)
        session = live.find_session(obj)
        told = going_on.resimulation_text([session], scene)
        assert told.startswith(f"DampSim: updating frame {min(session.next_frame, 8)} of 8"), told
    assert going_on.outdated_groups(bpy.context) == []
    assert session.verified == scene.frame_current == 8
    assert obj.modifiers["DampSim Live"].show_viewport


@pytest.mark.parametrize("change", ["bake", "mode", "hidden", "switched off"])
def test_nothing_waits_while_live_is_blocked(load: Load, live: ModuleType, tmp_path: Path, change: str) -> None:
    """No group waits that is baked, in Edit Mode, hidden or has Live switched off."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    play_to(scene, 3)
    obj.dampsim.settle = 15.0
    if change == "bake":
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
    elif change == "mode":
        bpy.ops.object.mode_set(mode="EDIT")
    elif change == "hidden":
        obj.hide_set(True)
    else:
        obj.dampsim.live = False
    bpy.context.view_layer.update()
    assert load("dampsim_addon.ui.main.idle_resimulation").outdated_groups(bpy.context) == []


@pytest.mark.parametrize("plays", [False, True])
def test_playback_keeps_its_escape(load: Load, monkeypatch: pytest.MonkeyPatch, plays: bool) -> None:
    """ESC stops the playback if the animation plays, and the simulation if it is paused."""
    idle = load("dampsim_addon.ui.main.idle_resimulation")
    monkeypatch.setattr(idle, "is_playing", lambda: plays)
    activity, ended = idle._Activity.current(), []
    operator, escape = SimpleNamespace(_end=ended.append), SimpleNamespace(type="ESC", value="PRESS")
    activity.is_cancelled = False
    passed_on = "PASS_THROUGH" in idle.DAMPSIM_OT_go_on.modal(operator, bpy.context, escape)
    assert ended == [bpy.context]
    assert passed_on == plays
    assert activity.is_cancelled != plays


def test_unkeyed_changes_of_keyframed_values(load: Load, tmp_path: Path) -> None:
    """A keyframed value that was changed without a new key is reported: another frame would discard the change."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    rig = armature(obj)
    unkeyed = load("dampsim_addon.blender.animation").object_with_unkeyed_change
    for frame in (1, 4, 6):
        scene.frame_set(frame)
        assert unkeyed(scene.objects, frame) == ""
    rig.pose.bones["high"].rotation_euler.x += 0.2
    assert unkeyed(scene.objects, 6) == "Rig"
    rig.pose.bones["high"].keyframe_insert("rotation_euler", frame=6)
    assert unkeyed(scene.objects, 6) == ""
    obj.location.x += 0.1
    assert unkeyed(scene.objects, 6) == "Wobbler"
    scene.frame_set(6)
    obj.keyframe_insert("dampsim.hold", frame=1)
    obj.dampsim.hold = 0.0
    assert unkeyed(scene.objects, 6) == "Wobbler"
    scene.frame_set(6)
    # Values without keyframes survive a change of frame.
    rig.location.z = 0.4
    rig.pose.bones["low"].scale.x = 1.1
    assert unkeyed(scene.objects, 6) == ""


@pytest.mark.parametrize("fails", [False, True])
def test_render_thread_delegates_to_main_thread(load: Load, fails: bool) -> None:
    """Work requested by a render thread runs in the main thread, which also raises its errors."""
    waiting_render = load("dampsim_addon.live.main_thread")
    where, ended = [], []

    def work(alive: Callable[[], None]) -> None:
        alive()
        where.append(threading.current_thread())
        if fails:
            raise ZeroDivisionError

    render = threading.Thread(target=lambda: ended.append(waiting_render.run_on_main_thread(work)))
    render.start()
    error: list[Exception] = []
    while render.is_alive():
        try:
            waiting_render._handle_request()
        except ZeroDivisionError as one:
            error.append(one)
    assert where == [threading.main_thread()]
    assert ended == [True]
    assert bool(error) == fails
