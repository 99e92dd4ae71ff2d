"""Bakes to existing bones: the stated error, Clear, rigs of all kinds, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import add_simulation, dump, new_scene, size, world_vertices
from test_bone_bakes import activate, bake, belly, key_shape, played_error, rig_dump
from test_drawing import Context, Layout, panels

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
CHAIN = [f"tail{k}" for k in range(1, 5)]


def tail(cache: Path, scale: float = 1.0, connected: bool = True) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a tail on a root and four connected bones with odd rolls, pinned at the root, that swings."""
    bpy.ops.mesh.primitive_cylinder_add(vertices=8, radius=0.12, depth=2.0)
    obj = bpy.context.object
    obj.name = obj.data.name = "Tail"
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide(number_cuts=9)
    bpy.ops.object.mode_set(mode="OBJECT")
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    before = None
    for k, name in enumerate(("root", *CHAIN)):
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = (0.0, 0.0, 1.0 - 0.4 * k), (0.0, 0.0, 0.6 - 0.4 * k)
        bone.parent, bone.roll, before = before, 0.7 * k - 1.1, bone
        bone.use_connect = connected and k > 0
    bpy.ops.object.mode_set(mode="OBJECT")
    height = np.array([vertex.co.z for vertex in obj.data.vertices])
    obj.vertex_groups.new(name="Pin").add(np.flatnonzero(height > 0.8).tolist(), 1.0, "REPLACE")
    for k, name in enumerate(("root", *CHAIN)):
        weights = np.clip(1.0 - np.abs(height - (0.8 - 0.4 * k)) / 0.4, 0.0, 1.0)
        weights[(height > 0.8) & (k == 0) | (height < -0.8) & (k == 4)] = 1.0
        group = obj.vertex_groups.new(name=name)
        for vertex in np.flatnonzero(weights > 0.0).tolist():
            group.add([vertex], float(weights[vertex]), "REPLACE")
    obj.parent = rig
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    rig.scale = (scale,) * 3
    for bone in rig.pose.bones:
        bone.rotation_mode = "QUATERNION"
    for frame, place in ((1, 0.0), (3, 0.0), (5, 0.4), (8, 0.1)):
        rig.pose.bones["root"].location.x = place
        rig.pose.bones["root"].keyframe_insert("location", frame=frame)
    # A pose without keyframes.
    rig.pose.bones["tail2"].rotation_quaternion = (0.96, 0.28, 0.0, 0.0)
    bpy.context.view_layer.objects.active = obj
    add_simulation(obj, cache)
    choose(obj, rig, CHAIN)
    return obj, rig


def choose(obj: bpy.types.Object, rig: bpy.types.Object, names: list[str]) -> None:
    chain = rig.data.collections.get("Chain") or rig.data.collections.new("Chain")
    for bone in rig.data.bones:
        chain.assign(bone) if bone.name in names else chain.unassign(bone)
    obj.dampsim.target, obj.dampsim.chain_collection = "EXISTING_BONES", "Chain"


def pose_dump(rig: bpy.types.Object) -> list[Any]:
    names = ("location", "rotation_quaternion", "rotation_euler", "scale")
    return [(b.name, b.rotation_mode, [tuple(getattr(b, n)) for n in names], list(b.keys())) for b in rig.pose.bones]


def stated_error(obj: bpy.types.Object) -> float:
    return float(obj.dampsim.baked_error)


def measured_error(load: Load, obj: bpy.types.Object) -> float:
    """Return the largest distance from the simulation over all frames, m."""
    first = load("dampsim_addon.model.caches").frame_cache(obj).read(1).surface
    return played_error(load, obj) * size(first)


def muted_error(load: Load, obj: bpy.types.Object, rig: bpy.types.Object) -> float:
    """Return the error without the bake."""
    rig.animation_data.nla_tracks["DampSim Bake"].mute = True
    error = measured_error(load, obj)
    rig.animation_data.nla_tracks["DampSim Bake"].mute = False
    return error


@pytest.mark.parametrize(
    ("channels", "scale", "part"), [("ROTATION", 1.0, 0.3), ("LOCATION", 0.01, 0.2), ("SCALE", 1.0, 0.2)]
)
def test_chain_plays_with_stated_error(load: Load, channels: str, scale: float, part: float, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path, scale, connected=channels == "ROTATION")
    obj.dampsim.chain_channels = channels
    weights = dump()["mesh Tail"]["weights"]
    bake()
    group = obj.dampsim
    assert (group.baked, group.baked_keys) == ("EXISTING_BONES", 4)
    assert dump()["mesh Tail"]["weights"] == weights
    assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-3)
    assert stated_error(obj) < part * muted_error(load, obj, rig)
    assert "4 bones of the rig; worst at frame" in group.baked_touched
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene) == []


@pytest.mark.parametrize("again", [False, True])
def test_clear_restores_poses(again: bool, tmp_path: Path) -> None:
    scene = new_scene()
    obj, rig = tail(tmp_path)
    scene.frame_set(3)
    before = dump(), rig_dump(rig), pose_dump(rig)
    bake()
    assert pose_dump(rig) != before[2]
    if again:
        choose(obj, rig, CHAIN[:2])
        bake()
        choose(obj, rig, CHAIN)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert pose_dump(rig) == before[2]
    assert (dump(), rig_dump(rig)) == before[:2]
    assert "dampsim_bones" not in obj.data


def odd_flags(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    bones = rig.data.bones
    bones["tail1"].use_inherit_rotation = False
    bones["tail2"].inherit_scale = "NONE"
    bones["tail3"].inherit_scale = "FIX_SHEAR"
    bones["tail4"].use_local_location = False


def euler(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    for name, mode in zip(CHAIN, ("XYZ", "ZYX", "YXZ", "XZY"), strict=True):
        rig.pose.bones[name].rotation_mode = mode
    rig.pose.bones["tail3"].rotation_euler.y = 0.2


def scaled_bone(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    rig.pose.bones["tail4"].scale = (1.2, 0.8, 1.1)
    rig.pose.bones["root"].scale = (0.9,) * 3


def user_strip(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    """Key two bones of the chain in a strip of the user, below the bake."""
    for frame, turn in ((1, 0.0), (6, 0.3), (12, -0.1)):
        rig.pose.bones["tail1"].rotation_quaternion = (1.0, turn, 0.0, 0.0)
        rig.pose.bones["tail1"].keyframe_insert("rotation_quaternion", frame=frame)
    data = rig.animation_data
    track, action = data.nla_tracks.new(), data.action
    track.strips.new("Mine", 1, action).action_slot = data.action_slot
    data.action = None


def uneven_rig(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    rig.scale = (1.0, 1.0, 0.5)


def keyed_shape(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    """Bones turn the motion of the user's shape keys, which the fit takes into account."""
    key_shape(obj)


@pytest.mark.parametrize("change", [odd_flags, euler, scaled_bone, user_strip, uneven_rig, keyed_shape])
def test_unusual_rigs_play_as_stated(load: Load, change: Callable[[Any, Any], None], tmp_path: Path) -> None:
    scene = new_scene()
    obj, rig = tail(tmp_path)
    change(obj, rig)
    scene.frame_set(3)
    before = dump(), pose_dump(rig)
    bake()
    assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-3)
    assert stated_error(obj) < 0.4 * muted_error(load, obj, rig)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    scene.frame_set(3)
    assert (dump(), pose_dump(rig)) == before


def add_constraint(rig: bpy.types.Object, bone: str, kind: str) -> Any:
    found = rig.pose.bones[bone].constraints.new(kind)
    if kind == "IK":
        found.chain_count = 2
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o, r: setattr(o.dampsim, "chain_collection", "Nothing"), "no bones are chosen"),
        (lambda o, r: add_constraint(r, "tail4", "LIMIT_ROTATION"), "tail4 has Limit Rotation, which would"),
        (lambda o, r: (add_constraint(r, "tail4", "IK"), choose(o, r, ["tail3"])), "tail3 is in the IK chain of tail4"),
        (lambda o, r: setattr(o.dampsim, "chain_channels", "LOCATION"), "connected to its parent and cannot move"),
        (lambda o, r: setattr(r.pose.bones["tail2"], "rotation_mode", "AXIS_ANGLE"), "tail2 uses Axis Angle"),
        (lambda o, r: r.pose.bones["tail1"].driver_add("rotation_quaternion", 1), "tail1 has a driver"),
        (lambda o, r: r.pose.bones["tail3"].keyframe_insert("rotation_quaternion", frame=1), "tail3 is keyed in the"),
        (lambda o, r: (choose(o, r, CHAIN[:3]), add_constraint(r, "tail4", "DAMPED_TRACK")), "tail4 is below the cho"),
        (lambda o, r: (choose(o, r, CHAIN[:3]), setattr(r.data.bones["tail4"], "use_inherit_rotation", False)),
         "tail4 does not inherit"),
        (lambda o, r: setattr(r.pose.bones["root"], "scale", (1.0, 1.5, 1.0)), "root is scaled unevenly at frame 1"),
        (lambda o, r: setattr(r.data.bones["tail1"], "bbone_segments", 3), "bendy segments"),
        (lambda o, r: setattr(o.modifiers[0], "use_deform_preserve_volume", True), "Preserve Volume"),
    ],
)  # fmt: skip
def test_unsuitable_chains_are_refused(change: Callable[[Any, Any], Any], message: str, tmp_path: Path) -> None:
    scene = new_scene()
    obj, rig = tail(tmp_path)
    change(obj, rig)
    scene.frame_set(3)
    before = pose_dump(rig)
    with pytest.raises(RuntimeError, match=message):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert pose_dump(rig) == before


def test_muted_constraint_is_accepted(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    add_constraint(rig, "tail4", "LIMIT_ROTATION").mute = True
    add_constraint(rig, "tail4", "IK").mute = True
    bake()
    assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-3)


def test_push_down_fixes_clash(load: Load, tmp_path: Path) -> None:
    """The action plays beneath the bake as before, also where it was keyed after a bake."""
    new_scene()
    obj, rig = tail(tmp_path)
    bake()
    for frame, turn in ((1, 0.0), (6, 0.3)):
        rig.pose.bones["tail3"].rotation_quaternion = (1.0, turn, 0.0, 0.0)
        rig.pose.bones["tail3"].keyframe_insert("rotation_quaternion", frame=frame)
    checks = load("dampsim_addon.ui.bake.checks")
    issue = checks.find_issues(obj, bpy.context.scene)["target"]
    assert (issue.text[:36], issue.button_label) == ("The bone tail3 is keyed in the actio", "Push Down Action")
    assert bpy.ops.dampsim.mend(check="target") == {"FINISHED"}
    assert rig.animation_data.action is None
    assert "target" not in checks.find_issues(obj, bpy.context.scene)
    assert [t.name for t in rig.animation_data.nla_tracks] == ["DampSim Base", "RigAction", "DampSim Bake"]
    bake()
    assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-3)


def test_influence_blends_to_animation(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    before = [world_vertices(obj, frame) for frame in (5, 9)]
    bake()
    obj.dampsim.influence = 0.0
    for frame, wanted in zip((5, 9), before, strict=True):
        np.testing.assert_allclose(world_vertices(obj, frame), wanted, atol=2e-6)
    obj.dampsim.influence = 1.0
    assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-3)
    rig.animation_data.nla_tracks["DampSim Bake"].mute = True
    np.testing.assert_allclose(world_vertices(obj, 9), before[1], atol=2e-6)


def test_chain_rebake_has_same_input(load: Load, tmp_path: Path) -> None:
    """The simulation of a baked object is that of the object without its bake, to the bit."""
    scene = new_scene()
    obj, rig = tail(tmp_path)
    frame_cache = load("dampsim_addon.model.caches").frame_cache
    bake()
    first, poses = frame_cache(obj).read(10).surface, pose_dump(rig)
    strip = rig.animation_data.nla_tracks["DampSim Bake"].strips[0]
    strip.name = "Mine"
    bake()
    np.testing.assert_array_equal(frame_cache(obj).read(10).surface, first)
    assert len(rig.animation_data.nla_tracks) == 2
    assert (strip.name, strip.mute) == ("Mine", False)
    scene.frame_set(scene.frame_current)
    assert pose_dump(rig) == poses


def test_bone_targets_replace_each_other(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj, rig = tail(tmp_path)
    scene.frame_set(3)
    before = dump(), rig_dump(rig), pose_dump(rig)
    for target in ("EXISTING_BONES", "BONES", "EXISTING_BONES", "SHAPE_KEYS", "EXISTING_BONES"):
        obj.dampsim.target = target
        bake()
        assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-2, abs=1e-6)
        assert any("jiggle" in bone.name for bone in rig.data.bones) == (target == "BONES")
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    scene.frame_set(3)
    assert (dump(), rig_dump(rig), pose_dump(rig)) == before


def test_failed_chain_rebake_keeps_bake(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    bake()
    place = world_vertices(obj, 7)
    poses, tracks = pose_dump(rig), dump()["object Rig"]["animation"]
    write = load("dampsim_addon.jobs.write")

    def fail(shot: Any) -> Any:
        raise load("core").SceneError("Tail: stopped.")
        yield

    monkeypatch.setattr(write, "max_error", fail)
    for target in ("EXISTING_BONES", "BONES"):
        obj.dampsim.target = target
        obj.dampsim.settle += 4.0
        with pytest.raises(RuntimeError, match="stopped"):
            bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
        np.testing.assert_allclose(world_vertices(obj, 7), place, atol=1e-6)
        assert pose_dump(rig) == poses
        assert dump()["object Rig"]["animation"]["tracks"][1] == tracks["tracks"][1]
    assert bpy.ops.dampsim.clear() == {"FINISHED"}


def test_chain_survives_saving(tmp_path: Path) -> None:
    scene = new_scene()
    obj, rig = tail(tmp_path / "cache")
    scene.frame_set(3)
    before = pose_dump(rig)
    bake()
    place = world_vertices(obj, 7)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "scene.blend"))
    obj, rig = bpy.data.objects["Tail"], bpy.data.objects["Rig"]
    np.testing.assert_array_equal(world_vertices(obj, 7), place)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    bpy.context.scene.frame_set(3)
    assert pose_dump(rig) == before


def test_flesh_gets_advice(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    choose(obj, rig, ["spine.L"])
    bake()
    assert "Existing bones suit chains, not flesh: choose Bones under Bake To" in obj.dampsim.baked_touched
    assert measured_error(load, obj) == pytest.approx(stated_error(obj), rel=1e-3)


def test_second_mesh_cannot_take_bones(tmp_path: Path) -> None:
    new_scene()
    obj, _ = tail(tmp_path)
    copy = obj.copy()
    copy.data, copy.name = obj.data.copy(), "Sock"
    bpy.context.scene.collection.objects.link(copy)
    copy.select_set(False)
    bake()
    activate(copy)
    with pytest.raises(RuntimeError, match="tail1 is moved by the bake of Tail"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    activate(obj)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    activate(copy)
    bake()


def test_bones_of_deleted_mesh_are_free(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    copy = obj.copy()
    copy.data = obj.data.copy()
    bpy.context.scene.collection.objects.link(copy)
    copy.select_set(False)
    bake()
    mesh = obj.data
    bpy.data.objects.remove(obj)
    bpy.data.meshes.remove(mesh)
    activate(copy)
    bake()
    assert measured_error(load, copy) == pytest.approx(stated_error(copy), rel=1e-3)
    assert len(rig.animation_data.nla_tracks) == 2


def test_loop_of_chain_closes(tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    rig.animation_data_clear()
    for frame, place in ((1, 0.0), (7, 0.3), (13, 0.0)):
        rig.pose.bones["root"].location.x = place
        rig.pose.bones["root"].keyframe_insert("location", frame=frame)
    obj.dampsim.loop = True
    bake()
    np.testing.assert_allclose(world_vertices(obj, 13), world_vertices(obj, 1), atol=1e-5)


def test_gltf_and_fbx_contain_chain(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path / "cache")
    bake()
    before = dump(), rig_dump(rig), pose_dump(rig)
    results = load("dampsim_addon.api").export([obj], tmp_path / "out")
    assert [(one.format, one.problem, one.warning) for one in results] == [("GLTF", "", ""), ("FBX", "", "")]
    assert max(one.part for one in results) < 1e-4
    assert (dump(), rig_dump(rig), pose_dump(rig)) == before


def test_selected_bones_become_chain(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    for bone in rig.pose.bones:
        owner = bone if hasattr(bone, "select") else bone.bone
        owner.select = bone.name in CHAIN[:3]
    assert bpy.ops.dampsim.use_selected_bones() == {"FINISHED"}
    assert obj.dampsim.chain_collection == "Tail Chain"
    assert {bone.name for bone in rig.data.collections["Tail Chain"].bones} == set(CHAIN[:3])
    texts: list[str] = []
    for panel in panels(load):
        panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
    assert {"Channels", "Bones", "3 bones"} <= set(texts)
    bake()
    assert obj.dampsim.baked_keys == 3


def test_damaged_chain_is_reported(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = tail(tmp_path)
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    bake()
    assert "damaged" not in find_issues(obj, bpy.context.scene)
    rig.animation_data.nla_tracks.remove(rig.animation_data.nla_tracks["DampSim Bake"])
    assert "NLA strip of the bake is missing" in find_issues(obj, bpy.context.scene)["damaged"].text


def test_hostile_pose_record_is_ignored(load: Load, tmp_path: Path) -> None:
    new_scene()
    _, rig = tail(tmp_path)
    bone, bone_bakes = rig.pose.bones["tail1"], load("dampsim_addon.blender.bone_bakes")
    for value in (3, "x", {"mark": 5, "location": [1.0]}, {"mark": "a", "location": "abc", "name": [1.0]}):
        bone["dampsim_pose"] = value
        assert bone_bakes.kept_pose(bone) == {}
    assert bone_bakes.pose_mark(bone) == "a"


def test_command_line_bakes_chain(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, _ = tail(tmp_path / "cache")
    obj.dampsim.target, obj.dampsim.chain_collection = "SHAPE_KEYS", ""
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    report = tmp_path / "report.json"
    command = ["bake", "--target", "existing_bones", "--chain", "Chain", "--report", str(report)]
    assert load("dampsim_addon.cli").main(command) == 0
    (entry,) = json.loads(report.read_text())["objects"]
    assert (entry["target"], entry["bones"], entry["keys"]) == ("EXISTING_BONES", 4, 0)
    assert entry["error"] == pytest.approx(stated_error(obj), rel=1e-6)
