"""Ears, tail and belly of one dog come to rest at frames of their own, from bones to a bake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bmesh
import bpy
import numpy as np
import pytest
from scenes import new_scene, world_vertices
from test_rig_pins import select_bones

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Centre, radius and scale of the balls of the dog, m; they are remeshed into one surface.
BALLS = (
    ((0.0, 0.0, 0.0), 0.3, (2.2, 1.0, 1.0)),
    ((0.1, 0.0, -0.25), 0.25, (1.3, 1.0, 1.0)),
    ((0.75, 0.0, 0.3), 0.2, (1.0, 1.0, 1.0)),
    ((0.75, 0.3, 0.3), 0.08, (1.0, 3.0, 1.0)),
    ((0.75, -0.3, 0.3), 0.08, (1.0, 3.0, 1.0)),
    ((-0.9, 0.0, 0.1), 0.06, (5.0, 1.0, 1.0)),
)
# Head and tail of each bone, m.
BONES = {
    "torso": ((-0.5, 0.0, 0.0), (0.5, 0.0, 0.0)),
    "head": ((0.5, 0.0, 0.1), (0.8, 0.0, 0.35)),
    "ear.L": ((0.75, 0.17, 0.3), (0.75, 0.54, 0.3)),
    "ear.R": ((0.75, -0.17, 0.3), (0.75, -0.54, 0.3)),
    "tail": ((-0.65, 0.0, 0.1), (-1.2, 0.0, 0.1)),
    "belly": ((0.1, 0.0, -0.2), (0.1, 0.0, -0.5)),
}
# Bones of each part, Settle in frames and Bounce in %.
PARTS = ((("ear.L", "ear.R"), 20.0, 30.0), (("tail",), 20.0, 30.0), (("belly",), 10.0, 0.0))
START, STOP, LAST = 12, 16, 60


def make_dog(scene: bpy.types.Scene) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a dog with smooth bone weights, pinned at its back and head, and its rig, which moves and stops."""
    content, mesh = bmesh.new(), bpy.data.meshes.new("Dog")
    for centre, radius, scale in BALLS:
        made = bmesh.ops.create_icosphere(content, subdivisions=3, radius=radius)["verts"]
        bmesh.ops.scale(content, vec=scale, verts=made)
        bmesh.ops.translate(content, vec=centre, verts=made)
    content.to_mesh(mesh)
    content.free()
    obj, data = bpy.data.objects.new("Dog", mesh), bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    for one in (obj, rig):
        scene.collection.objects.link(one)
    bpy.context.view_layer.objects.active = obj
    remesh = obj.modifiers.new("Remesh", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.045
    bpy.ops.object.modifier_apply(modifier="Remesh")
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name, (head, tail) in BONES.items():
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = head, tail
    bpy.ops.object.mode_set(mode="OBJECT")
    points, weights = np.array([v.co[:] for v in mesh.vertices]), []
    for head, tail in np.array(list(BONES.values())):
        along = np.clip((points - head) @ (tail - head) / ((tail - head) @ (tail - head)), 0.0, 1.0)
        distance = np.linalg.norm(points - head - along[:, None] * (tail - head), axis=1)
        weights.append((distance + 0.02) ** -4.0)
    shares = np.array(weights) / np.sum(weights, axis=0)
    for name, values in zip(BONES, shares, strict=True):
        group = obj.vertex_groups.new(name=name)
        for vertex, weight in enumerate(values.tolist()):
            group.add([vertex], weight, "REPLACE")
    held = np.flatnonzero((shares[:2].sum(axis=0) > 0.5) & (points[:, 2] > 0.0))
    obj.vertex_groups.new(name="Pin").add(held.tolist(), 1.0, "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    obj.parent = rig
    bpy.context.preferences.edit.keyframe_new_interpolation_type = "LINEAR"
    for frame, x in ((1, 0.0), (START, 0.0), (STOP, 0.25)):
        rig.location = x, 0.0, 0.5 * x
        rig.keyframe_insert("location", frame=frame)
    bpy.context.preferences.edit.keyframe_new_interpolation_type = "BEZIER"
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    return obj, rig


def weight_by_heat(obj: bpy.types.Object, rig: bpy.types.Object, smoothings: int) -> None:
    """Replace the weights of a dog by automatic ones, smoothed several times, and its pins by those of the bones."""
    obj.vertex_groups.clear()
    obj.modifiers.clear()
    obj.parent = None
    bpy.context.scene.frame_set(1)
    rig.select_set(True)
    bpy.context.view_layer.objects.active = rig
    assert bpy.ops.object.parent_set(type="ARMATURE_AUTO") == {"FINISHED"}
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    mesh, names = obj.data, [group.name for group in obj.vertex_groups]
    weights = np.zeros((len(mesh.vertices), len(names)))
    for vertex in mesh.vertices:
        for one in vertex.groups:
            weights[vertex.index, one.group] = one.weight
    a, b = np.array([edge.vertices[:] for edge in mesh.edges]).T
    counts = np.bincount(np.concatenate([a, b]))[:, None]
    for _ in range(smoothings):
        total = np.zeros_like(weights)
        np.add.at(total, a, weights[b])
        np.add.at(total, b, weights[a])
        weights = 0.5 * (weights + total / counts)
    weights /= weights.sum(axis=1, keepdims=True)
    for name, values in zip(names, weights.T, strict=True):
        for vertex, weight in enumerate(values.tolist()):
            obj.vertex_groups[name].add([vertex], weight, "REPLACE")


@pytest.mark.parametrize(
    ("smoothings", "own"),
    [
        pytest.param(None, (10.0, 0.0), id="distances"),
        pytest.param(0, (20.0, 30.0), id="heat"),
        pytest.param(0, (10.0, 0.0), id="heat, fast object", marks=pytest.mark.slow),
        pytest.param(40, (10.0, 0.0), id="smooth heat, fast object", marks=pytest.mark.slow),
        pytest.param(40, (20.0, 30.0), id="smooth heat", marks=pytest.mark.slow),
    ],
)
def test_parts_of_dog_rest_on_time(
    load: Load, tmp_path: Path, smoothings: int | None, own: tuple[float, float]
) -> None:
    """Ears and tail rest 20 frames, the belly 10 frames after the stop, each within one frame.

    With automatic weights, the pins are those that the bones propose: they fade where the weights of the parts grow.
    """
    obj, rig = make_dog(new_scene(LAST))
    if smoothings is not None:
        weight_by_heat(obj, rig, smoothings)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.dampsim
    if smoothings is None:
        group.pin_group = "Pin"
    else:
        select_bones(rig, *(bone for bones, *_ in PARTS for bone in bones))
        assert bpy.ops.dampsim.pin_bones() == {"FINISHED"}
    (group.settle, group.bounce), group.resolution = own, 2500
    group.stiffness_by, group.sag, group.target, group.cache_folder = "SAG", 3.0, "POINT_CACHE", str(tmp_path)
    for bones, settle, bounce in PARTS:
        select_bones(rig, *bones)
        assert bpy.ops.dampsim.part_add_bones() == {"FINISHED"}
        group.parts[-1].settle, group.parts[-1].bounce = settle, bounce
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    shapes = np.array([world_vertices(obj, frame) for frame in range(STOP, LAST + 1)])
    distances = np.linalg.norm(shapes - shapes[-1], axis=2)
    read = load("dampsim_addon.blender.vertex_groups").read_weights
    pinned = read(obj, [group.pin_group])[0] >= (0.999 if smoothings is not None else 1e-6)
    for part in group.parts:
        inside = (read(obj, [part.vertex_group])[0] >= 0.6) & ~pinned
        swing = distances[:, inside].max(axis=1)
        peak, limit = int(swing.argmax()), 0.01 * swing.max()
        last = peak + int(np.flatnonzero(swing[peak:] > limit)[-1])
        rest = last + (swing[last] - limit) / (swing[last] - swing[last + 1])
        assert swing.max() > 5e-4
        assert rest == pytest.approx(part.settle, abs=1.0), part.name
