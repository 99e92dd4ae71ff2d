"""Records of bakes to bones: Clear after edits by the user, duplicates, joined objects, and damaged records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import dump, new_scene, world_vertices
from test_bone_bakes import activate, bake, belly, rig_dump

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


@pytest.mark.parametrize("keeps_shares", [True, False])
def test_clear_restores_weights_of_childless_bones(keeps_shares: bool, tmp_path: Path) -> None:
    """A bake changes the weights of bones without new children, too, where they do not add up to 1 or are zero."""
    new_scene(8)
    obj, rig = belly(tmp_path)
    obj.dampsim.max_bones, obj.dampsim.keeps_rig_posable = 1, keeps_shares
    chance = np.random.default_rng(4)
    for name in ("hips", "spine.L", "chest"):
        for vertex in range(len(obj.data.vertices)):
            weight = max(0.1 * (name == "hips"), float(chance.uniform(-0.3, 1.0)))
            obj.vertex_groups[name].add([vertex], weight, "REPLACE")
    before = dump(), rig_dump(rig)
    bake()
    assert len({bone.parent for bone in rig.data.bones if "jiggle" in bone.name}) == 1
    assert dump()["mesh Torso"]["weights"] != before[0]["mesh Torso"]["weights"]
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert (dump(), rig_dump(rig)) == before


def test_removed_group_of_childless_bone(tmp_path: Path) -> None:
    """Clear restores all weights that are left, also of rows that lost a group after the bake."""
    new_scene(8)
    obj, rig = belly(tmp_path)
    obj.dampsim.max_bones = 1
    chance = np.random.default_rng(4)
    for name in ("hips", "spine.L", "chest"):
        for vertex in range(len(obj.data.vertices)):
            obj.vertex_groups[name].add([vertex], float(chance.uniform(0.1, 1.0)), "REPLACE")
    before = weights_by_group(obj)
    bake()
    (parent,) = {bone.parent.name for bone in rig.data.bones if "jiggle" in bone.name}
    removed, kept = sorted({"hips", "spine.L", "chest"} - {parent})
    assert weights_by_group(obj)[kept] != before[kept]
    obj.vertex_groups.remove(obj.vertex_groups[removed])
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert weights_by_group(obj) == {name: weights for name, weights in before.items() if name != removed}


def weights_by_group(obj: bpy.types.Object) -> dict[str, dict[int, float]]:
    """Return the weight of each vertex by vertex group."""
    found: dict[str, dict[int, float]] = {}
    for vertex in obj.data.vertices:
        for one in vertex.groups:
            found.setdefault(obj.vertex_groups[one.group].name, {})[vertex.index] = one.weight
    return found


@pytest.mark.parametrize("edit", ["rename", "remove"])
def test_missing_group_of_carrying_bone(load: Load, edit: str, tmp_path: Path) -> None:
    """Clear gives the weights of new bones back to the bone that carries them, under its name."""
    new_scene(8)
    obj, _ = belly(tmp_path)
    before = dump()
    bake()
    if edit == "rename":
        obj.vertex_groups["chest"].name = "Other"
    else:
        obj.vertex_groups.remove(obj.vertex_groups["chest"])
    assert "'chest'" in load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["damaged"].text
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    if edit == "rename":
        assert dump() == before
    assert sorted(obj.vertex_groups.keys()) == ["Pin", "chest", "hips", "spine.L"]
    assert any(one.group == obj.vertex_groups["chest"].index for v in obj.data.vertices for one in v.groups)


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_clear_restores_the_file(again: bool, rolled: bool, tmp_path: Path) -> None:
    scene = new_scene()
    obj, rig = belly(tmp_path, rolled=rolled)
    obj.vertex_groups.active_index = 1
    scene.frame_set(3)
    before = dump(), rig_dump(rig)
    bake()
    if again:
        obj.dampsim.settle += 2.0
        bake()
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert (dump(), rig_dump(rig)) == before
    assert "dampsim_bones" not in obj.data
    assert obj.vertex_groups.active_index == 1


def test_painted_weights_survive_clear(tmp_path: Path) -> None:
    """Weights that the user paints after a bake stay; those of new bones go to their carrying bones."""
    new_scene()
    obj, _ = belly(tmp_path)
    vertices = obj.data.vertices
    before = {v.index: {g.group: g.weight for g in v.groups} for v in vertices}
    bake()
    new = {g.index for g in obj.vertex_groups if "jiggle" in g.name}
    painted = next(v.index for v in vertices if {g.group for g in v.groups} & new)
    obj.vertex_groups["hips"].add([painted], 0.875, "REPLACE")
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    after = {v.index: {g.group: g.weight for g in v.groups} for v in vertices}
    assert after[painted][obj.vertex_groups["hips"].index] >= 0.875
    assert {k: v for k, v in after.items() if k != painted} == {k: v for k, v in before.items() if k != painted}


@pytest.mark.parametrize("edit", ["none", "rename"])
def test_limited_weights_restore_old_ones(load: Load, edit: str, tmp_path: Path) -> None:
    """Weights just above 1, which Blender's glTF exporter limits after the bake, are no change by the user."""
    new_scene(8)
    obj, _ = belly(tmp_path)
    before = weights_by_group(obj)
    bake()
    bones = load("dampsim_addon.blender.bone_bakes")
    record = bones.read_record(obj.data)
    name = "chest"
    place, vertex = next((k, v) for k, v in enumerate(record.vertices) if name in dict(record.new[k]))
    obj.vertex_groups[name].add([vertex], 1.0, "REPLACE")
    stored = [(one, 1.0001 if one == name else weight) for one, weight in record.new[place]]
    new = [*record.new[:place], stored, *record.new[place + 1 :]]
    bones.write_record(obj.data, replace(record, new=new))
    if edit == "rename":
        obj.vertex_groups[name].name = "Other"
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert weights_by_group(obj) == before


def test_duplicate_keeps_shared_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, _ = belly(tmp_path)
    bake()
    copy = obj.copy()
    copy.data = obj.data.copy()
    bpy.context.scene.collection.objects.link(copy)
    copy.select_set(False)
    place = world_vertices(copy, 7)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    np.testing.assert_allclose(world_vertices(copy, 7), place, atol=1e-6)


def test_damaged_record_is_ignored(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, _ = belly(tmp_path)
    bake()
    read_record = load("dampsim_addon.blender.bone_bakes").read_record
    assert read_record(obj.data) is not None
    whole = obj.data["dampsim_bones"].to_dict()
    for name, value in (("head", "{"), ("vertices", b"abc"), ("new_counts", b""), ("old_groups", b"\xff" * 8)):
        obj.data["dampsim_bones"] = {**whole, name: value}
        assert read_record(obj.data) is None
    obj.data["dampsim_bones"] = 3
    assert read_record(obj.data) is None
    obj.data["dampsim_bones"] = whole
    assert bpy.ops.dampsim.clear() == {"FINISHED"}


@pytest.mark.parametrize("target", ["BONES", "EXISTING_BONES"])
@pytest.mark.parametrize("baked", [False, True], ids=["into unbaked", "into baked"])
def test_joined_bake_is_removed(load: Load, tmp_path: Path, target: str, baked: bool) -> None:
    """The panel reports the bones of an object that was joined, and its fix leaves only those of the other one."""
    new_scene(6)
    obj, rig = belly(tmp_path / "own")
    other = obj.copy()
    other.data, other.name = obj.data.copy(), "Other"
    bpy.context.scene.collection.objects.link(other)
    other.dampsim.cache_id, other.dampsim.cache_folder = "", str(tmp_path / "other")
    if target == "EXISTING_BONES":
        chain = rig.data.collections.new("Chain")
        chain.assign(rig.data.bones["chest"])
        other.dampsim.chain_collection = "Chain"
    before = rig_dump(rig)
    other.dampsim.target = target
    activate(other)
    if target == "EXISTING_BONES":
        # The keys of the rig move to the NLA.
        assert bpy.ops.dampsim.mend(check="target") == {"FINISHED"}
    bake()
    if baked:
        activate(obj)
        bake()
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "orphaned" not in find_issues(obj, bpy.context.scene)
    records = load("dampsim_addon.blender.bone_bakes")
    own_names = set(records.own_bones(rig, records.record_mark(obj.data))) if baked else set()
    other.select_set(True)
    bpy.context.view_layer.objects.active = obj
    obj.select_set(True)
    assert bpy.ops.object.join() == {"FINISHED"}
    assert find_issues(obj, bpy.context.scene)["orphaned"].button_label == "Remove Its Bake"
    assert bpy.ops.dampsim.mend(check="orphaned") == {"FINISHED"}
    assert "orphaned" not in find_issues(obj, bpy.context.scene)
    names = {name for name, *_ in before["bones"]}
    assert {bone.name for bone in rig.data.bones} == names | own_names
    # The last vertex was one of the other object.
    (row,) = records.read_memberships(obj, [len(obj.data.vertices) - 1])
    assert sum(weight for name, weight in row if name in names) == pytest.approx(1.0, abs=1e-5)
    if baked:
        activate(obj)
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert rig_dump(rig)["bones"] == before["bones"]
