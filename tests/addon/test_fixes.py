"""Fixes of several affected objects, and problems whose fix would not help, so that none is offered."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
import test_doctor
import test_refusals
from scenes import new_scene, wobbler, world_vertices
from test_doctor import object_without_findings
from test_several_objects import drawn, pillows

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
Build = Callable[[Path], bpy.types.Object]


def _doctor_build(provoke: Callable[[bpy.types.Object], None]) -> Build:
    def build(cache: Path) -> bpy.types.Object:
        obj = wobbler(cache)
        obj.scale = (0.7, 0.7, 0.7)
        bpy.context.view_layer.update()
        provoke(obj)
        return obj

    return build


# Check and function that builds an affected object, for all problems with a fix. Only the active object can be in Edit
# Mode, and an object of an excluded collection cannot be selected.
CASES = {
    **{name: (check, _doctor_build(provoke)) for name, (check, provoke, _, fix) in test_doctor.CASES.items() if fix},
    **{one.__name__: (check, one) for one, (check, _, label) in test_refusals.CASES.items() if label},
}
for left_out in ("edited", "excluded_collection"):
    del CASES[left_out]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_fix_helps_all_affected(load: Load, tmp_path: Path, case: str) -> None:
    """One press of each button ends the problem of every object that the button counts. Other problems may remain."""
    issue_list, doctor = load("dampsim_addon.ui.bake.issue_list"), load("dampsim_addon.ui.bake.checks")
    (check, build), ways = CASES[case], 1
    for way in count():
        if way == ways:
            break
        scene = new_scene()
        objects = []
        for number in range(2):
            # A case may bake all frames of the scene, and then choose a preview range.
            scene.use_preview_range = False
            objects.append(build(tmp_path / f"{way} {number}"))
        objects[1].location.y = 30.0
        for obj in objects:
            obj.select_set(True)
        bpy.context.view_layer.objects.active = objects[0]
        bpy.context.view_layer.update()
        issues = issue_list.chosen_issues(bpy.context, {check: doctor.CHECKS[check]})[check]
        fixes = issues[objects[0]].fixes
        ways = len(fixes)
        # Hidden objects cannot be selected.
        assert len(issues) == (1 if not objects[1].visible_get() else 2)
        label = fixes[way].button_label
        assert bpy.ops.dampsim.mend(check=check, way=way, label=label) == {"FINISHED"}
        bpy.context.view_layer.update()
        scene.frame_set(3)
        scene.frame_set(1)
        left = {obj: doctor.find_issues(obj, scene).get(check) for obj in issues}
        assert [one.text for obj, one in left.items() if one is not None and one.text == issues[obj].text] == []


def handle() -> bpy.types.Object:
    other = bpy.data.objects.new("Handle", None)
    bpy.context.scene.collection.objects.link(other)
    return other


def keyed_scale(obj: bpy.types.Object) -> None:
    for frame, scale in ((1, (0.5, 0.7, 0.7)), (6, (0.7, 0.7, 0.5))):
        obj.scale = scale
        obj.keyframe_insert("scale", frame=frame)
    bpy.context.scene.frame_set(1)


def driven_scale(obj: bpy.types.Object) -> None:
    obj.driver_add("scale", 0).driver.expression = "0.5"


def scaled_parent(obj: bpy.types.Object) -> None:
    obj.parent = handle()
    obj.parent.scale.y = 2.0


def mirrored_parent(obj: bpy.types.Object) -> None:
    obj.parent = handle()
    obj.parent.scale.y = -1.0


def sheared(obj: bpy.types.Object) -> None:
    scaled_parent(obj)
    obj.parent.rotation_euler.z, obj.rotation_euler = 0.4, (0.3, 0.2, 0.1)


def limited_scale(obj: bpy.types.Object) -> None:
    limit = obj.constraints.new("LIMIT_SCALE")
    limit.use_max_x, limit.max_x = True, 0.5


def scaled_grandparent(obj: bpy.types.Object) -> None:
    """Mirror the parent of a parent without a scale of its own."""
    for name in ("Handle", "Root"):
        bpy.context.scene.collection.objects.link(bpy.data.objects.new(name, None))
    obj.parent, bpy.data.objects["Handle"].parent = bpy.data.objects["Handle"], bpy.data.objects["Root"]
    bpy.data.objects["Root"].scale.x = -1.0


def finest_tetrahedra(obj: bpy.types.Object) -> None:
    obj.dampsim.resolution, obj.dampsim.measured_fill = 400_000, 0.2


def keyed_render_levels(obj: bpy.types.Object) -> None:
    modifier = obj.modifiers["Subdivision"]
    modifier.render_levels = 3
    modifier.keyframe_insert("render_levels", frame=1)
    obj.modifiers.new("Smooth", "SMOOTH")
    obj.dampsim.target = "POINT_CACHE"


# Check, and the part of its message that names the cause.
WITHOUT_FIX: dict[Callable[[bpy.types.Object], None], tuple[str, str]] = {
    keyed_scale: ("scale", "because of its keyframes"),
    driven_scale: ("scale", "because of its driver"),
    scaled_parent: ("scale", "because of its parent Handle"),
    mirrored_parent: ("scale", "because of its parent Handle"),
    scaled_grandparent: ("scale", "because of its parent Root"),
    sheared: ("scale", "because of its parent Handle"),
    limited_scale: ("scale", "because of its constraint Limit Scale"),
    finest_tetrahedra: ("coarse", "20%"),
    keyed_render_levels: ("render", "Remove the animation of these settings"),
}


@pytest.mark.parametrize("provoke", WITHOUT_FIX, ids=lambda one: one.__name__)
def test_useless_fix_is_not_offered(load: Load, tmp_path: Path, provoke: Callable[[bpy.types.Object], None]) -> None:
    obj = object_without_findings(tmp_path)
    provoke(obj)
    bpy.context.scene.frame_set(1)
    check, words = WITHOUT_FIX[provoke]
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)[check]
    assert words in issue.text
    assert issue.fixes == []


def test_scale_fix_keeps_animation(tmp_path: Path) -> None:
    """The scale of the object itself is applied below an even parent and with shape keys."""
    obj = object_without_findings(tmp_path)
    obj.parent = handle()
    obj.parent.scale, obj.delta_scale = (2.0, 2.0, 2.0), (0.5, 1.0, -1.0)
    obj.shape_key_add(name="Basis")
    obj.shape_key_add(name="Bulge", from_mix=False).data[0].co.x += 0.3
    obj.data.shape_keys.key_blocks["Bulge"].value = 0.5
    bpy.context.view_layer.update()
    before = [world_vertices(obj, frame) for frame in (1, 5)]
    bpy.context.scene.frame_set(1)
    assert bpy.ops.dampsim.mend(check="scale") == {"FINISHED"}
    for known, frame in zip(before, (1, 5), strict=True):
        np.testing.assert_allclose(world_vertices(obj, frame), known, atol=1e-6)


def disabled_by_driver(obj: bpy.types.Object) -> None:
    obj.driver_add("hide_viewport").driver.expression = "1"


def disabled_at_first_key(obj: bpy.types.Object) -> None:
    for frame, disabled in ((1, True), (5, False)):
        obj.hide_viewport = disabled
        obj.keyframe_insert("hide_viewport", frame=frame)


@pytest.mark.parametrize("animate", [disabled_by_driver, disabled_at_first_key], ids=lambda one: one.__name__)
@pytest.mark.parametrize("is_collider", [False, True])
def test_animated_visibility_is_fixed(
    load: Load, tmp_path: Path, animate: Callable[[bpy.types.Object], None], is_collider: bool
) -> None:
    """Showing the object would last until the next frame."""
    obj, scene = object_without_findings(tmp_path), bpy.context.scene
    other = test_refusals.box("Box") if is_collider else obj
    other.dampsim_collider.is_collider = is_collider
    animate(other)
    scene.frame_set(1)
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    (check,) = found = find_issues(obj, scene)
    assert check == ("visibility" if is_collider else "object")
    assert found[check].button_label.startswith("Remove ")
    assert bpy.ops.dampsim.mend(check=check) == {"FINISHED"}
    for frame in (1, 3):
        scene.frame_set(frame)
        assert other.visible_get()
        assert find_issues(obj, scene) == {}


def test_driver_prevents_cycle(load: Load, tmp_path: Path) -> None:
    """No end of the range helps if a driver never returns."""
    obj, scene = object_without_findings(tmp_path), bpy.context.scene
    obj.animation_data_clear()
    obj.dampsim.loop = True
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    obj.driver_add("location", 2).driver.expression = "sin(frame * pi / 6)"
    assert find_issues(obj, scene) == {}
    obj.animation_data.drivers[0].driver.expression = "0.01 * frame"
    issue = find_issues(obj, scene)["cycle"]
    assert "the drivers of Wobbler do not return to it" in issue.text
    assert [fix.button_label for fix in issue.fixes] == ["Turn Off Loop"]


def test_each_object_has_its_problem(load: Load, tmp_path: Path) -> None:
    """Objects with other buttons get a box of their own, and different texts are listed."""
    objects = pillows(tmp_path, 4)
    for obj in objects:
        obj.scale.x = 0.5
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Twin", objects[2].data))
    bpy.context.view_layer.update()
    texts = drawn(load, "DAMPSIM_PT_bake")
    assert "Apply Scale (3 objects)" in texts
    assert "Make Single User and Apply Scale" in texts
    assert "Pillow 3: The scale differs between axes, and other" in " ".join(texts)
    assert bpy.ops.dampsim.mend(check="scale", label="Make Single User and Apply Scale") == {"FINISHED"}
    assert [obj.scale.x for obj in objects] == [0.5, 0.5, 1.0, 0.5]
    assert bpy.ops.dampsim.mend(check="scale", label="Apply Scale") == {"FINISHED"}
    assert [obj.scale.x for obj in objects] == [1.0] * 4


def test_texts_of_objects_are_listed(load: Load, tmp_path: Path) -> None:
    objects = pillows(tmp_path, 6)
    for number, obj in enumerate(objects[:5]):
        obj.scale = (0.001 * (number + 1),) * 3
    bpy.context.view_layer.update()
    said = " ".join(drawn(load, "DAMPSIM_PT_bake"))
    for number in (1, 2, 3, 4):
        assert f"Pillow {number}: The object is only {2 * number} mm large" in said
    assert "Also 1 other object" in said
    assert "Accept Size (5 objects)" in said


def test_linked_object_has_one_fix(load: Load, tmp_path: Path) -> None:
    """Blender would lose other changes of an object that is linked without an override."""
    (obj,) = pillows(tmp_path, 1)
    obj.scale.x = 0.5
    path = tmp_path / "library.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    new_scene()
    with bpy.data.libraries.load(str(path), link=True) as (_, target):
        target.objects = ["Pillow 1"]
    bpy.context.scene.collection.objects.link(target.objects[0])
    bpy.context.view_layer.objects.active = target.objects[0]
    bpy.context.view_layer.update()
    texts = drawn(load, "DAMPSIM_PT_bake")
    assert "Make Local" in texts
    assert not any("scale" in text or "Apply Scale" in text for text in texts)
