"""Generated rigs: bakes to bones of meshes without a rig make one, and Clear removes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import armature, dump, new_scene, wobbler, world_vertices
from test_bone_bakes import activate, bake, belly, key_shape, played_error, rig_dump

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def ball(cache: Path) -> bpy.types.Object:
    """Return a ball without a rig that bakes to bones, with a parent that shears it, and a user's modifier."""
    obj = wobbler(cache)
    parent = bpy.data.objects.new("Parent", None)
    bpy.context.scene.collection.objects.link(parent)
    parent.scale, parent.rotation_euler.y = (1.0, 1.3, 0.8), 0.5
    obj.parent = parent
    obj.modifiers.active = obj.modifiers["Subdivision"]
    obj.dampsim.target, obj.dampsim.max_bones, obj.dampsim.bone_bound_percent = "BONES", 6, 0.01
    return obj


def generated_rig(obj: bpy.types.Object) -> Any:
    return obj.modifiers["DampSim Rig"].object


def test_generated_rig_plays_with_stated_error(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path)
    bake()
    assert (obj.dampsim.baked, obj.dampsim.baked_keys) == ("BONES", 6)
    rig = generated_rig(obj)
    assert bpy.context.selected_objects == [obj]
    parents = [bone.parent and bone.parent.name for bone in rig.data.bones]
    assert parents == [None, *["Wobbler"] * 6]
    played = played_error(load, obj)
    assert played == pytest.approx(0.01 * obj.dampsim.baked_part, rel=1e-3)
    obj.dampsim.influence = 0.0
    assert played_error(load, obj) > 3.0 * played


@pytest.mark.parametrize("again", [False, True])
def test_clear_removes_generated_rig(again: bool, tmp_path: Path) -> None:
    scene = new_scene()
    obj = ball(tmp_path)
    scene.frame_set(3)
    before = dump()
    bake()
    if again:
        obj.dampsim.settle += 2.0
        bake()
    assert len(bpy.data.armatures) == 1
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump() == before


def test_generated_rig_is_no_input(load: Load, tmp_path: Path) -> None:
    """A bake again begins from the same input, to the bit, and nothing counts as changed."""
    new_scene()
    obj = ball(tmp_path)
    bake()
    frame_cache = load("dampsim_addon.model.caches").frame_cache
    first, rig = frame_cache(obj).read(10).surface, generated_rig(obj)
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene) == []
    bones = [bone.name for bone in rig.data.bones]
    bake()
    np.testing.assert_array_equal(frame_cache(obj).read(10).surface, first)
    assert generated_rig(obj) == rig
    assert [bone.name for bone in rig.data.bones] == bones


def test_failed_bake_leaves_no_rig(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_scene()
    obj = ball(tmp_path)
    before = dump()

    def fail(shot: Any) -> Any:
        raise load("core").SceneError("Wobbler: stopped.")
        yield

    monkeypatch.setattr(load("dampsim_addon.jobs.write"), "max_error", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert {name: one for name, one in dump().items() if name != "scene"} == {
        name: one for name, one in before.items() if name != "scene"
    }
    monkeypatch.undo()
    bake()
    kept, place = rig_dump(generated_rig(obj)), world_vertices(obj, 7)
    monkeypatch.setattr(load("dampsim_addon.jobs.write"), "max_error", fail)
    obj.dampsim.max_bones = 2
    with pytest.raises(RuntimeError, match="stopped"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert rig_dump(generated_rig(obj)) == kept
    np.testing.assert_allclose(world_vertices(obj, 7), place, atol=1e-6)


def test_other_target_removes_generated_rig(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path)
    bake()
    obj.dampsim.target = "SHAPE_KEYS"
    bake()
    assert len(bpy.data.armatures) == 0
    assert [modifier.name for modifier in obj.modifiers] == ["Subdivision"]
    assert played_error(load, obj) < 1.1e-3


def test_duplicate_gets_another_rig(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path / "own")
    bake()
    copy = obj.copy()
    copy.data, copy.name = obj.data.copy(), "Other"
    copy.animation_data_clear()
    copy.location.y, copy.dampsim.cache_folder = 3.0, str(tmp_path / "other")
    bpy.context.scene.collection.objects.link(copy)
    activate(copy)
    bake()
    assert generated_rig(copy) != generated_rig(obj)
    for one in (obj, copy):
        assert played_error(load, one) == pytest.approx(0.01 * one.dampsim.baked_part, rel=1e-3)
        activate(one)
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert len(bpy.data.armatures) == 0


@pytest.mark.parametrize("is_joined", [True, False], ids=["joined", "deleted"])
def test_orphaned_rig_is_removed(load: Load, is_joined: bool, tmp_path: Path) -> None:
    """The panel reports the rig of an object that was joined or deleted, and the fix removes it with its animation."""
    new_scene()
    obj = ball(tmp_path / "own")
    other = obj.copy()
    other.data, other.name = obj.data.copy(), "Other"
    other.dampsim.cache_id, other.dampsim.cache_folder = "", str(tmp_path / "other")
    bpy.context.scene.collection.objects.link(other)
    bake()
    kept = generated_rig(obj)
    activate(other)
    bake()
    actions = set(bpy.data.actions.keys())
    groups = set(obj.vertex_groups.keys())
    name = generated_rig(other).name
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "rigs" not in find_issues(obj, bpy.context.scene)
    if is_joined:
        obj.select_set(True)
        bpy.context.view_layer.objects.active = obj
        assert bpy.ops.object.join() == {"FINISHED"}
    else:
        assert bpy.ops.object.delete() == {"FINISHED"}
    activate(obj)
    issue = find_issues(obj, bpy.context.scene)["rigs"]
    assert issue.text == f"{name} plays the bake of an object that was joined or deleted"
    assert bpy.ops.dampsim.mend(check="rigs") == {"FINISHED"}
    assert "rigs" not in find_issues(obj, bpy.context.scene)
    assert [one for one in bpy.data.objects if one.type == "ARMATURE"] == [kept]
    assert len(bpy.data.armatures) == 1
    assert {name.split(" ")[1] for name in actions - set(bpy.data.actions.keys())} == {"Other"}
    # No group of the other bake stays in the joined mesh.
    assert set(obj.vertex_groups.keys()) == groups
    assert bpy.ops.dampsim.clear() == {"FINISHED"}


def test_user_group_of_orphaned_rig_stays(load: Load, tmp_path: Path) -> None:
    """A group with the name of a bone of the removed rig, but with other weights, is the user's."""
    new_scene()
    bpy.ops.mesh.primitive_cube_add()
    kept = bpy.context.object
    baked = ball(tmp_path)
    bake()
    rig = generated_rig(baked)
    bones = [str(bone.name) for bone in rig.data.bones]
    for name in bones:
        kept.vertex_groups.new(name=name).add([0, 1], 0.5, "REPLACE")
    activate(baked)
    assert bpy.ops.object.delete() == {"FINISHED"}
    load("dampsim_addon.targets.bone_rig").remove_orphaned_rigs(bpy.context.scene, [rig])
    assert len(bpy.data.armatures) == 0
    assert kept.vertex_groups.keys() == bones


@pytest.mark.parametrize("use", ["pins", "part", "modifier", "nodes", "key"])
def test_used_groups_of_lost_rig_stay(load: Load, use: str, tmp_path: Path) -> None:
    """A joined mesh may use a group of the other bake by its name."""
    scene = new_scene()
    bpy.ops.mesh.primitive_cube_add()
    kept = bpy.context.object
    baked = ball(tmp_path)
    bake()
    rig = generated_rig(baked)
    name = str(rig.data.bones[0].name)
    activate(baked)
    kept.select_set(True)
    bpy.context.view_layer.objects.active = kept
    assert bpy.ops.object.join() == {"FINISHED"}
    if use == "pins":
        kept.dampsim.pin_group = name
    elif use == "part":
        kept.dampsim.parts.add().vertex_group = name
    elif use == "modifier":
        kept.modifiers.new("Mask", "MASK").vertex_group = name
    elif use == "nodes":
        tree = bpy.data.node_groups.new("Tree", "GeometryNodeTree")
        socket = tree.interface.new_socket("Weight", in_out="INPUT", socket_type="NodeSocketFloat")
        modifier = kept.modifiers.new("Nodes", "NODES")
        modifier.node_group = tree
        inputs = getattr(getattr(modifier, "properties", None), "inputs", None)
        if inputs is None:
            modifier[f"{socket.identifier}_attribute_name"] = name
        else:
            # As Blender 5.2 stores them.
            getattr(inputs, socket.identifier).attribute_name = name
    else:
        kept.shape_key_add(name="Basis")
        kept.shape_key_add(name="Smile").vertex_group = name
    load("dampsim_addon.targets.bone_rig").remove_orphaned_rigs(scene, [rig])
    assert len(bpy.data.armatures) == 0
    assert name in kept.vertex_groups


@pytest.mark.parametrize("edit", ["rename", "remove"])
@pytest.mark.parametrize("group", ["Wobbler", "Wobbler_jiggle_01"])
@pytest.mark.parametrize("end", ["clear", "bake", "SHAPE_KEYS"])
def test_damaged_vertex_group_is_mended(load: Load, edit: str, group: str, end: str, tmp_path: Path) -> None:
    """The panel reports a vertex group of the bake that the user has renamed or removed; Clear and a bake repair it."""
    scene = new_scene()
    obj = ball(tmp_path)
    scene.frame_set(3)
    before = dump()
    bake()
    if edit == "rename":
        obj.vertex_groups[group].name = "Other"
    else:
        obj.vertex_groups.remove(obj.vertex_groups[group])
    text = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["damaged"].text
    assert text.startswith(f"The vertex group '{group}' of the bake is missing, so the bake does not play")
    if end != "clear":
        obj.dampsim.target = end if end != "bake" else "BONES"
        bake()
        assert "damaged" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
        assert played_error(load, obj) < 0.011 * max(obj.dampsim.baked_part, 0.1)
        obj.dampsim.target = "BONES"
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    scene.frame_set(3)
    assert dump() == before


@pytest.mark.parametrize("end", ["clear", "bake", "SHAPE_KEYS"])
def test_deleted_rig_leaves_nothing(load: Load, end: str, tmp_path: Path) -> None:
    scene = new_scene()
    obj = ball(tmp_path)
    scene.frame_set(3)
    before, actions = dump(), len(bpy.data.actions)
    bake()
    bpy.data.objects.remove(generated_rig(obj))
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert find_issues(obj, scene)["damaged"].text.startswith("The rig of the bake is missing")
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene) == []
    if end != "clear":
        obj.dampsim.target = end if end != "bake" else "BONES"
        bake()
        assert "damaged" not in find_issues(obj, scene)
        assert len(bpy.data.armatures) == (end == "bake")
        assert [one.name for one in obj.modifiers if one.type == "ARMATURE"] == (end == "bake") * ["DampSim Rig"]
        assert "Wobbler_1" not in obj.vertex_groups
        obj.dampsim.target = "BONES"
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    scene.frame_set(3)
    assert dump() == before
    assert (len(bpy.data.armatures), len(bpy.data.actions)) == (0, actions)


@pytest.mark.parametrize("place", ["scene", "excluded", "visible"])
def test_rig_is_in_visible_collection(place: str, tmp_path: Path) -> None:
    """The first collection of an object can belong to another scene, or be excluded from the view layer."""
    scene = new_scene()
    obj = ball(tmp_path)
    names = ("First", "Second") if place == "visible" else ("First",)
    collections = [bpy.data.collections.new(name) for name in names]
    other = bpy.data.scenes.new("Other")
    for one in collections:
        (other if place == "scene" else scene).collection.children.link(one)
    scene.collection.objects.unlink(obj)
    for one in (*collections, *(() if place == "visible" else (scene.collection,))):
        one.objects.link(obj)
    if place != "scene":
        bpy.context.view_layer.layer_collection.children["First"].exclude = True
    assert obj.users_collection[0].name in ("First", "Scene Collection")
    activate(obj)
    bake()
    rig = generated_rig(obj)
    assert rig.visible_get()
    expected = "Second" if place == "visible" else scene.collection.name
    assert [one.name for one in rig.users_collection] == [expected]


def test_keyed_scale_keeps_stated_error(load: Load, tmp_path: Path) -> None:
    """The error is stated at the largest scale."""
    new_scene(8)
    obj = wobbler(tmp_path)
    group = obj.dampsim
    group.target, group.max_bones, group.bone_bound_percent, group.resolution = "BONES", 4, 0.01, 100
    for frame, scale in ((1, 0.1), (8, 3.0)):
        obj.scale = (scale,) * 3
        obj.keyframe_insert("scale", frame=frame)
    bake()
    assert group.baked == "BONES"
    assert played_error(load, obj) == pytest.approx(0.01 * group.baked_part, rel=1e-3)


@pytest.mark.parametrize("has_rig", [False, True])
def test_bones_carry_animated_shape_keys(load: Load, tmp_path: Path, has_rig: bool) -> None:
    """Bones turn the motion of the user's shape keys, which the fit takes into account."""
    new_scene(8)
    obj = belly(tmp_path)[0] if has_rig else ball(tmp_path)
    group = obj.dampsim
    group.resolution, group.bone_bound_percent, group.max_bones = 60, 0.5, 8
    key_shape(obj)
    bake()
    assert group.baked == "BONES"
    assert played_error(load, obj) == pytest.approx(0.01 * group.baked_part, rel=1e-3)
    assert group.baked_part < 0.5


def test_parent_of_other_objects_is_kept(load: Load, tmp_path: Path) -> None:
    """A rig to which the user has parented something is left alone."""
    scene = new_scene()
    obj = ball(tmp_path)
    bake()
    rig = generated_rig(obj)
    child = bpy.data.objects.new("Hat", None)
    scene.collection.objects.link(child)
    child.parent = rig
    bpy.data.objects.remove(obj)
    orphaned_rigs = load("dampsim_addon.targets.bone_rig").orphaned_rigs
    assert orphaned_rigs(scene, [rig]) == []
    child.parent = None
    assert orphaned_rigs(scene, [rig]) == [rig]


def test_followed_rigs_are_found_without_search(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels check rigs at each redraw. The file is searched only if a rig has lost its object."""
    scene, targets = new_scene(), load("dampsim_addon.targets.bone_rig")
    obj, rigs = wobbler(tmp_path), load("dampsim_addon.ui.bake.rig_checks")
    index = rigs.GeneratedRigIndex.current()
    assert index.objects() == []
    rig, searches = targets.provide_rig(obj, "Root", 1.0, "mark"), []
    search = targets._deforming_rigs
    monkeypatch.setattr(targets, "_deforming_rigs", lambda: searches.append(None) or search())
    assert index.objects() == [rig]
    assert rigs.lost_rigs(obj, scene) is None
    assert not searches
    copy = obj.copy()
    scene.collection.objects.link(copy)
    bpy.data.objects.remove(obj)
    # The copy still follows the rig.
    assert rigs.lost_rigs(copy, scene) is None
    copy.modifiers.clear()
    assert "DampSim Wobbler plays the bake" in rigs.lost_rigs(copy, scene).text
    assert searches


def test_generated_rig_survives_saving(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path / "cache")
    names = sorted(bpy.data.objects.keys())
    bake()
    place = world_vertices(obj, 7)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "scene.blend"))
    obj = bpy.data.objects["Wobbler"]
    np.testing.assert_array_equal(world_vertices(obj, 7), place)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert sorted(bpy.data.objects.keys()) == names


def test_overridden_collection_gets_no_rig(tmp_path: Path) -> None:
    """The rig of an object in a collection from a library goes to the scene."""
    new_scene()
    obj = ball(tmp_path / "cache")
    collection = bpy.data.collections.new("Props")
    bpy.context.scene.collection.children.link(collection)
    for one in (obj, obj.parent):
        collection.objects.link(one)
        bpy.context.scene.collection.objects.unlink(one)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "props.blend"))
    scene = new_scene()
    with bpy.data.libraries.load(str(tmp_path / "props.blend"), link=True) as (_, wanted):
        wanted.collections = ["Props"]
    (linked,) = wanted.collections
    scene.collection.children.link(linked)
    linked.override_hierarchy_create(scene, bpy.context.view_layer)
    obj = next(one for one in scene.objects if one.name.startswith("Wobbler") and one.override_library is not None)
    obj.data = obj.data.copy()
    obj.dampsim.cache_folder = str(tmp_path / "cache")
    activate(obj)
    bake()
    assert generated_rig(obj).users_collection == (scene.collection,)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert len(bpy.data.armatures) == 0


def test_armature_beside_rig_is_refused(tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path)
    bake()
    armature(obj)
    with pytest.raises(RuntimeError, match="only one Armature modifier"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert [modifier.name for modifier in obj.modifiers] == ["Armature", "Subdivision"]


def test_existing_bones_need_a_rig(tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path)
    obj.dampsim.target = "EXISTING_BONES"
    with pytest.raises(RuntimeError, match="no Armature modifier, and so no bones to key; add one, or bake to Bones"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)


def test_still_mesh_gets_no_rig(tmp_path: Path) -> None:
    new_scene()
    obj = ball(tmp_path)
    obj.vertex_groups["Pin"].add(list(range(len(obj.data.vertices))), 1.0, "REPLACE")
    bake()
    assert (obj.dampsim.baked, len(bpy.data.armatures)) == ("BONES", 0)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}


@pytest.mark.parametrize("form", ["GLTF", "FBX"])
def test_generated_rig_is_exported(load: Load, form: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.target = "BONES"
    bake()
    assert list(load("dampsim_addon.jobs.export").lost_parts(obj, form)) == []
    (result,) = load("dampsim_addon.api").export([obj], tmp_path / "out", [form])
    assert (result.problem, result.warning) == ("", "")
    assert result.part < 1e-6
