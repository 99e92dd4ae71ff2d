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


def test_parts_of_dog_rest_on_time(load: Load, tmp_path: Path) -> None:
    """Ears and tail rest 20 frames, the belly 10 frames after the stop, each within one frame."""
    obj, rig = make_dog(new_scene(LAST))
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.dampsim
    group.pin_group, group.settle, group.bounce, group.resolution = "Pin", 10.0, 0.0, 2500
    group.stiffness_by, group.sag, group.target, group.cache_folder = "SAG", 3.0, "POINT_CACHE", str(tmp_path)
    for bones, settle, bounce in PARTS:
        select_bones(rig, *bones)
        assert bpy.ops.dampsim.part_add_bones() == {"FINISHED"}
        group.parts[-1].settle, group.parts[-1].bounce = settle, bounce
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    shapes = np.array([world_vertices(obj, frame) for frame in range(STOP, LAST + 1)])
    distances = np.linalg.norm(shapes - shapes[-1], axis=2)
    read = load("dampsim_addon.blender.vertex_groups").read_weights
    pinned = read(obj, ["Pin"])[0] > 0.0
    for part in group.parts:
        inside = (read(obj, [part.vertex_group])[0] >= 0.6) & ~pinned
        swing = distances[:, inside].max(axis=1)
        peak, limit = int(swing.argmax()), 0.01 * swing.max()
        last = peak + int(np.flatnonzero(swing[peak:] > limit)[-1])
        rest = last + (swing[last] - limit) / (swing[last] - swing[last + 1])
        assert swing.max() > 1e-3
        assert rest == pytest.approx(part.settle, abs=1.0), part.name
