"""Refusals that only a bake finds are shown above the button afterwards, until their cause changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import new_scene, wobbler
from test_late_refusals import (
    CASES,
    WITH_TARGET,
    moved_by_constraint,
    scaled_by_python,
    scaled_by_transform_channel,
)
from test_several_objects import drawn

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
# Cases that checks above the button foresee, some in other words.
FORESEEN = {
    "read_by_driver": "target",
    "read_by_path": "target",
    "keyed_vertices": "target",
    "hidden_by_scale": "vanishing",
    "flat_rig": "separate",
    "fading_action": "target",
    "added_action": "target",
}
# Buttons of the others, which else only the user can fix.
BUTTONS = {
    **dict.fromkeys(("disabled_by_python", "disabled_collider", "disabled_link_end"), "Remove Driver"),
    "disabled_by_meta_strip": "Remove Keyframes",
    **dict.fromkeys(("scaled_by_python", "scaled_by_transform_channel", "scaled_by_keyed_constraint"), ""),
    "switched_by_python": "",
}


def refuse(load: Load, obj: bpy.types.Object) -> str:
    """Bake an object that is refused. Return the message without its name and the full stop."""
    bpy.context.scene.frame_set(1)
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert result.problem
    return str(result.problem).removeprefix(f"{obj.name}: ").rstrip(".")


def call_timer(load: Load, obj: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = obj
    bpy.context.view_layer.update()
    load("dampsim_addon.status.late_refusals").SUBSCRIBER.timer()


@pytest.mark.slow
@pytest.mark.parametrize("build", CASES, ids=lambda one: one.__name__)
def test_refusal_is_shown_afterwards(load: Load, tmp_path: Path, build: Callable[[Path], bpy.types.Object]) -> None:
    """The panel shows the words of the refusal, and pressing its fix lets the next bake pass."""
    scene, name = new_scene(4), build.__name__
    obj = build(tmp_path)
    if build not in WITH_TARGET:
        obj.dampsim.target = "BONES" if build is moved_by_constraint else "SHAPE_KEYS"
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    bpy.context.scene.frame_set(1)
    assert "refused" not in find_issues(obj, scene)
    words = refuse(load, obj)
    call_timer(load, obj)
    issues = find_issues(obj, scene)
    if name in FORESEEN:
        assert FORESEEN[name] in issues
        assert "refused" not in issues
        return
    assert issues["refused"].text == f"The last bake stopped: {words}"
    label = BUTTONS.get(name, "Bake to PC2 Cache")
    assert issues["refused"].button_label == label
    if label:
        assert bpy.ops.dampsim.mend(check="refused", label=label) == {"FINISHED"}
        assert "refused" not in find_issues(obj, scene)
        (result,) = load("dampsim_addon.api").bake([obj], restart=True)
        assert result.problem == ""


def edit_curve(obj: bpy.types.Object) -> None:
    """Move a keyframe of the object that a driver reads."""
    (curve,) = (one for one in _curves(bpy.data.objects["Guide"]) if one.array_index == 0)
    curve.keyframe_points[1].co.y = 0.5
    curve.update()


def _curves(obj: bpy.types.Object) -> list[bpy.types.FCurve]:
    return [one for bag in obj.animation_data.action.layers[0].strips[0].channelbags for one in bag.fcurves]


def remove_driver(obj: bpy.types.Object) -> None:
    obj.driver_remove("scale", 0)


def shorten_range(obj: bpy.types.Object) -> None:
    bpy.context.scene.frame_end = 2


def bake_to_file(obj: bpy.types.Object) -> None:
    obj.dampsim.target = "POINT_CACHE"


def select_other(obj: bpy.types.Object) -> None:
    bpy.data.objects["Guide"].select_set(True)


def move_unrelated(obj: bpy.types.Object) -> None:
    bpy.ops.object.camera_add(location=(5.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("edit", "is_forgotten"),
    [
        (edit_curve, True),
        (remove_driver, True),
        (shorten_range, True),
        (bake_to_file, True),
        (select_other, False),
        (move_unrelated, False),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_refusal_ends_with_its_cause(
    load: Load, tmp_path: Path, edit: Callable[[bpy.types.Object], None], is_forgotten: bool
) -> None:
    scene = new_scene(4)
    obj = scaled_by_transform_channel(tmp_path)
    refuse(load, obj)
    call_timer(load, obj)
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "refused" in find_issues(obj, scene)
    edit(obj)
    call_timer(load, obj)
    call_timer(load, obj)
    assert ("refused" in find_issues(obj, scene)) != is_forgotten


def test_successful_bake_forgets_refusal(load: Load, tmp_path: Path) -> None:
    """A function of Python may change without an edit; the next bake decides, and all panels show the result."""
    scene = new_scene(4)
    obj = scaled_by_python(tmp_path)
    refuse(load, obj)
    assert "The last bake stopped" in " ".join(drawn(load, "DAMPSIM_PT_bake"))
    bpy.app.driver_namespace["zero_from_3"] = lambda frame: 1.0
    scene.frame_set(2)
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert result.problem == ""
    assert "The last bake stopped" not in " ".join(drawn(load, "DAMPSIM_PT_bake"))


def test_refusal_of_other_selected_objects_ends(load: Load, tmp_path: Path) -> None:
    """The panel shows the refusals of all selected objects, so an edit of one that is not active counts, too."""
    scene = new_scene(4)
    obj = scaled_by_transform_channel(tmp_path / "one")
    other = wobbler(tmp_path / "other", "Other")
    refuse(load, obj)
    call_timer(load, other)
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "refused" in find_issues(obj, scene)
    remove_driver(obj)
    call_timer(load, other)
    assert "refused" not in find_issues(obj, scene)
