"""New bones of a bake in the rig of an object: their creation, description and removal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from ...core.base.wording import shorten_name
from ..blender.bone_bakes import (
    BoneRecord,
    own_bones,
    pose_mark,
    read_record,
    record_mark,
    remove_record,
    restore_groups,
    restore_poses,
    restore_weights,
    rig_of,
    write_record,
)
from ..blender.dampsim_names import PREFIX, RIG_MODIFIER, bake_mark, is_lost_rig_modifier, is_rig_modifier, mark_data
from ..blender.modifiers import add_cache_modifier, remove_modifier
from ..blender.movers import is_local, node_inputs
from ..blender.vertex_groups import sum_weights
from .bake_tracks import remove_bake_animation

_SIDE = re.compile(r"(?P<stem>.+?)(?P<side>[._-][lrLR])$")
# Blender cuts off longer names, in bytes; and the part of a name that remains beside the number and the side.
_MAX_STEM = 40
# Length of the root bone of a generated rig, as a fraction of the size.
_ROOT_LENGTH = 0.1
# Type of the constraint by which a generated rig follows its object.
_FOLLOW_CONSTRAINT = "COPY_TRANSFORMS"
# Largest deviation of the sum of a vertex's weights from 1. They are stored in single precision.
_WEIGHT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class NewBone:
    """Bone of a bake. name; parent: name of the carrying bone.  head, tail: m, in the rig's space.  roll: rad."""

    name: str
    parent: str
    head: tuple[float, ...]
    tail: tuple[float, ...]
    roll: float


def free_bone_name(parent: str, taken: set[str]) -> str:
    """Return a name such as spine_jiggle_01 or arm_jiggle_01.L, and add it to those that are taken."""
    found = _SIDE.match(parent)
    stem, side = (found["stem"], found["side"]) if found else (parent, "")
    stem = shorten_name(stem, _MAX_STEM)
    number = 1
    while (name := f"{stem}_jiggle_{number:02d}{side}") in taken:
        number += 1
    taken.add(name)
    return name


@contextmanager
def _edit_mode(rig: Any) -> Iterator[None]:
    """Context in which a rig is in Edit Mode, in a scratch scene, whatever is visible and active in the window."""
    mode, active = rig.mode, rig.data.bones.active.name if rig.data.bones.active is not None else ""
    scene, is_selected = bpy.data.scenes.new(f"{PREFIX}Bones"), rig.select_get()
    try:
        scene.collection.objects.link(rig)
        layer = scene.view_layers[0]
        layer.objects.active = rig
        rig.select_set(True, view_layer=layer)
        with bpy.context.temp_override(
            scene=scene, view_layer=layer, active_object=rig, object=rig, selected_objects=[rig]
        ):
            bpy.ops.object.mode_set(mode="EDIT")
            try:
                yield
            finally:
                bpy.ops.object.mode_set(mode="OBJECT")
                if mode == "POSE":
                    bpy.ops.object.mode_set(mode="POSE")
                # A rig that was just added would be selected in the window, too.
                rig.select_set(is_selected, view_layer=layer)
    finally:
        bpy.data.scenes.remove(scene)
        if active in rig.data.bones:
            rig.data.bones.active = rig.data.bones[active]


def add_bones(obj: bpy.types.Object, rig: Any, bones: Sequence[NewBone], mark: str) -> None:
    """Add the bones of a bake to a rig, in a bone collection of their own."""
    with _edit_mode(rig):
        edit_bones = rig.data.edit_bones
        for one in bones:
            bone = edit_bones.new(one.name)
            bone.parent = edit_bones[one.parent]
            bone.head, bone.tail, bone.roll = one.head, one.tail, one.roll
            bone.use_deform, bone.use_connect = True, False
            # A new bone joins the active collection of the user.
            for collection in list(bone.collections):
                collection.unassign(bone)
    active = rig.data.collections.active
    own = rig.data.collections.new(f"{PREFIX}{obj.name}")
    mark_data(own, mark)
    for one in bones:
        bone = rig.data.bones[one.name]
        mark_data(bone, mark)
        own.assign(bone)
        rig.pose.bones[one.name].rotation_mode = "QUATERNION"
    # They would hide the rig's own controls.
    own.is_visible = False
    rig.data.collections.active = active


def name_root(obj: bpy.types.Object) -> str:
    """Return the name of the root bone of a generated rig and of its vertex group.

    It is the object's name, numbered if taken. The root bone of a previous bake keeps its name.
    """
    root = _root_of(_followed_rig(obj))
    if root is not None:
        return str(root.name)
    if lost_root := _lost_root(obj, read_record(obj.data)):
        return lost_root
    name, number = shorten_name(obj.name, _MAX_STEM), 0
    while (found := f"{name}_{number}" if number else name) in obj.vertex_groups:
        number += 1
    return found


def provide_rig(obj: bpy.types.Object, root: str, size: float, mark: str) -> Any:
    """Return the generated rig of an object, with a single root bone. Create it if it does not exist.

    It copies the motion of the object, as exported files place a skinned mesh by its bones alone.
    root: name of the root bone and its vertex group.  size: of the object, in its own space.
    """
    rig = _followed_rig(obj)
    if _root_of(rig) is None:
        remove_rig(obj)
        data = bpy.data.armatures.new(f"{PREFIX}{obj.name}")
        rig = bpy.data.objects.new(f"{PREFIX}{obj.name}", data)
        mark_data(rig, mark)
        mark_data(data, mark)
        _rig_collection(obj).objects.link(rig)
        rig.constraints.new(_FOLLOW_CONSTRAINT).target = obj
        with _edit_mode(rig):
            bone = data.edit_bones.new(root)
            bone.head, bone.tail = (0.0, 0.0, 0.0), (0.0, 0.0, _ROOT_LENGTH * size)
        # Solid bones would hide the mesh.
        data.display_type = "WIRE"
        add_cache_modifier(obj, RIG_MODIFIER, "ARMATURE", is_first=True).object = rig
    modifier = _armature_of(obj, rig)
    modifier.show_viewport = modifier.show_render = True
    if root not in obj.vertex_groups:
        index = obj.vertex_groups.active_index
        obj.vertex_groups.new(name=root)
        obj.vertex_groups.active_index = index
    return rig


def _rig_collection(obj: bpy.types.Object) -> bpy.types.Collection:
    """Return a collection of an object that is visible in the view layer, else that of the scene.

    Those from a library take no new objects.
    """
    layers, visible = [bpy.context.view_layer.layer_collection], set()
    while layers:
        layer = layers.pop()
        layers += layer.children
        if layer.is_visible and not layer.exclude:
            visible.add(layer.collection)
    found = (one for one in obj.users_collection if is_local(one) and one in visible)
    return next(found, bpy.context.scene.collection)


def remove_rig(obj: bpy.types.Object) -> None:
    """Remove the generated rig of an object, unless another object, such as a duplicate, follows it."""
    for modifier in [one for one in obj.modifiers if is_rig_modifier(one)]:
        rig = modifier.object
        root = _root_of(rig)
        remove_modifier(obj, modifier)
        if root is not None and root.name in obj.vertex_groups:
            obj.vertex_groups.remove(obj.vertex_groups[root.name])
        if rig is not None and rig not in _deforming_rigs() and is_local(rig, rig.data):
            _delete_rig(rig)


def _lost_root(obj: bpy.types.Object, record: BoneRecord | None) -> str:
    """Return the name of the root bone of a generated rig that the user has deleted; '' without one."""
    if record is None or not any(map(is_lost_rig_modifier, obj.modifiers)):
        return ""
    roots = {*record.parents.values()} - {*record.parents}
    return roots.pop() if len(roots) == 1 else ""


def _remove_lost_rig(obj: bpy.types.Object, root: str, mark: str) -> None:
    """Remove the vertex group, armature and actions of a generated rig whose object the user has deleted."""
    if root in obj.vertex_groups:
        obj.vertex_groups.remove(obj.vertex_groups[root])
    for data in [one for one in bpy.data.armatures if not one.users]:
        if any(bake_mark(bone) == mark for bone in data.bones):
            bpy.data.armatures.remove(data)
    for action in [one for one in bpy.data.actions if bake_mark(one) == mark]:
        if action.users == int(action.use_fake_user):
            bpy.data.actions.remove(action)


def _deforming_rigs() -> set[Any]:
    return {m.object for other in bpy.data.objects for m in other.modifiers if m.type == "ARMATURE"}


def _delete_rig(rig: Any) -> None:
    data = rig.data
    remove_bake_animation(rig, bake_mark(rig))
    bpy.data.objects.remove(rig)
    if not data.users:
        bpy.data.armatures.remove(data)


def is_generated_rig(obj: bpy.types.Object) -> bool:
    """Return whether an object is a generated rig, or a copy of one."""
    return obj.type == "ARMATURE" and bool(bake_mark(obj.data))


def orphaned_rigs(scene: bpy.types.Scene, rigs: Iterable[Any]) -> list[Any]:
    """Return the generated rigs of objects that were joined or deleted. Panels call this at each redraw.

    No mesh follows them, and the user has not parented anything to them.
    rigs: all generated rigs. The file is searched only for the objects of rigs that no object follows any more.
    """
    free = [rig for rig in rigs if not any(_armature_of(obj, rig) for obj in _followed_objects(rig))]
    found = [rig for rig in free if scene in rig.users_scene and is_local(rig, rig.data)]
    deforming = _deforming_rigs() if found else set()
    return [rig for rig in found if rig not in deforming and not rig.children]


def _followed_objects(rig: Any) -> list[Any]:
    """Return the objects for which a rig was generated."""
    return [one.target for one in rig.constraints if one.type == _FOLLOW_CONSTRAINT and one.target is not None]


def remove_orphaned_rigs(scene: bpy.types.Scene, rigs: Iterable[Any]) -> None:
    """Remove the rigs of orphaned_rigs() with their animation, and their vertex groups in joined meshes."""
    for rig in orphaned_rigs(scene, rigs):
        names = [str(bone.name) for bone in rig.data.bones]
        for obj in scene.objects:
            if obj.type == "MESH" and is_local(obj, obj.data) and _has_weights_of(obj, names):
                for name in names:
                    obj.vertex_groups.remove(obj.vertex_groups[name])
        _delete_rig(rig)


def _has_weights_of(obj: bpy.types.Object, bones: Sequence[str]) -> bool:
    """Return whether an object has the vertex groups of the bones of an orphaned rig, and uses them for nothing else.

    In a bake to a generated rig, the weights of each vertex add up to 1. If they do not, the user has changed a group.
    """
    rigs = [one.object for one in obj.modifiers if one.type == "ARMATURE" and one.object is not None]
    taken = {name for rig in rigs if rig.type == "ARMATURE" for name in map(str, rig.data.bones.keys())}
    keys = obj.data.shape_keys.key_blocks if obj.data.shape_keys is not None else ()
    for struct in (obj.dampsim, obj.dampsim_collider, *obj.modifiers, *keys):
        taken.update(_texts(struct))
    if not all(name in obj.vertex_groups and name not in taken for name in bones):
        return False
    totals, counts = sum_weights(obj, bones)
    return bool((np.abs(totals[counts > 0] - 1.0) < _WEIGHT_TOLERANCE).all())


def _texts(struct: Any) -> Iterator[str]:
    """Yield the values of all text properties of a struct, apart from its own name, which may be vertex groups."""
    for prop in struct.bl_rna.properties:
        if prop.type == "COLLECTION":
            for one in getattr(struct, prop.identifier):
                yield from _texts(one)
        elif prop.type == "STRING" and prop.identifier != "name":
            yield str(getattr(struct, prop.identifier))
    if isinstance(struct, bpy.types.NodesModifier):
        yield from (value for value in node_inputs(struct) if isinstance(value, str))


def _followed_rig(obj: bpy.types.Object) -> Any:
    """Return the generated rig of an object; None for that of another one of which this is a duplicate."""
    rig = next((one.object for one in obj.modifiers if is_rig_modifier(one) and one.object is not None), None)
    return rig if rig is not None and obj in _followed_objects(rig) else None


def _armature_of(obj: bpy.types.Object, rig: Any) -> Any:
    """Return the Armature modifier by which an object follows a rig, or None."""
    return next((one for one in obj.modifiers if one.type == "ARMATURE" and one.object == rig), None)


def _root_of(rig: Any) -> Any:
    bones = rig.data.bones if rig is not None else ()
    return next((bone for bone in bones if bone.parent is None and not bake_mark(bone)), None)


def describe_bones(rig: Any, record: BoneRecord) -> list[NewBone]:
    """Return the bones of a bake in a rig, in the order of their creation."""
    found, places = [], {name: place for place, name in enumerate(record.parents)}
    for name, parent in sorted(own_bones(rig, record.mark).items(), key=lambda one: places.get(one[0], len(places))):
        bone = rig.data.bones[name]
        roll = bone.AxisRollFromMatrix(bone.matrix_local.to_3x3(), axis=Vector(bone.matrix_local.col[1][:3]))[1]
        found.append(NewBone(name, parent, tuple(bone.head_local), tuple(bone.tail_local), float(roll)))
    return found


def remove_bones(obj: bpy.types.Object, for_rebake: bool = False) -> None:
    """Remove the bones of an object's bake, and restore its weights and poses. Does nothing without such a bake.

    for_rebake: whether to keep the tracks and a generated rig for a new bake.
    """
    record = read_record(obj.data) if obj.type == "MESH" else None
    root = _lost_root(obj, record)
    if record is not None:
        _remove_new_bones(obj, record, for_rebake)
    if not for_rebake or root:
        remove_rig(obj)
    if record is not None and root:
        _remove_lost_rig(obj, root, record.mark)


def _remove_new_bones(obj: bpy.types.Object, record: BoneRecord, for_rebake: bool) -> None:
    rig = rig_of(obj)
    parents = own_bones(rig, record.mark)
    restore_groups(obj, record, rig.data.bones.keys() if rig is not None else ())
    restore_weights(obj, record)
    index = obj.vertex_groups.active_index
    for name in parents or record.parents:
        if name in obj.vertex_groups:
            obj.vertex_groups.remove(obj.vertex_groups[name])
    if obj.vertex_groups:
        obj.vertex_groups.active_index = min(max(int(index or 0), 0), len(obj.vertex_groups) - 1)
    remove_record(obj.data)
    if rig is None or is_bake_shared(obj, rig, record.mark) or not is_local(rig, rig.data):
        return
    restore_poses(rig, record.mark)
    if not for_rebake:
        remove_bake_animation(rig, record.mark)
        rig.update_tag(refresh={"TIME"})
    if parents:
        # Bones that the user has added below them move up.
        with _edit_mode(rig):
            for name in parents:
                rig.data.edit_bones.remove(rig.data.edit_bones[name])
    for collection in [one for one in rig.data.collections_all if bake_mark(one) == record.mark]:
        rig.data.collections.remove(collection)


def orphaned_bones(obj: bpy.types.Object) -> dict[str, list[str]]:
    """Return the bones of the rig that belong to bakes of objects that were joined or deleted, by mark of the bake.

    They are new bones, or existing ones that such a bake animates. Panels call this at each redraw.
    """
    rig, own = rig_of(obj), record_mark(obj.data)
    if rig is None or rig.type != "ARMATURE":
        return {}
    found: dict[str, list[str]] = {}
    for bone in rig.pose.bones:
        mark = bake_mark(bone.bone) or pose_mark(bone)
        if mark and mark != own:
            found.setdefault(mark, []).append(str(bone.name))
    known = {record_mark(mesh) for mesh in bpy.data.meshes if mesh.users} if found else set()
    return {mark: names for mark, names in found.items() if mark not in known}


def remove_orphaned_bones(obj: bpy.types.Object) -> None:
    """Remove the bones and the animation of orphaned_bones(). The weights go to the bones that carry the new ones."""
    own, rig = read_record(obj.data), rig_of(obj)
    for mark in orphaned_bones(obj):
        write_record(obj.data, BoneRecord(mark, own_bones(rig, mark), 0, [], [], []))
        remove_bones(obj)
    if own is not None:
        write_record(obj.data, own)


def is_bake_shared(obj: bpy.types.Object, rig: Any, mark: str) -> bool:
    """Return whether another object, such as a duplicate, follows the same new bones."""
    others = [one for one in bpy.data.objects if one.type == "MESH" and one.data != obj.data and rig_of(one) == rig]
    records = (read_record(one.data) for one in others)
    return any(record is not None and record.mark == mark for record in records)
