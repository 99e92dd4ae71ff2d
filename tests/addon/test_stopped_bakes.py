"""ESC in each phase of a bake: the file is as before, the next bake works, and no other object loses its bake."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import armature, new_scene, wobbler
from test_several_objects import drawn

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 4


def two_objects(cache: Path, target: str) -> list[bpy.types.Object]:
    """Return a ball that bones deform beside a collider, and a second ball that is simulated on its own."""
    scene = new_scene(LAST)
    scene.frame_set(2)
    other = wobbler(cache / "2", "Second")
    other.location.y = 9.0
    obj = wobbler(cache / "1", "First")
    obj.modifiers.clear()
    armature(obj)
    bpy.ops.mesh.primitive_cube_add(location=(0.0, 0.0, -4.0))
    bpy.context.object.name, bpy.context.object.dampsim_collider.is_collider = "Floor", True
    # Unrelated objects are disabled during a bake.
    bpy.ops.mesh.primitive_cube_add(location=(50.0, 0.0, 0.0))
    bpy.context.object.name = "Bystander"
    for frame in (1, 3):
        bpy.context.object.location.x += 1.0
        bpy.context.object.keyframe_insert("location", frame=frame)
    obj.dampsim.target = target
    bpy.context.view_layer.objects.active = obj
    scene.frame_set(2)
    return [obj, other]


def file_state() -> dict[str, Any]:
    """Return what a bake changes while it runs, and what it leaves behind."""
    found: dict[str, Any] = {"frame": bpy.context.scene.frame_current}
    for obj in bpy.data.objects:
        keys = getattr(obj.data, "shape_keys", None)
        found[obj.name] = (
            obj.hide_viewport, obj.select_get(), [(m.name, m.show_viewport) for m in obj.modifiers],
            [] if keys is None else [(key.name, key.mute, key.value) for key in keys.key_blocks],
            [] if obj.animation_data is None else [one.data_path for one in obj.animation_data.drivers],
            sorted(group.name for group in obj.vertex_groups), obj.dampsim.baked,
        )  # fmt: skip
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["SHAPE_KEYS", "BONES", "POINT_CACHE"])
def test_stop_in_each_phase(load: Load, tmp_path: Path, target: str) -> None:
    job, tree = load("dampsim_addon.jobs.bake"), load("dampsim_addon.blender.sampler")
    obj, other = two_objects(tmp_path, target)
    scene, layer = bpy.context.scene, bpy.context.view_layer
    # In the modal operator a step of a phase may be its first or a later one.
    phases = dict[str, int]()
    for step in job.bake_all(scene, layer, [obj, other], True):
        phase = step.text.partition(": ")[2] or step.text
        phases[phase] = phases.get(phase, 0) + 1
    assert {"Preparing", "Simulating"} <= set(phases)
    assert obj.dampsim.baked == target
    for one in (other, obj):
        bpy.context.view_layer.objects.active = one
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
    before, threads = file_state(), threading.active_count()
    for phase, count in phases.items():
        for place in {1, (count + 1) // 2}:
            seen = 0
            steps = job.bake_group(scene, layer, load("dampsim_addon.model.groups").group_of(obj), True)
            for step in steps:
                seen += step.text == phase
                if seen == place:
                    break
            steps.close()
            if obj.dampsim.baked:
                # The phase belongs to the other object, or the bake was complete.
                bpy.ops.dampsim.clear()
            assert tree.ACTIVE_SAMPLERS == []
            assert file_state() == before, (phase, place)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name.startswith("ThreadPool"):
            thread.join(timeout=20.0)
    assert threading.active_count() <= threads + 1
    results = load("dampsim_addon.api").bake([obj, other])
    assert [result.problem for result in results] == ["", ""]


@pytest.mark.parametrize("first_fails", [True, False])
def test_error_keeps_other_bakes(load: Load, tmp_path: Path, first_fails: bool) -> None:
    """An object that is refused at once, or after its frames are read, is named, and the other one is baked."""
    obj, other = two_objects(tmp_path, "SHAPE_KEYS")
    failing, sound = (obj, other) if first_fails else (other, obj)
    bpy.app.driver_namespace["zero_from_3"] = lambda frame: float(frame < 3)
    failing.driver_add("scale", 2).driver.expression = "zero_from_3(frame)"
    bpy.context.scene.frame_set(1)
    for one in bpy.context.selected_objects:
        one.select_set(False)
    for one in (obj, other):
        one.select_set(True)
    with pytest.raises(RuntimeError, match=f"{failing.name}: its scale is zero along an axis at frame 3"):
        bpy.ops.dampsim.bake(which="SELECTED")
    assert (failing.dampsim.baked, sound.dampsim.baked) == ("", "SHAPE_KEYS")
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "refused" in find_issues(failing, bpy.context.scene)
    assert "refused" not in find_issues(sound, bpy.context.scene)


def test_running_bake_shows_no_problems(load: Load, tmp_path: Path) -> None:
    """A bake mutes the keys of the previous one meanwhile, which is no damage of that."""
    new_scene(LAST)
    obj = wobbler(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    progress = bpy.context.window_manager.dampsim_progress
    progress.text, progress.ended_by_esc = "Preparing", "stops and keeps the finished frames"
    steps = load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, True)
    try:
        progress.object_name = obj.name
        next(step for step in steps if step.text == "Simulating")
        assert any(key.mute for key in obj.data.shape_keys.key_blocks)
        said = " ".join(drawn(load, "DAMPSIM_PT_bake"))
    finally:
        progress.object_name = ""
        steps.close()
    assert "ESC stops" in said
    assert "muted" not in said
    assert "muted" not in " ".join(drawn(load, "DAMPSIM_PT_bake"))
