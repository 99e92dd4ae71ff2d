"""Bakes to bones: records of the previous weights in the mesh and of previous poses in the rig, and their restoration.

A bake to new bones changes the weights of the bones that carry the flesh. The mesh stores the previous and the new
weights of each changed vertex, so that they can be exchanged to the bit: for good by Clear, and for a while by a
Sampler. A bake to existing bones animates their poses. Each bone stores the previous values that had no keyframes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import bpy
import numpy as np

from ...core.base.untrusted_files import parse_json
from .animation import all_strips
from .dampsim_names import bake_mark, is_rig_modifier, plays_bake

# Custom property of the mesh.
_RECORD = "dampsim_bones"
# Custom property of a pose bone that a bake animates: its mark, and previous values by property.
_POSE, _MARK = "dampsim_pose", "mark"
# Weights of a vertex in order, by name of the vertex group.
Memberships = list[tuple[str, float]]


@dataclass(frozen=True)
class BoneRecord:
    """Record of a bake to bones. mark: see bake_mark().  parents: carrying bone by new bone, by name.

    count: number of vertices of the mesh.  vertices: those with changed weights.  old, new: their weights before and
    after the bake.  is_muted: whether the mesh has the old ones for now.
    """

    mark: str
    parents: dict[str, str]
    count: int
    vertices: list[int]
    old: list[Memberships]
    new: list[Memberships]
    is_muted: bool = False

    def changed_groups(self) -> set[str]:
        """Return the names of the vertex groups that the bake changed, also of bones that carry no new ones."""
        return {name for rows in zip(self.old, self.new, strict=True) for name, _ in set(rows[0]) ^ set(rows[1])}


def read_record(mesh: Any) -> BoneRecord | None:
    """Return the record of a mesh; None without one, or if something else has changed it."""
    stored = mesh.get(_RECORD) if isinstance(mesh, bpy.types.Mesh) else None
    if stored is None:
        return None
    try:
        head = parse_json(_checked_text(stored["head"]))
        names: list[str] = [_checked_text(one) for one in head["names"]]
        vertices = np.frombuffer(stored["vertices"], dtype=np.int32).tolist()
        old, new = (_unpack(stored[f"{key}_counts"], stored[f"{key}_groups"], stored[f"{key}_weights"], names)
                    for key in ("old", "new"))  # fmt: skip
        record = BoneRecord(
            str(head["mark"]),
            {_checked_text(one): _checked_text(other) for one, other in head["parents"].items()},
            int(head["count"]),
            vertices,
            old,
            new,
            bool(stored["muted"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    is_valid = len(vertices) == len(old) == len(new) and all(0 <= one < record.count for one in vertices)
    return record if is_valid else None


def record_mark(mesh: Any) -> str:
    """Return the mark of the bake that a mesh records; '' without one. Panels call this at each redraw."""
    stored = mesh.get(_RECORD) if isinstance(mesh, bpy.types.Mesh) else None
    try:
        return str(parse_json(_checked_text(stored["head"]))["mark"]) if stored is not None else ""
    except (KeyError, IndexError, TypeError, ValueError):
        return ""


def write_record(mesh: Any, record: BoneRecord) -> None:
    """Store the record of a bake in its mesh."""
    names = list(dict.fromkeys(name for row in (*record.old, *record.new) for name, _ in row))
    head = {"mark": record.mark, "parents": record.parents, "count": record.count, "names": names}
    places = {name: place for place, name in enumerate(names)}
    stored: dict[str, Any] = {
        "head": json.dumps(head),
        "vertices": np.array(record.vertices, dtype=np.int32).tobytes(),
        "muted": int(record.is_muted),
    }
    for key, rows in (("old", record.old), ("new", record.new)):
        flat = [one for row in rows for one in row]
        stored[f"{key}_counts"] = np.array([len(row) for row in rows], dtype=np.int32).tobytes()
        stored[f"{key}_groups"] = np.array([places[name] for name, _ in flat], dtype=np.int32).tobytes()
        stored[f"{key}_weights"] = np.array([weight for _, weight in flat], dtype=np.float32).tobytes()
    mesh[_RECORD] = stored


def remove_record(mesh: Any) -> None:
    """Remove the record of a mesh."""
    if _RECORD in mesh:
        del mesh[_RECORD]


def _checked_text(value: Any) -> str:
    """Return a text. Raises TypeError for another type."""
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


def _unpack(counts: bytes, groups: bytes, weights: bytes, names: Sequence[str]) -> list[Memberships]:
    numbers, values = np.frombuffer(groups, dtype=np.int32), np.frombuffer(weights, dtype=np.float32)
    sizes = np.frombuffer(counts, dtype=np.int32)
    if (numbers < 0).any() or (sizes < 0).any() or not np.isfinite(values).all() or sizes.sum() != len(values):
        raise ValueError("weights do not match their number")
    flat = [(names[number], float(value)) for number, value in zip(numbers.tolist(), values, strict=True)]
    ends = np.cumsum(sizes).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def read_memberships(obj: bpy.types.Object, vertices: Iterable[int]) -> list[Memberships]:
    """Return all weights of some vertices, in order."""
    names = {group.index: group.name for group in obj.vertex_groups}
    groups = (obj.data.vertices[vertex].groups for vertex in vertices)
    return [[(names[one.group], float(one.weight)) for one in row if one.group in names] for row in groups]


def write_memberships(obj: bpy.types.Object, vertices: Sequence[int], rows: Sequence[Memberships]) -> None:
    """Replace all weights of some vertices, in order. Weights of missing groups are left out."""
    present: dict[str, list[int]] = {}
    for vertex, row in zip(vertices, read_memberships(obj, vertices), strict=True):
        for name, _ in row:
            present.setdefault(name, []).append(vertex)
    groups = {group.name: group for group in obj.vertex_groups}
    for name, members in present.items():
        groups[name].remove(members)
    for vertex, row in zip(vertices, rows, strict=True):
        for name, weight in row:
            if name in groups:
                groups[name].add([vertex], weight, "REPLACE")
    obj.data.update()


def restore_groups(obj: bpy.types.Object, record: BoneRecord, bones: Collection[str]) -> None:
    """Give renamed vertex groups of a bake the names of their bones again, and add removed ones of carrying bones.

    A renamed group still has the weights of the bake. bones: names in the rig; none if it was deleted.
    """
    names, index = {*record.parents, *record.parents.values(), *record.changed_groups()}, obj.vertex_groups.active_index
    missing = [one for one in sorted(names) if one not in obj.vertex_groups and (not bones or one in bones)]
    if not missing:
        return
    if record.count == len(obj.data.vertices):
        every = {*obj.vertex_groups.keys(), *names}
        rows = [_limited(row, every) for row in read_memberships(obj, record.vertices)]
        baked = [_limited(row, every) for row in record.new]
        for name in missing:
            weights = [row.get(name) for row in baked]
            free = [one for one in obj.vertex_groups if one.name not in names and one.name not in bones]
            found = [one for one in free if any(weights) and [row.get(one.name) for row in rows] == weights]
            if found:
                found[0].name = name
    for name in missing:
        if name not in obj.vertex_groups and name in record.parents.values():
            obj.vertex_groups.new(name=name)
    obj.vertex_groups.active_index = index


def rig_of(obj: bpy.types.Object) -> Any:
    """Return the generated rig of an object, or else that of its first enabled Armature modifier.

    If none is enabled, it is that of the first modifier; None without one.
    """
    armatures = [m for m in obj.modifiers if m.type == "ARMATURE" and m.object is not None]
    order = sorted(armatures, key=lambda m: (not is_rig_modifier(m), not m.show_viewport))
    return next((m.object for m in order), None)


def needs_rig(obj: bpy.types.Object) -> bool:
    """Return whether no rig of the user deforms an object, so that a bake to new bones makes one."""
    armatures = [m for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.object is not None]
    return obj.parent_type != "ARMATURE" and all(is_rig_modifier(m) for m in armatures)


def own_bones(rig: Any, mark: str) -> dict[str, str]:
    """Return the carrying bone by new bone of a bake, by current name."""
    bones = rig.data.bones if rig is not None else ()
    return {one.name: one.parent.name for one in bones if one.parent is not None and bake_mark(one) == mark}


def restore_weights(obj: bpy.types.Object, record: BoneRecord) -> None:
    """Give the vertices of a bake their old weights.

    Where the user has changed weights since, or vertices, the weights of new bones go to their carrying bones.
    """
    if record.is_muted or not record.parents:
        return
    parents = own_bones(rig_of(obj), record.mark) or record.parents
    groups = {group.name for group in obj.vertex_groups}
    is_same = record.count == len(obj.data.vertices) and set(parents) == set(record.parents)
    vertices = record.vertices if is_same else list(range(len(obj.data.vertices)))
    # The user may have removed the group of a bone that carries no new ones, which has no weights to compare then.
    relevant = {*parents, *parents.values(), *(record.changed_groups() & groups)}
    rows = []
    for place, row in enumerate(read_memberships(obj, vertices)):
        if is_same and _limited(row, relevant) == _limited(record.new[place], relevant):
            rows.append(_with_old_weights(row, record.old[place], relevant, groups))
        else:
            rows.append(_with_merged_weights(row, parents))
    write_memberships(obj, vertices, rows)


def _limited(row: Memberships, groups: set[str]) -> dict[str, float]:
    """Return the weights of a vertex in some groups, those above 1 as 1, which Blender's glTF exporter writes back."""
    return {name: min(weight, 1.0) for name, weight in row if name in groups}


def _with_old_weights(row: Memberships, old: Memberships, relevant: set[str], groups: set[str]) -> Memberships:
    """Return the weights of a vertex in the old order; weights in other groups are the current ones."""
    now = {name: weight for name, weight in row if name not in relevant}
    known = {name for name, _ in old}
    kept = [(name, weight if name in relevant else now[name]) for name, weight in old
            if name in now or (name in relevant and name in groups)]  # fmt: skip
    return [*kept, *((name, weight) for name, weight in now.items() if name not in known)]


def _with_merged_weights(row: Memberships, parents: Mapping[str, str]) -> Memberships:
    """Return the weights of a vertex with those of new bones given to their carrying bones."""
    found: dict[str, float] = {}
    for name, weight in row:
        target = parents.get(name, name)
        found[target] = found.get(target, 0.0) + weight
    return [(name, min(weight, 1.0)) for name, weight in found.items()]


def mute_bone_weights(obj: bpy.types.Object) -> tuple[list[int], list[Memberships]] | None:
    """Give the vertices of a bake their old weights for a while; returns the current ones, None without a bake."""
    record = read_record(obj.data)
    if record is None or record.is_muted or not record.parents or obj.mode == "EDIT" or obj.data.library is not None:
        return None
    vertices = list(range(len(obj.data.vertices))) if record.count != len(obj.data.vertices) else record.vertices
    kept = vertices, read_memberships(obj, vertices)
    restore_weights(obj, record)
    write_record(obj.data, replace(record, is_muted=True))
    return kept


def unmute_bone_weights(obj: bpy.types.Object, kept: tuple[list[int], list[Memberships]] | None) -> None:
    """Undo mute_bone_weights(), unless the bake was replaced or removed."""
    record = read_record(obj.data) if kept is not None else None
    if kept is None or record is None or not record.is_muted:
        return
    write_memberships(obj, *kept)
    write_record(obj.data, replace(record, is_muted=False))


def keep_pose(bone: bpy.types.PoseBone, mark: str, names: Iterable[str]) -> None:
    """Store the current values of some properties of a bone that a bake is going to animate."""
    bone[_POSE] = {_MARK: mark, **{name: list(getattr(bone, name)) for name in names}}


def kept_pose(bone: bpy.types.PoseBone) -> dict[str, list[float]]:
    """Return the values that a bone had before the bake that animates it, by property; none without such a bake."""
    stored = bone.get(_POSE)
    found = stored.to_dict() if hasattr(stored, "to_dict") else {}
    known = ("location", "rotation_euler", "rotation_quaternion", "scale")
    lists = {name: list(one) for name, one in found.items() if name in known and isinstance(one, (list, tuple))}
    return {
        name: values
        for name, values in lists.items()
        if len(values) == len(getattr(bone, name))
        and all(isinstance(value, float) and math.isfinite(value) for value in values)
    }


def pose_mark(bone: bpy.types.PoseBone) -> str:
    """Return the mark of the bake that animates an existing bone; '' without one."""
    stored = bone.get(_POSE)
    mark = stored.get(_MARK) if hasattr(stored, "to_dict") else None
    return mark if isinstance(mark, str) else ""


def animated_bones(rig: Any, mark: str) -> list[bpy.types.PoseBone]:
    """Return the existing bones that a bake animates."""
    pose = rig.pose if rig is not None and mark else None
    return [bone for bone in pose.bones if pose_mark(bone) == mark] if pose is not None else []


def restore_poses(rig: Any, mark: str) -> None:
    """Give the bones that a bake animates their previous values, and remove the records."""
    for bone in animated_bones(rig, mark):
        _apply_kept_pose(bone)
        del bone[_POSE]


def _apply_kept_pose(bone: bpy.types.PoseBone) -> None:
    for name, values in kept_pose(bone).items():
        setattr(bone, name, values)


def mute_bone_poses(obj: bpy.types.Object) -> list[str]:
    """Switch off the strips of a bake to existing bones for a while; returns the names of those that were on."""
    mark = record_mark(obj.data)
    rig = rig_of(obj) if mark else None
    bones = animated_bones(rig, mark)
    if not bones:
        return []
    strips = [one for one in all_strips(rig.animation_data) if plays_bake(one, mark) and not one.mute]
    for strip in strips:
        strip.mute = True
    # Channels without other keyframes would keep their last values.
    for bone in bones:
        _apply_kept_pose(bone)
    rig.update_tag(refresh={"TIME"})
    return [strip.name for strip in strips]


def unmute_bone_poses(obj: bpy.types.Object, names: Sequence[str]) -> None:
    """Undo mute_bone_poses(), as far as the strips still exist."""
    mark = record_mark(obj.data) if names else ""
    rig = rig_of(obj) if mark else None
    if rig is None:
        return
    for strip in all_strips(rig.animation_data):
        if plays_bake(strip, mark) and strip.name in names:
            strip.mute = False
    rig.update_tag(refresh={"TIME"})
