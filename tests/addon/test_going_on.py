"""Paused, what an edit made out of date is simulated again, unless that would lose something."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import armature, fresh, wobbler

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def played(scene: bpy.types.Scene, last: int) -> None:
    for number in range(scene.frame_start, last + 1):
        scene.frame_set(number)


def test_what_is_out_of_date_is_simulated_up_to_the_current_frame(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = fresh()
    obj = wobbler(tmp_path)
    going_on = load("dampsim_addon.ui.idle_resimulation")
    # What nobody has played yet is not simulated of itself.
    assert going_on.waiting(bpy.context) == []
    played(scene, 8)
    assert going_on.waiting(bpy.context) == []
    obj.dampsim.settle = 15.0
    bpy.context.view_layer.update()
    assert [group.members for group in going_on.waiting(bpy.context)] == [(obj,)]
    for _ in range(20):
        going_on.go_on(scene)
        session = live.find(obj)
        told = going_on.said([session], scene)
        assert told.startswith(f"DampSim: updating frame {min(session.next, 8)} of 8"), told
    assert going_on.waiting(bpy.context) == []
    assert session.verified == scene.frame_current == 8
    assert obj.modifiers["DampSim Live"].show_viewport


@pytest.mark.parametrize("change", ["bake", "mode", "hidden", "switched off"])
def test_nothing_waits_that_live_may_not_touch(load: Load, live: ModuleType, tmp_path: Path, change: str) -> None:
    scene = fresh()
    obj = wobbler(tmp_path)
    played(scene, 3)
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
    assert load("dampsim_addon.ui.idle_resimulation").waiting(bpy.context) == []


def test_a_change_of_keyframed_values_that_is_not_keyed_keeps_it_from_other_frames(load: Load, tmp_path: Path) -> None:
    scene = fresh()
    obj = wobbler(tmp_path)
    rig = armature(obj)
    unkeyed = load("dampsim_addon.live.unkeyed_changes").unkeyed
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
    # Not keyed at all: no frame takes it away.
    rig.location.z = 0.4
    rig.pose.bones["low"].scale.x = 1.1
    assert unkeyed(scene.objects, 6) == ""


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_render_s_thread_asks_for_is_done_by_the_window_s(load: Load, fails: bool) -> None:
    waiting_render = load("dampsim_addon.live.main_thread")
    where, ended = [], []

    def work(alive: Callable[[], None]) -> None:
        alive()
        where.append(threading.current_thread())
        if fails:
            raise ZeroDivisionError

    render = threading.Thread(target=lambda: ended.append(waiting_render.done_there(work)))
    render.start()
    error: list[Exception] = []
    while render.is_alive():
        try:
            waiting_render._look()
        except ZeroDivisionError as one:
            error.append(one)
    assert where == [threading.main_thread()]
    assert ended == [True]
    assert bool(error) == fails
