"""Conversion of bone envelopes to weights: it is offered, and done, only where the look stays the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bmesh
import bpy
import numpy as np
import pytest
from scenes import armature, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
Change = Callable[[bpy.types.Object, bpy.types.Object], None]


def enveloped(tmp_path: Path) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return an object whose vertices are all moved by the envelopes of an animated rig, and the rig."""
    new_scene(5)
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    rig = armature(obj)
    for name in ("low", "high"):
        obj.vertex_groups[name].remove(range(len(obj.data.vertices)))
    for bone in rig.data.bones:
        bone.head_radius, bone.tail_radius, bone.envelope_distance = 0.1, 0.1, 1.2
    obj.modifiers["Armature"].use_bone_envelopes = True
    bpy.context.view_layer.objects.active = obj
    return obj, rig


def shapes(obj: bpy.types.Object) -> np.ndarray:
    found = np.array([world_vertices(obj, frame) for frame in range(1, 6)])
    bpy.context.scene.frame_set(1)
    return found


def weights(obj: bpy.types.Object) -> list[list[tuple[int, float]]]:
    return [[(one.group, one.weight) for one in vertex.groups] for vertex in obj.data.vertices]


def _add_above(obj: bpy.types.Object, modifier_type: str) -> bpy.types.Modifier:
    modifier = obj.modifiers.new("Above", modifier_type)
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    return modifier


def linked_mesh(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    path = Path(obj.dampsim.cache_folder).parent / "library.blend"
    bpy.data.libraries.write(str(path), {obj.data})
    with bpy.data.libraries.load(str(path), link=True) as (_, to):
        to.meshes = [obj.data.name]
    obj.data = to.meshes[0]


def shared_mesh(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    bpy.context.scene.collection.objects.link(obj.copy())


def unused_groups(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.vertex_groups["high"].add(range(len(obj.data.vertices) // 2), 1.0, "REPLACE")
    obj.modifiers["Armature"].use_vertex_groups = False


def bone_parent(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.parent, obj.parent_type, obj.parent_bone = rig, "BONE", "high"


def second_rig(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    other = rig.copy()
    other.data = rig.data.copy()
    bpy.context.scene.collection.objects.link(other)
    obj.modifiers.new("Second", "ARMATURE").object = other


def masked_key(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Key")
    for point in key.points:
        point.co.z += 0.8
    obj.vertex_groups.new(name="Mask").add([0], 1.0, "REPLACE")
    key.value, key.vertex_group = 1.0, "Mask"


def animated_key(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Key")
    for point in key.points:
        point.co.z += 0.8
    for frame, value in ((1, 0.0), (5, 1.0)):
        key.value = value
        key.keyframe_insert("value", frame=frame)


def mirror_above(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    mesh = bmesh.new()
    mesh.from_mesh(obj.data)
    bmesh.ops.delete(mesh, geom=[v for v in mesh.verts if v.co.z > 1e-4], context="VERTS")
    mesh.to_mesh(obj.data)
    mesh.free()
    _add_above(obj, "MIRROR").use_axis = (False, False, True)


def taper_above(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    taper = _add_above(obj, "SIMPLE_DEFORM")
    taper.deform_method, taper.factor = "TAPER", 1.5


def multiplied(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    for bone in rig.data.bones:
        bone.use_envelope_multiply = True


def masked_modifier(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.modifiers["Armature"].vertex_group = "low"


def growing_envelope(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    for frame, distance in ((1, 1.2), (5, 0.3)):
        rig.data.bones["high"].envelope_distance = distance
        rig.data.bones["high"].keyframe_insert("envelope_distance", frame=frame)


def bone_pins(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.vertex_groups["low"].add([0], 1.0, "REPLACE")
    obj.dampsim.pin_group = "low"


CHANGES = [
    linked_mesh, shared_mesh, unused_groups, bone_parent, second_rig, masked_key, animated_key, mirror_above,
    taper_above, multiplied, masked_modifier, growing_envelope, bone_pins,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_conversion_that_changes_look_is_refused(load: Load, tmp_path: Path, change: Change) -> None:
    """Neither the offer nor a direct call converts anything."""
    obj, rig = enveloped(tmp_path)
    change(obj, rig)
    bpy.context.view_layer.update()
    before, groups, scene = shapes(obj), weights(obj), bpy.context.scene
    for target in ("SHAPE_KEYS", "BONES"):
        obj.dampsim.target = target
        issues = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
        assert "Convert Envelopes to Weights" not in [fix.button_label for one in issues.values() for fix in one.fixes]
    assert not load("dampsim_addon.blender.bone_envelopes").convert_envelopes(obj, scene, bpy.context.view_layer)
    assert obj.modifiers["Armature"].use_bone_envelopes
    assert weights(obj) == groups
    np.testing.assert_array_equal(shapes(obj), before)


@pytest.mark.parametrize("change", [linked_mesh, shared_mesh], ids=lambda one: one.__name__)
@pytest.mark.parametrize("target", ["SHAPE_KEYS", "BONES"])
def test_mesh_becomes_local_before_conversion(load: Load, tmp_path: Path, change: Change, target: str) -> None:
    obj, rig = enveloped(tmp_path)
    obj.dampsim.target = target
    change(obj, rig)
    bpy.context.view_layer.update()
    find_issues, before = load("dampsim_addon.ui.bake.checks").find_issues, shapes(obj)
    issue = find_issues(obj, bpy.context.scene)["target"]
    assert issue.button_label == ("Make Mesh Local" if change is linked_mesh else "Make Single User")
    assert bpy.ops.dampsim.mend(check="target") == {"FINISHED"}
    bpy.context.view_layer.update()
    issues = find_issues(obj, bpy.context.scene)
    check = "envelopes" if target == "SHAPE_KEYS" else "target"
    assert issues[check].button_label == "Convert Envelopes to Weights"
    assert bpy.ops.dampsim.mend(check=check) == {"FINISHED"}
    bpy.context.view_layer.update()
    # Weights and positions have single precision.
    np.testing.assert_allclose(shapes(obj), before, atol=2e-6)


def test_unforeseen_change_is_undone(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of the vertices stops wrong weights, whatever their cause, and the message says so."""
    obj, _ = enveloped(tmp_path)
    obj.vertex_groups["high"].add([0], 0.4, "REPLACE")
    obj.vertex_groups.remove(obj.vertex_groups["low"])
    bpy.context.scene.frame_set(4)
    envelopes = load("dampsim_addon.blender.bone_envelopes")
    before, groups = shapes(obj), weights(obj)
    bpy.context.scene.frame_set(4)
    right = envelopes.envelope_weights
    monkeypatch.setattr(envelopes, "envelope_weights", lambda bone, points: right(bone, points[:, ::-1]))
    with pytest.raises(RuntimeError, match="vertex groups cannot replace its bone envelopes; bake to PC2 Cache"):
        bpy.ops.dampsim.mend(check="envelopes")
    assert obj.modifiers["Armature"].use_bone_envelopes
    assert weights(obj) == groups
    assert "low" not in obj.vertex_groups
    np.testing.assert_array_equal(shapes(obj), before)


def test_conversion_ignores_baked_pose(load: Load, tmp_path: Path) -> None:
    """Weights come from the shape of the user, not from a simulated frame, and no key of a bake hides this."""
    obj, _ = enveloped(tmp_path)
    scene, layer = bpy.context.scene, bpy.context.view_layer
    layer.update()
    before = shapes(obj)
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="DampSim Shape 001")
    load("dampsim_addon.blender.dampsim_names").mark_bake_key(key)
    for point in key.points:
        point.co.x += 0.6
    key.value = 1.0
    layer.update()
    assert load("dampsim_addon.blender.bone_envelopes").convert_envelopes(obj, scene, layer)
    key.mute = True
    layer.update()
    np.testing.assert_allclose(shapes(obj), before, atol=2e-6)


@pytest.mark.parametrize("change", [shared_mesh, masked_key], ids=lambda one: one.__name__)
def test_parent_conversion_keeps_envelopes(load: Load, tmp_path: Path, change: Change) -> None:
    obj, rig = enveloped(tmp_path)
    obj.modifiers.remove(obj.modifiers["Armature"])
    obj.parent, obj.parent_type = rig, "ARMATURE"
    change(obj, rig)
    bpy.context.view_layer.update()
    before, groups = shapes(obj), weights(obj)
    assert bpy.ops.dampsim.mend(check="parent") == {"FINISHED"}
    assert obj.modifiers[0].use_bone_envelopes
    assert weights(obj) == groups
    # Blender rounds the modifier and the parent type differently.
    np.testing.assert_allclose(shapes(obj), before, atol=2e-6)
