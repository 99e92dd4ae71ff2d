"""Small scenes, and a dump of the contents of the file."""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

import bpy
import numpy as np

LAST = 12
PACKAGE = os.environ.get("DAMPSIM_INSTALLED") or "dampsim"
# Some distributions build Blender without Alembic; test_refusals tests the message.
KINDS = {
    target.name: target
    for target in importlib.import_module(f"{PACKAGE}.dampsim_addon.targets").TARGETS
    if (target.name != "ALEMBIC" or bpy.app.build_options.alembic)
    # Bones have files of their own; see test_bone_bakes.py.
    and target.storage.name != "BONES"
}
TARGETS = list(KINDS)
FILES = [name for name, target in KINDS.items() if target.storage.name == "FILE"]
# Error of an exact bake as a fraction of the size, from single precision and from corrections for rigs.
ROUNDING = 2e-6
# Matrix (3, 3) that turns row vectors of files with Y up.
Y_UP_TO_Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
# Properties that Blender derives from others.
DERIVED = ("matrix_world", "matrix_local", "matrix_basis", "dimensions", "active_shape_key_index")


def new_scene(last: int = LAST) -> bpy.types.Scene:
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, last
    return scene


def wobbler(cache: object, name: str = "Wobbler") -> bpy.types.Object:
    """Return a ball pinned at its foot, on a jerky path, with a modifier that changes its vertex count."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=20, ring_count=12)
    obj = bpy.context.object
    obj.name = obj.data.name = name
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.z < -0.6], 1.0, "REPLACE")
    for frame, place in ((1, 0.0), (4, 0.0), (7, 0.6), (9, 0.2)):
        obj.location.x = place
        obj.keyframe_insert("location", frame=frame)
    obj.rotation_euler.z, obj.scale = 0.4, (0.5, 0.5, 0.7)
    obj.modifiers.new("Subdivision", "SUBSURF").levels = 1
    add_simulation(obj, cache)
    return obj


def add_simulation(obj: bpy.types.Object, cache: object, **dials: Any) -> None:
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.dampsim
    group.pin_group, group.resolution, group.cache_folder = "Pin", 400, str(cache)
    group.settle, group.bounce, group.stiffness_by = 8.0, 30.0, "MODULUS"
    # A column of its height would be shortened by 1/60 under its own weight.
    group.stiffness = float(f"{0.03 * group.density * 9.81 * max(obj.dimensions):.2g}")
    for key, value in dials.items():
        setattr(group, key, value)


def armature(obj: bpy.types.Object) -> bpy.types.Object:
    """Deform the object with two animated bones as its first modifier; return the rig."""
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    low, high = data.edit_bones.new("low"), data.edit_bones.new("high")
    low.head, low.tail, high.head, high.tail = (0, 0, -1), (0, 0, 0), (0, 0, 0), (0, 0, 1)
    high.parent = low
    bpy.ops.object.mode_set(mode="OBJECT")
    for name, side in (("low", -1.0), ("high", 1.0)):
        group = obj.vertex_groups.new(name=name)
        for vertex in obj.data.vertices:
            weight = min(max(0.5 + side * vertex.co.z, 0.0), 1.0)
            group.add([vertex.index], weight, "REPLACE")
    modifier = obj.modifiers.new("Armature", "ARMATURE")
    modifier.object = rig
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    for name, turn in (("low", 0.5), ("high", -0.9)):
        bone = rig.pose.bones[name]
        bone.rotation_mode = "XYZ"
        for frame, angle in ((1, 0.0), (5, turn), (8, 0.3 * turn)):
            bone.rotation_euler.x = angle
            bone.keyframe_insert("rotation_euler", frame=frame)
    bpy.context.view_layer.objects.active = obj
    return rig


def world_vertices(obj: bpy.types.Object, frame: float, constructive: bool = False) -> np.ndarray:
    """Return the evaluated vertices in world space, (v, 3) m. constructive: with subdivision modifiers."""
    hidden = [m for m in obj.modifiers if m.type == "SUBSURF" and m.show_viewport and not constructive]
    for modifier in hidden:
        modifier.show_viewport = False
    whole = math.floor(frame)
    bpy.context.scene.frame_set(whole, subframe=frame - whole)
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    flat = np.empty(3 * len(evaluated.data.vertices), dtype=np.float32)
    evaluated.data.vertices.foreach_get("co", flat)
    matrix = np.array(evaluated.matrix_world)
    for modifier in hidden:
        modifier.show_viewport = True
    return flat.reshape(-1, 3).astype(float) @ matrix[:3, :3].T + matrix[:3, 3]


def size(points: np.ndarray) -> float:
    return float(np.linalg.norm(np.ptp(points, axis=0)))


def nearest_vertex_distance(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest distance from a vertex to the nearest one of the other shape, m.

    found, wanted: (v, 3) m. Their numbers may differ, because glTF splits vertices at seams.
    """
    distances = np.linalg.norm(found[:, None] - wanted[None], axis=2)
    return float(max(distances.min(axis=0).max(), distances.min(axis=1).max()))


def _simple_properties(struct: Any) -> dict[str, Any]:
    """Return the simple properties of a Blender struct and the names of its pointers' targets."""
    found: dict[str, Any] = {}
    for prop in struct.bl_rna.properties:
        if prop.identifier in ("rna_type", "dampsim") or (prop.is_readonly and prop.type != "POINTER"):
            continue
        if prop.type in ("FLOAT", "INT", "BOOLEAN", "STRING", "ENUM"):
            value = getattr(struct, prop.identifier)
            found[prop.identifier] = tuple(value) if getattr(prop, "is_array", False) else repr(value)
        elif prop.type == "POINTER":
            value = getattr(struct, prop.identifier)
            found[prop.identifier] = getattr(value, "name", None) if value is not None else None
    return found


def _coordinates(collection: Any, attribute: str = "co", width: int = 3) -> bytes:
    flat = np.empty(width * len(collection), dtype=np.float32)
    collection.foreach_get(attribute, flat)
    return flat.tobytes()


def _animation(block: Any) -> Any:
    data = block.animation_data
    if data is None:
        return None
    slot = getattr(data, "action_slot", None)
    return {
        "action": data.action.name if data.action else None,
        "slot": slot.identifier if slot else None,
        "use_nla": data.use_nla,
        "drivers": [(d.data_path, d.array_index, d.driver.expression) for d in data.drivers],
        "tracks": [
            (t.name, t.mute, [(s.name, s.action.name, _simple_properties(s)) for s in t.strips])
            for t in data.nla_tracks
        ],
    }


def _datablock_users() -> dict[str, list[tuple[str, int]]]:
    """Return all datablocks of the file with their user counts."""
    lists = [prop.identifier for prop in bpy.data.bl_rna.properties if prop.type == "COLLECTION"]
    # Exclude datablocks that Blender itself keeps, such as windows, the last render, and the libraries of its brushes,
    # which undo may load. 5.2 also lists all ids.
    other = ("window_managers", "screens", "workspaces", "images", "brushes", "libraries", "all_ids")
    ours = [name for name in lists if name not in other]
    return {name: [(block.name_full, block.users) for block in getattr(bpy.data, name)] for name in ours}


def dump() -> dict[str, Any]:
    """Return all data of the user that a bake could change."""
    scene = bpy.context.scene
    scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)
    found: dict[str, Any] = {"scene": _simple_properties(scene), "census": _datablock_users()}
    for obj in bpy.data.objects:
        found[f"object {obj.name}"] = {
            "plain": {k: v for k, v in _simple_properties(obj).items() if k not in DERIVED},
            "modifiers": [_simple_properties(m) for m in obj.modifiers],
            "groups": [(g.name, g.index, g.lock_weight) for g in obj.vertex_groups],
            "animation": _animation(obj),
        }
    for mesh in bpy.data.meshes:
        found[f"mesh {mesh.name}"] = {
            "users": mesh.users,
            "vertices": _coordinates(mesh.vertices),
            "weights": [[(g.group, g.weight) for g in v.groups] for v in mesh.vertices],
            "polygons": [tuple(p.vertices) for p in mesh.polygons],
            "keys": None
            if mesh.shape_keys is None
            else {
                "blocks": [(_simple_properties(k), _coordinates(k.points)) for k in mesh.shape_keys.key_blocks],
                "animation": _animation(mesh.shape_keys),
                "use_relative": mesh.shape_keys.use_relative,
            },
        }
    for action in bpy.data.actions:
        curves = [
            (c.data_path, c.array_index, [(tuple(k.co), k.interpolation) for k in c.keyframe_points])
            for layer in action.layers
            for strip in layer.strips
            for bag in strip.channelbags
            for c in bag.fcurves
        ]
        found[f"action {action.name}"] = (curves, [slot.identifier for slot in action.slots])
    return found
