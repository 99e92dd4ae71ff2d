"""Bakes to bones: the stated error, Clear, failed and repeated bakes, saved files, and refusals."""

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
from test_drawing import Context, Layout, panels

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def belly(
    cache: Path, scale: float = 1.0, rolled: bool = False, cuts: int = 4
) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a barrel on three bones, pinned at its ends, and its posed rig. cuts: of each of its edges."""
    bpy.ops.mesh.primitive_cylinder_add(vertices=16, radius=0.4, depth=2.0)
    obj = bpy.context.object
    obj.name = obj.data.name = "Torso"
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide(number_cuts=cuts)
    bpy.ops.object.mode_set(mode="OBJECT")
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    before = None
    for k, name in enumerate(("hips", "spine.L", "chest")):
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = (0.0, 0.0, -1.0 + 0.67 * k), (0.05 * rolled, 0.0, -0.33 + 0.67 * k)
        bone.roll, bone.parent, before = 0.7 * rolled * k, before, bone
    bpy.ops.object.mode_set(mode="OBJECT")
    height = np.array([vertex.co.z for vertex in obj.data.vertices])
    pin = obj.vertex_groups.new(name="Pin")
    pin.add(np.flatnonzero(np.abs(height) > 0.9).tolist(), 1.0, "REPLACE")
    low, high = np.clip((0.1 - height) / 0.8, 0.0, 1.0), np.clip((height - 0.1) / 0.8, 0.0, 1.0)
    for name, weights in (("hips", low), ("spine.L", 1.0 - low - high), ("chest", high)):
        group = obj.vertex_groups.new(name=name)
        for vertex in np.flatnonzero(weights > 0.0).tolist():
            group.add([vertex], float(weights[vertex]), "REPLACE")
    obj.parent = rig
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    rig.scale = (scale,) * 3
    for frame, place in ((1, 0.0), (4, 0.0), (6, 0.5 * scale), (8, 0.5 * scale)):
        rig.location.x = place
        rig.keyframe_insert("location", frame=frame)
    bone = rig.pose.bones["chest"]
    bone.rotation_mode = "XYZ"
    for frame, angle in ((1, 0.0), (6, 0.5), (9, 0.2)):
        bone.rotation_euler.x = angle
        bone.keyframe_insert("rotation_euler", frame=frame)
    bpy.context.view_layer.objects.active = obj
    add_simulation(obj, cache)
    obj.dampsim.target, obj.dampsim.max_bones, obj.dampsim.bone_bound_percent = "BONES", 4, 0.01
    return obj, rig


def key_shape(obj: bpy.types.Object) -> None:
    """Key a shape key of the user that doubles the width of the part without pins."""
    pin = obj.vertex_groups["Pin"].index
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Smile")
    for vertex, point in zip(obj.data.vertices, key.data, strict=True):
        if pin not in [group.group for group in vertex.groups]:
            point.co.x *= 2.0
    for frame, value in ((1, 0.0), (8, 1.0)):
        key.value = value
        key.keyframe_insert("value", frame=frame)


def activate(obj: bpy.types.Object) -> None:
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj


def bake() -> None:
    assert bpy.ops.dampsim.bake(which="ACTIVE", restart=True) == {"FINISHED"}


def rig_dump(rig: bpy.types.Object) -> dict[str, Any]:
    """Return the bones and bone collections of a rig."""
    bones = [(b.name, [*map(tuple, b.matrix_local)], tuple(b.tail_local), b.parent and b.parent.name, b.use_connect,
              dict(b.items())) for b in rig.data.bones]  # fmt: skip
    collections = [(c.name, c.is_visible, [b.name for b in c.bones]) for c in rig.data.collections_all]
    active = rig.data.collections.active
    return {"bones": bones, "collections": collections, "mode": rig.mode, "active": active and active.name}


def played_error(load: Load, obj: bpy.types.Object) -> float:
    """Return the largest distance from the simulation over all frames, as a fraction of the size."""
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    worst = 0.0
    for number in cache.frame_numbers():
        surface = cache.read(number).surface
        worst = max(worst, float(np.linalg.norm(world_vertices(obj, number) - surface, axis=1).max()))
    return worst / size(cache.read(1).surface)


def test_keyed_rig_scale_keeps_stated_error(load: Load, tmp_path: Path) -> None:
    new_scene(8)
    obj, rig = belly(tmp_path)
    for frame, scale in ((1, 0.5), (8, 1.5)):
        rig.scale = (scale,) * 3
        rig.keyframe_insert("scale", frame=frame)
    bake()
    assert obj.dampsim.baked == "BONES"
    assert played_error(load, obj) == pytest.approx(0.01 * obj.dampsim.baked_part, rel=1e-3)


@pytest.mark.parametrize(("scale", "rolled"), [(1.0, False), (0.01, True)])
def test_bones_play_with_stated_error(load: Load, scale: float, rolled: bool, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path, scale, rolled)
    bake()
    group = obj.dampsim
    assert (group.baked, group.baked_keys) == ("BONES", 4)
    new = [b for b in rig.data.bones if "jiggle" in b.name]
    assert len(new) == 4
    assert all(b.parent.name in ("hips", "spine.L", "chest") for b in new)
    assert played_error(load, obj) == pytest.approx(0.01 * group.baked_part, rel=1e-3)
    # The flesh moves by several percent of its size.
    rig.animation_data.nla_tracks["DampSim Bake"].mute = True
    assert played_error(load, obj) > 3.0 * 0.01 * group.baked_part


def test_bound_takes_fewer_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, _ = belly(tmp_path)
    obj.dampsim.bone_bound_percent, obj.dampsim.max_bones = 2.0, 16
    bake()
    assert 0 < obj.dampsim.baked_keys < 16
    assert played_error(load, obj) <= 0.02
    assert "above Max Error" not in obj.dampsim.baked_touched


def test_rig_moves_as_before_without_tracks(tmp_path: Path) -> None:
    """A bone and its new children together keep the weight of the bone."""
    new_scene()
    obj, rig = belly(tmp_path)
    before = [world_vertices(obj, frame) for frame in range(1, 13)]
    bake()
    rig.animation_data.nla_tracks["DampSim Bake"].mute = True
    after = [world_vertices(obj, frame) for frame in range(1, 13)]
    assert max(np.abs(a - b).max() for a, b in zip(after, before, strict=True)) < 2e-6


def test_rebake_continues_from_the_same_input(load: Load, tmp_path: Path) -> None:
    """The simulation of a baked object is that of the object without its bake, to the bit."""
    new_scene()
    obj, rig = belly(tmp_path)
    frame_cache = load("dampsim_addon.model.caches").frame_cache
    bake()
    first = frame_cache(obj).read(10).surface
    changes = load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene)
    assert changes == []
    bones = [b.name for b in rig.data.bones]
    bake()
    np.testing.assert_array_equal(frame_cache(obj).read(10).surface, first)
    assert [b.name for b in rig.data.bones] == bones
    assert len(rig.animation_data.nla_tracks) == 2


def test_influence_of_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, _ = belly(tmp_path)
    before = world_vertices(obj, 7)
    bake()
    full = world_vertices(obj, 7)
    obj.dampsim.influence = 0.0
    np.testing.assert_allclose(world_vertices(obj, 7), before, atol=2e-6)
    obj.dampsim.influence = 1.0
    np.testing.assert_allclose(world_vertices(obj, 7), full, atol=2e-6)


def test_range_of_bones(load: Load, tmp_path: Path) -> None:
    """A re-baked range fits the bones to the whole motion anew, within the stated error."""
    new_scene()
    obj, _ = belly(tmp_path)
    bake()
    before = world_vertices(obj, 6)
    obj.dampsim.settle, obj.dampsim.range_blend = 24.0, 3
    assert bpy.ops.dampsim.rebake_range(first=3, last=10) == {"FINISHED"}
    assert np.abs(world_vertices(obj, 6) - before).max() > 1e-3
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for frame in cache.frame_numbers():
        away = np.linalg.norm(world_vertices(obj, frame) - cache.read_shape(frame, obj.name), axis=1).max()
        assert away <= obj.dampsim.baked_error * 1.01


def test_other_target_replaces_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    before = rig_dump(rig)
    bake()
    obj.dampsim.target = "SHAPE_KEYS"
    bake()
    assert rig_dump(rig) == before
    assert played_error(load, obj) < 1.1e-3
    obj.dampsim.target = "BONES"
    bake()
    assert obj.data.shape_keys is None
    assert played_error(load, obj) == pytest.approx(0.01 * obj.dampsim.baked_part, rel=1e-3)


def test_failed_rebake_keeps_bones(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    bake()
    strip = rig.animation_data.nla_tracks["DampSim Bake"].strips[0]
    strip.name = "Mine"
    before, place = (dump(), rig_dump(rig)), world_vertices(obj, 7)
    write = load("dampsim_addon.jobs.write")

    def fail(shot: Any) -> Any:
        raise load("core").SceneError("Torso: stopped.")
        yield

    monkeypatch.setattr(write, "max_error", fail)
    obj.dampsim.max_bones = 2
    with pytest.raises(RuntimeError, match="stopped"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert rig_dump(rig) == before[1]
    np.testing.assert_allclose(world_vertices(obj, 7), place, atol=1e-6)
    assert rig.animation_data.nla_tracks["DampSim Bake"].strips[0].name == "Mine"


def test_bones_survive_saving(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path / "cache")
    before = rig_dump(rig)
    weights = dump()["mesh Torso"]["weights"]
    bake()
    place = world_vertices(obj, 7)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "scene.blend"))
    obj, rig = bpy.data.objects["Torso"], bpy.data.objects["Rig"]
    np.testing.assert_array_equal(world_vertices(obj, 7), place)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert rig_dump(rig) == before
    assert dump()["mesh Torso"]["weights"] == weights


def test_two_objects_share_a_rig(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    copy = obj.copy()
    copy.data, copy.name = obj.data.copy(), "Shirt"
    bpy.context.scene.collection.objects.link(copy)
    copy.select_set(False)
    before = rig_dump(rig)
    for one in (obj, copy):
        activate(one)
        bake()
    assert len([b for b in rig.data.bones if "jiggle" in b.name]) == 8
    assert played_error(load, obj) == pytest.approx(0.01 * obj.dampsim.baked_part, rel=1e-3)
    for one in (obj, copy):
        activate(one)
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert rig_dump(rig) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda obj, rig: setattr(obj.modifiers[0], "use_deform_preserve_volume", True), "Preserve Volume"),
        (lambda obj, rig: setattr(obj.modifiers[0], "use_bone_envelopes", True), "only one Armature modifier"),
        (lambda obj, rig: setattr(obj.modifiers.new("Second", "ARMATURE"), "object", rig), "only one Armature"),
        (lambda obj, rig: setattr(rig.data.bones["chest"], "bbone_segments", 4), "chest of Rig has bendy segments"),
        (lambda obj, rig: setattr(rig.data, "pose_position", "REST"), "Rest Position"),
        (lambda obj, rig: setattr(obj.dampsim, "pin_group", "hips"), "group 'hips' of a bone"),
        (lambda obj, rig: bpy.data.objects.new("Other", rig.data), "2 objects share the armature"),
        (lambda obj, rig: setattr(rig.animation_data, "use_nla", False), "NLA is off for its rig Rig"),
    ],
)  # fmt: skip
def test_unsuitable_rigs_are_refused(change: Callable[[Any, Any], Any], message: str, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    change(obj, rig)
    before = rig_dump(rig)
    with pytest.raises(RuntimeError, match=message):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert rig_dump(rig) == before


def test_mesh_leaving_rig_is_refused(tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    obj.keyframe_insert("location", frame=1)
    obj.location.y = 0.5
    obj.keyframe_insert("location", frame=8)
    with pytest.raises(RuntimeError, match="moves relative to its rig Rig"):
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    assert not [b for b in rig.data.bones if "jiggle" in b.name]


def test_hidden_armature_gets_no_bones(load: Load, tmp_path: Path) -> None:
    """The bones go to the rig that moves the mesh, not to that of a disabled modifier above it."""
    new_scene()
    obj, rig = belly(tmp_path)
    old = bpy.data.objects.new("Old Rig", bpy.data.armatures.new("Old Rig"))
    bpy.context.scene.collection.objects.link(old)
    modifier = obj.modifiers.new("Old", "ARMATURE")
    modifier.object, modifier.show_viewport = old, False
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    bake()
    assert not old.data.bones
    assert [b for b in rig.data.bones if "jiggle" in b.name]
    assert "damaged" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)


def test_still_mesh_is_not_damaged(load: Load, tmp_path: Path) -> None:
    """A bake without motion has no bones, and is complete."""
    new_scene()
    obj, rig = belly(tmp_path)
    rig.animation_data_clear()
    obj.dampsim.gravity_weight = 0.0
    bake()
    assert "damaged" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)


@pytest.mark.parametrize("influences", ["4", "8"])
def test_gltf_and_fbx_contain_bones(load: Load, influences: str, tmp_path: Path) -> None:
    """Files read back as the scene plays, and the check leaves no data."""
    new_scene()
    obj, rig = belly(tmp_path / "cache")
    obj.dampsim.bone_influences = influences
    bake()
    before = dump(), rig_dump(rig)
    results = load("dampsim_addon.api").export([obj], tmp_path / "out")
    assert [(one.format, one.problem, one.warning) for one in results] == [("GLTF", "", ""), ("FBX", "", "")]
    assert max(one.part for one in results) < 1e-4
    assert any("Influences to 4" in note for note in results[0].notes) == (influences == "8")
    assert (dump(), rig_dump(rig)) == before


def test_loop_of_bones_closes(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path)
    rig.animation_data_clear()
    for frame, angle in ((1, 0.0), (7, 0.4), (13, 0.0)):
        rig.pose.bones["chest"].rotation_euler.x = angle
        rig.pose.bones["chest"].keyframe_insert("rotation_euler", frame=frame)
    obj.dampsim.loop = True
    bake()
    action = rig.animation_data.nla_tracks["DampSim Bake"].strips[0].action
    assert action.use_cyclic
    assert action.frame_range[1] == 13.0
    np.testing.assert_allclose(world_vertices(obj, 13), world_vertices(obj, 1), atol=1e-5)


def test_undo_returns_the_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    _, rig = belly(tmp_path)
    before = rig_dump(rig)
    bpy.ops.ed.undo_push(message="Before")
    bake()
    bpy.ops.ed.undo_push(message="Baked")
    after = rig_dump(bpy.data.objects["Rig"])
    place = world_vertices(bpy.data.objects["Torso"], 7)
    bpy.ops.ed.undo()
    assert rig_dump(bpy.data.objects["Rig"]) == before
    bpy.ops.ed.redo()
    assert rig_dump(bpy.data.objects["Rig"]) == after
    np.testing.assert_array_equal(world_vertices(bpy.data.objects["Torso"], 7), place)


def test_stopped_fit_changes_nothing(load: Load, tmp_path: Path) -> None:
    """A bake that is closed while it fits ends its thread and leaves the previous state."""
    scene = new_scene()
    # Other tests have fitted the motion of other sizes, and fits are shared.
    obj, rig = belly(tmp_path, scale=0.9)
    before = dump(), rig_dump(rig)
    steps = load("dampsim_addon.jobs.bake").bake_all(scene, bpy.context.view_layer, [obj], True)
    for step in steps:
        if step.text.endswith("Fitting"):
            break
    steps.close()
    assert rig_dump(rig) == before[1]
    assert dump()["mesh Torso"] == before[0]["mesh Torso"]
    assert obj.dampsim.baked == ""


@pytest.mark.parametrize("bound", [0.01, 2.0])
def test_half_frames_within_twice_the_error(load: Load, bound: float, tmp_path: Path) -> None:
    """Between frames, bones differ from shape keys for each frame by at most twice the error, with fewer keys too."""
    scene = new_scene()
    obj, _ = belly(tmp_path)
    obj.dampsim.bone_bound_percent = bound
    obj.dampsim.target = "FRAME_KEYS"
    bake()
    halves = [number + 0.5 for number in range(scene.frame_start, scene.frame_end)]
    wanted = [world_vertices(obj, half) for half in halves]
    obj.dampsim.target = "BONES"
    bake()
    worst = max(np.linalg.norm(world_vertices(obj, h) - w, axis=1).max() for h, w in zip(halves, wanted, strict=True))
    assert worst <= 2.0 * obj.dampsim.baked_error


def test_bound_takes_fewer_keyframes(load: Load, tmp_path: Path) -> None:
    """Bones are keyed at fewer frames than the bake has where the error stays within its bound."""
    new_scene(24)
    obj, rig = belly(tmp_path)
    obj.dampsim.max_bones, obj.dampsim.bone_bound_percent = 16, 1.0
    bake()
    (strip,) = rig.animation_data.nla_tracks["DampSim Bake"].strips
    (bag,) = strip.action.layers[0].strips[0].channelbags
    counts = {len(curve.keyframe_points) for curve in bag.fcurves}
    assert min(counts) < 20
    assert all((curve.keyframe_points[0].co.x, curve.keyframe_points[-1].co.x) == (1.0, 24.0) for curve in bag.fcurves)
    assert played_error(load, obj) <= 0.01


def test_command_line_bakes_to_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, rig = belly(tmp_path / "cache")
    obj.dampsim.target = "SHAPE_KEYS"
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    command = [
        "bake",
        "--target",
        "bones",
        "--bones",
        "3",
        "--bound",
        "0.01%",
        "--report",
        str(tmp_path / "report.json"),
    ]
    assert load("dampsim_addon.cli").main(command) == 0
    assert (obj.dampsim.baked, obj.dampsim.baked_keys, obj.dampsim.max_bones) == ("BONES", 3, 3)
    assert len([b for b in rig.data.bones if "jiggle" in b.name]) == 3
    (entry,) = json.loads((tmp_path / "report.json").read_text())["objects"]
    assert (entry["bones"], entry["keys"], entry["bound"]) == (3, 0, None)
    assert any("3 bones with up to 8 influences" in said for said in entry["touched"])
    assert load("dampsim_addon.cli").main(["bake", "--bones", "0"]) == 2


def test_panel_shows_bones(load: Load, tmp_path: Path) -> None:
    new_scene()
    belly(tmp_path)
    texts: list[str] = []
    for panel in panels(load):
        panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
    assert {"Max Bones", "Influences", "Keep Rig Posable", "At most 4 new bones"} <= set(texts)
    assert " ".join(texts).count("The exported glTF holds all influences, but many importers keep 4") == 1
    bpy.context.object.dampsim.bone_influences = "4"
    texts.clear()
    for panel in panels(load):
        panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
    assert "many importers" not in " ".join(texts)
    bake()
    texts.clear()
    for panel in panels(load):
        panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
    assert any(text.startswith("4 bones, ") for text in texts)
    assert "Influence" in texts
