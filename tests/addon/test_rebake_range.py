"""Re-bake of a range, and bakes of the preview range."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import TARGETS, new_scene, size, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST, FIRST_BAKED, LAST_BAKED = 24, 8, 18


def baked_wobbler(tmp_path: Path, target: str = "SHAPE_KEYS") -> bpy.types.Object:
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    for frame, place in ((12, 0.5), (15, -0.2), (19, 0.4), (22, 0.1)):
        obj.location.x = place
        obj.keyframe_insert("location", frame=frame)
    obj.dampsim.resolution, obj.dampsim.target, obj.dampsim.range_blend = 60, target, 4
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj


def shapes(obj: bpy.types.Object) -> np.ndarray:
    return np.array([world_vertices(obj, frame) for frame in range(1, LAST + 1)])


def preview(first: int = FIRST_BAKED, last: int = LAST_BAKED) -> bpy.types.Scene:
    scene = bpy.context.scene
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, first, last
    return scene


def error_bound(obj: bpy.types.Object) -> float:
    return max(float(obj.dampsim.baked_error), 2e-6 * size(world_vertices(obj, 1)))


@pytest.mark.parametrize("target", [
    one if one in ("SHAPE_KEYS", "POINT_CACHE") else pytest.param(one, marks=pytest.mark.slow) for one in TARGETS
])  # fmt: skip
def test_range_of_each_target(load: Load, tmp_path: Path, target: str) -> None:
    """The range changes within all targets, and the other frames stay within the bound of the bake."""
    obj = baked_wobbler(tmp_path, target)
    before, bound = shapes(obj), error_bound(obj)
    obj.dampsim.settle, obj.dampsim.bounce = 24.0, 60.0
    (result,) = load("dampsim_addon.api").bake([obj], frames=(FIRST_BAKED, LAST_BAKED))
    assert not result.problem
    said = f"frames {FIRST_BAKED} to {LAST_BAKED} are re-baked with Settle (8, now 24) and Bounce"
    assert said in str(result.touched)
    after, moved = shapes(obj), np.linalg.norm(shapes(obj) - before, axis=2).max(axis=1)
    kept = [*range(FIRST_BAKED - 1), *range(LAST_BAKED, LAST)]
    assert moved[kept].max() <= bound + error_bound(obj)
    assert moved[FIRST_BAKED + 3 : LAST_BAKED - 4].max() > 0.01
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    simulated = np.array([cache.read_shape(frame, obj.name) for frame in range(1, LAST + 1)])
    assert np.linalg.norm(after - simulated, axis=2).max() <= error_bound(obj)


def test_range_keeps_animators_edits(tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path)
    strip = obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]
    strip.use_animated_influence, strip.blend_out, strip.scale = True, 2.0, 1.5
    for frame, value in ((3, 1.0), (14, 0.4)):
        strip.influence = value
        strip.keyframe_insert("influence", frame=frame)

    def edits() -> list[Any]:
        own = obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]
        keys = [(tuple(key.co), key.interpolation) for key in own.fcurves.find("influence").keyframe_points]
        return [own.scale, own.blend_out, own.frame_start, own.frame_end, *keys]

    kept = edits()
    obj.dampsim.settle = 24.0
    assert bpy.ops.dampsim.rebake_range(first=FIRST_BAKED, last=LAST_BAKED) == {"FINISHED"}
    assert edits() == kept


def test_rebake_replaces_or_keeps_range(load: Load, tmp_path: Path) -> None:
    """The dials of the other frames keep a range; others are reported above the button, with a fix."""
    obj = baked_wobbler(tmp_path)
    issues = load("dampsim_addon.ui.bake.checks").find_issues
    obj.dampsim.settle = 24.0
    bpy.ops.dampsim.rebake_range(first=FIRST_BAKED, last=LAST_BAKED)
    ranged, changes = shapes(obj), load("dampsim_addon.status.bake_changes").changes_since_bake
    assert changes(obj, bpy.context.scene) == []
    issue = issues(obj, bpy.context.scene)["ranges"]
    assert issue.button_label == "Restore 1 Dial"
    issue.fix(obj, bpy.context.scene)
    assert obj.dampsim.settle == 8.0
    assert "ranges" not in issues(obj, bpy.context.scene)
    assert changes(obj, bpy.context.scene) == []
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert np.abs(shapes(obj) - ranged).max() < 2e-3
    assert f"frames {FIRST_BAKED} to {LAST_BAKED} are re-baked" in obj.dampsim.baked_touched
    obj.dampsim.settle = 24.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert f"frames {FIRST_BAKED} to {LAST_BAKED} are no longer re-baked alone" in obj.dampsim.baked_touched
    assert np.abs(shapes(obj) - ranged)[LAST_BAKED + 1 :].max() > 0.01
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert not any((tmp_path / "cache").rglob("*.frame"))


def test_stopped_range_keeps_bake(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path)
    before = shapes(obj)
    obj.dampsim.settle = 24.0
    job, groups = load("dampsim_addon.jobs.bake"), load("dampsim_addon.model.groups")
    scene, layer = bpy.context.scene, bpy.context.view_layer
    steps = job.bake_group(scene, layer, groups.group_of(obj), False, frames=(FIRST_BAKED, LAST_BAKED))
    for step in steps:
        if step.text == "Re-baking" and step.completed == 3:
            break
    steps.close()
    np.testing.assert_array_equal(shapes(obj), before)


def test_button_rebakes_preview_range(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path)
    before, scene = shapes(obj), preview()
    label = load("dampsim_addon.status.next_bake").bake_label
    assert label([obj], scene) == "Re-bake Frames 8 to 18"
    obj.dampsim.settle = 24.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    moved = np.abs(shapes(obj) - before).max(axis=(1, 2))
    assert moved[FIRST_BAKED + 3 : LAST_BAKED - 4].max() > 0.01
    assert moved[LAST_BAKED:].max() < 2.0 * error_bound(obj)
    assert moved[: FIRST_BAKED - 1].max() < 2.0 * error_bound(obj)
    assert not load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene)
    scene.use_preview_range = False
    assert not load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene)
    assert label([obj], scene) == "Re-bake"


def test_first_bake_ends_with_preview_range(load: Load, tmp_path: Path) -> None:
    """Frames before the preview range are simulated too, and a bake without it continues after its end."""
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution = 60
    bpy.context.view_layer.objects.active = obj
    scene = preview(6, 10)
    changes = load("dampsim_addon.status.bake_changes").changes_since_bake
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert "frames 1 to 10 are baked, to the end of the preview range" in obj.dampsim.baked_touched
    assert load("dampsim_addon.model.caches").frame_cache(obj).frame_numbers() == list(range(1, 11))
    assert changes(obj, scene) == []
    scene.use_preview_range = False
    assert changes(obj, scene) == ["End 10, now 24"]
    assert load("dampsim_addon.status.next_bake").bake_label([obj], scene) == "Resume at Frame 11"
    assert bpy.ops.dampsim.bake(resume=True) == {"FINISHED"}
    assert changes(obj, scene) == []
    # A loop needs its whole cycle.
    obj.dampsim.loop = True
    preview(6, 10)
    groups = load("dampsim_addon.model.groups")
    assert groups.last_frame(groups.group_of(obj), scene) == LAST


def test_impossible_range_is_refused(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path)
    before = shapes(obj)
    with pytest.raises(RuntimeError, match=r"^Error: Wobbler: frames 10 to 12 are too few for blends over 4 frames"):
        bpy.ops.dampsim.rebake_range(first=10, last=12)
    obj.dampsim.resolution = 200
    with pytest.raises(RuntimeError, match="not the mesh, Resolution or Kind"):
        bpy.ops.dampsim.rebake_range(first=FIRST_BAKED, last=LAST_BAKED)
    np.testing.assert_array_equal(shapes(obj), before)


@pytest.mark.slow
def test_cli_rebakes_range(load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baked_wobbler(tmp_path)
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    cli = load("dampsim_addon.cli")
    assert cli.main(["bake", "--range", "8:18", "--blend", "3", "--set", "settle=24"]) == cli.DONE
    assert "frames 8 to 18 are re-baked with Settle (8, now 24), blended over 3 frames" in capsys.readouterr().out
    for wrong in (["--range", "18:8"], ["--range", "8:18", "--restart"], ["--range", "8:18", "--blend", "1"]):
        assert cli.main(["bake", *wrong]) == cli.USAGE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    preview(8, 18)
    bpy.ops.wm.save_mainfile()
    # Frames on the command line take precedence over the preview range.
    assert cli.main(["bake", "--frames", "1:24", "--set", "settle=24"]) == cli.DONE
    assert "no longer re-baked alone" in capsys.readouterr().out
