"""Groups of objects that are simulated together. An object is a group of its own until Simulate Together joins others.

A group owns the cache, progress, frame range and live frames. An object owns its dials, maps, target and result.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import bpy

from .objects import filter_simulated
from .registry import scan_objects

# Identifier of the only object in a cache.
_SINGLE_ID = "object"
# Messages list at most this many objects by name.
_MAX_NAMES = 3


@dataclass(frozen=True)
class Group:
    """Objects that are simulated together. members: sorted by name, so that their order is deterministic."""

    members: tuple[bpy.types.Object, ...]

    @property
    def name(self) -> str:
        """Name for messages about the whole group."""
        return format_names(self.members)

    @property
    def is_single(self) -> bool:
        """True if the group has only one member."""
        return len(self.members) == 1

    @property
    def key(self) -> str:
        """Key that identifies the group during the session, independently of object names."""
        return group_key(self.members[0])


def format_names(objects: Iterable[bpy.types.Object]) -> str:
    """Return the names of objects for messages; long lists are abbreviated."""
    names = [str(obj.name) for obj in objects]
    if len(names) <= _MAX_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: _MAX_NAMES - 1])} and {len(names) - _MAX_NAMES + 1} others"


def group_key(obj: bpy.types.Object) -> str:
    """Return the session key of an object's group."""
    return str(obj.dampsim.together) or f"object {obj.session_uid}"


def group_of(obj: bpy.types.Object) -> Group:
    """Return an object's group: all objects with its group id that share a scene with it."""
    group_id = obj.dampsim.together
    if not group_id:
        return Group((obj,))
    scan = scan_objects()
    marked = {other for other in scan.objects if other.dampsim.together == group_id}
    members = {obj}
    for scene in (bpy.data.scenes if obj in marked else obj.users_scene) if marked - {obj} else ():
        scene_members = marked & set(scan.in_scene(scene))
        if obj in scene_members or obj not in marked:
            members |= scene_members
    return Group(tuple(sorted(members, key=lambda member: member.name_full)))


def joined_objects(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the objects of a group that are solved with an object, and itself, in the order of the group.

    They may touch, or links join them, also through others.
    """
    members = group_of(obj).members
    if len(members) == 1:
        return [obj]
    neighbours: dict[bpy.types.Object, set[bpy.types.Object]] = {one: set() for one in members}
    touching = {one for one in members if one.dampsim.touch_together}
    for one in members:
        for link in one.dampsim.links:
            if link.other in neighbours:
                neighbours[one].add(link.other)
                neighbours[link.other].add(one)
    joined, waiting = {obj}, [obj]
    while waiting:
        one = waiting.pop()
        found = neighbours[one] - joined
        if one in touching:
            found |= touching - joined
            touching = set()
        joined |= found
        waiting += found
    return [one for one in members if one in joined]


def groups_of(objects: Iterable[bpy.types.Object]) -> list[Group]:
    """Return the groups of some objects without repetition."""
    found: dict[str, Group] = {}
    for obj in filter_simulated(objects):
        if group_key(obj) not in found:
            found[group_key(obj)] = group_of(obj)
    return list(found.values())


def preview_range(scene: bpy.types.Scene) -> tuple[int, int] | None:
    """Return the first and last frame of the preview range; None if it is off, or that of the scene."""
    found = int(scene.frame_preview_start), int(scene.frame_preview_end)
    is_other = scene.use_preview_range and found != (scene.frame_start, scene.frame_end)
    return found if is_other and found[1] > scene.frame_start else None


def last_frame(group: Group, scene: bpy.types.Scene) -> int:
    """Return the last frame of a bake: the end of the preview range if it is on. A loop needs its whole cycle."""
    preview = preview_range(scene)
    is_loop = any(obj.dampsim.loop for obj in group.members)
    return int(scene.frame_end) if preview is None or is_loop else preview[1]


def cache_ids(group: Group) -> dict[str, str]:
    """Return the identifiers of the members in caches, by object name. They do not change when objects are renamed.

    Duplicated objects have the same identifier and are distinguished by name.
    """
    if group.is_single:
        return {group.members[0].name: _SINGLE_ID}
    known = [str(obj.dampsim.member) for obj in group.members]
    return {
        obj.name: mark if mark and known.count(mark) == 1 else f"{mark}:{obj.name}"
        for obj, mark in zip(group.members, known, strict=True)
    }


def join_group(objects: Iterable[bpy.types.Object]) -> Group:
    """Simulate objects, and all members of their groups, together from now on."""
    joined = list(objects)
    members = {member for obj in joined for member in group_of(obj).members}
    group_id = next((obj.dampsim.together for obj in joined if obj.dampsim.together), "") or uuid.uuid4().hex[:16]
    for member in members:
        member.dampsim.together = group_id
        member.dampsim.member = member.dampsim.member or uuid.uuid4().hex[:16]
    return group_of(joined[0])


def leave_group(obj: bpy.types.Object) -> None:
    """Remove an object from its group. A group with a single remaining member is dissolved."""
    rest = [member for member in group_of(obj).members if member != obj]
    obj.dampsim.together = ""
    if len(rest) == 1:
        rest[0].dampsim.together = ""
