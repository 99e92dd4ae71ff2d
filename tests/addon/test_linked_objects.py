"""Objects from a library: linked ones are not changed, and changes of overrides survive saving and opening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 4


def test_linked_object_is_not_changed(load: Load, tmp_path: Path) -> None:
    """Blender would forget the changes of a linked object, but not those of its cache."""
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "character.blend"))
    new_scene(LAST)
    with bpy.data.libraries.load(str(tmp_path / "character.blend"), link=True) as (_, loaded):
        loaded.objects = ["Wobbler"]
    obj = bpy.data.objects["Wobbler"]
    bpy.context.scene.collection.objects.link(obj)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    for operator in (bpy.ops.dampsim.clear, bpy.ops.dampsim.let_fall, bpy.ops.dampsim.remove):
        with pytest.raises(RuntimeError, match=r"Wobbler: the object is linked from character\.blend"):
            operator()
    with pytest.raises(load("core").SceneError, match="linked from"):
        load("dampsim_addon.api").clear([obj])
    assert obj.dampsim.baked == "POINT_CACHE"
    assert len(load("dampsim_addon.model.caches").frame_cache(obj).frame_numbers()) == LAST


def link_baked_ball(folder: Path, target: str) -> bpy.types.Object:
    """Return a library override of a ball that is baked in its library."""
    new_scene(LAST)
    obj = wobbler(folder / "cache")
    obj.modifiers.clear()
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "character.blend"))
    new_scene(LAST)
    with bpy.data.libraries.load(str(folder / "character.blend"), link=True) as (_, loaded):
        loaded.objects = ["Wobbler"]
    bpy.context.scene.collection.objects.link(bpy.data.objects["Wobbler"])
    override = bpy.data.objects["Wobbler"].override_create(remap_local_usages=True)
    override.select_set(True)
    bpy.context.view_layer.objects.active = override
    bpy.context.view_layer.update()
    return override


def reopen(file: Path) -> bpy.types.Object:
    bpy.ops.wm.save_as_mainfile(filepath=str(file))
    bpy.ops.wm.open_mainfile(filepath=str(file))
    return bpy.context.scene.objects["Wobbler"]


LOCAL_MESH = ("its mesh is baked in character.blend", "Make Mesh Local")
LOCAL_OBJECT = ("it is baked in character.blend to a modifier", "Make Object Local")


@pytest.mark.parametrize(
    ("baked_to", "target", "words", "label"),
    [
        ("SHAPE_KEYS", "SHAPE_KEYS", *LOCAL_MESH),
        ("SHAPE_KEYS", "POINT_CACHE", *LOCAL_MESH),
        ("POINT_CACHE", "POINT_CACHE", "", ""),
        ("POINT_CACHE", "SHAPE_KEYS", *LOCAL_OBJECT),
    ],
)
def test_override_of_baked_object(
    load: Load, tmp_path: Path, baked_to: str, target: str, words: str, label: str
) -> None:
    """The refusal names the library, its fixes allow the bake, and bake and Clear last beyond the session."""
    obj, scene = link_baked_ball(tmp_path, baked_to), bpy.context.scene
    find_issues, api = load("dampsim_addon.ui.bake.checks").find_issues, load("dampsim_addon.api")
    obj.dampsim.target, obj.dampsim.settle = target, 20.0
    if words:
        issue = find_issues(obj, scene)["target"]
        assert words in api.bake([obj], restart=True)[0].problem
        assert issue.button_label == label
    while "target" in find_issues(obj, scene):
        find_issues(obj, scene)["target"].fixes[0].fix(obj, scene)
    assert api.bake([obj], restart=True)[0].problem == ""
    played = world_vertices(obj, 3)
    obj = reopen(tmp_path / "shot.blend")
    assert abs(world_vertices(obj, 3) - played).max() < 1e-6
    assert (obj.dampsim.baked, obj.dampsim.settle) == (target, 20.0)
    if not words:
        with pytest.raises(load("core").SceneError, match="clear the bake there, or make the object local"):
            api.clear([obj])
        obj.make_local()
    api.clear([obj])
    bpy.context.view_layer.update()
    still = world_vertices(obj, 3)
    obj = reopen(tmp_path / "clear.blend")
    assert not len(obj.modifiers)
    assert obj.data.shape_keys is None
    assert abs(world_vertices(obj, 3) - still).max() < 1e-6


def test_linked_object_becomes_local(load: Load, tmp_path: Path) -> None:
    """Only the fix that can help is offered for a linked object. It keeps the bake, and allows the next one."""
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.clear()
    # A problem of its own, which cannot be fixed here.
    obj.scale.x = -1.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "character.blend"))
    new_scene(LAST)
    with bpy.data.libraries.load(str(tmp_path / "character.blend"), link=True) as (_, loaded):
        loaded.objects = ["Wobbler"]
    obj = bpy.data.objects["Wobbler"]
    bpy.context.scene.collection.objects.link(obj)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    played = world_vertices(obj, 3)
    find_issues, scene = load("dampsim_addon.ui.bake.checks").find_issues, bpy.context.scene
    assert [fix.button_label for issue in find_issues(obj, scene).values() for fix in issue.fixes] == ["Make Local"]
    assert bpy.ops.dampsim.mend(check="object") == {"FINISHED"}
    obj = bpy.context.object
    assert (obj.library, obj.data.library, obj.dampsim.baked) == (None, None, "SHAPE_KEYS")
    assert "object" not in find_issues(obj, scene)
    assert abs(world_vertices(obj, 3) - played).max() < 1e-6
    assert load("dampsim_addon.api").bake([obj], restart=True)[0].problem == ""
    obj = reopen(tmp_path / "shot.blend")
    assert abs(world_vertices(obj, 3) - played).max() < 1e-6
    load("dampsim_addon.api").clear([obj])
    assert obj.data.shape_keys is None


def test_linked_mesh_gets_local_copy(load: Load, tmp_path: Path) -> None:
    """An override whose mesh is linked bakes to shape keys of a local copy."""
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.clear()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "character.blend"))
    new_scene(LAST)
    with bpy.data.libraries.load(str(tmp_path / "character.blend"), link=True) as (_, loaded):
        loaded.objects = ["Wobbler"]
    bpy.context.scene.collection.objects.link(bpy.data.objects["Wobbler"])
    obj = bpy.data.objects["Wobbler"].override_create(remap_local_usages=True)
    bpy.context.view_layer.update()
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["target"]
    assert "mesh is linked and would lose shape keys" in issue.text
    assert [fix.button_label for fix in issue.fixes] == ["Make Mesh Local", "Bake to PC2 Cache"]
    issue.fixes[0].fix(obj, bpy.context.scene)
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    played = world_vertices(obj, 3)
    assert abs(world_vertices(reopen(tmp_path / "shot.blend"), 3) - played).max() < 1e-6


def test_linked_objects_have_one_fix(load: Load, tmp_path: Path) -> None:
    """Checks that do not include the one of linked objects, such as those of exports, offer them no fix."""
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    obj.scale.x = -1.0
    issues, checks = load("dampsim_addon.ui.bake.checks"), load("dampsim_addon.ui.bake.checks").CHECKS
    issue_type = load("dampsim_addon.ui.common.issue").Issue
    without_object = {name: check for name, check in checks.items() if name != "object"}
    without_object["planted"] = lambda obj, scene: issue_type("Its name is odd, or", "Rename", lambda o, s: None)
    local = issues.find_issues(obj, bpy.context.scene, without_object)
    assert local["planted"].fixes
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "character.blend"))
    new_scene(LAST)
    with bpy.data.libraries.load(str(tmp_path / "character.blend"), link=True) as (_, loaded):
        loaded.objects = ["Wobbler"]
    obj = bpy.data.objects["Wobbler"]
    bpy.context.scene.collection.objects.link(obj)
    found = issues.find_issues(obj, bpy.context.scene, without_object)
    assert found["planted"].text == "Its name is odd"
    assert not any(issue.fixes for issue in found.values())
    assert list(issues.find_issues(obj, bpy.context.scene)) == ["object"]
