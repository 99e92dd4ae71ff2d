"""Groups of objects that are simulated together. An object is a group of its own until Simulate Together joins others.

A group owns the cache, progress, frame range and live frames. An object owns its dials, maps, target and result.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import bpy

from .objects import simulated
from .registry import seen

# Identifier of the only object in a cache.
_ALONE = "object"
# Messages list at most this many objects by name.
_NAMED = 3


@dataclass(frozen=True)
class Group:
    """Objects that are simulated together. members: sorted by name, so that their order is deterministic."""

    members: tuple[bpy.types.Object, ...]

    @property
    def name(self) -> str:
        """Name for messages about the whole group."""
        return named(self.members)

    @property
    def alone(self) -> bool:
        """True if the group has only one member."""
        return len(self.members) == 1

    @property
    def key(self) -> str:
        """Key that identifies the group during the session, independently of object names."""
        return key_of(self.members[0])


def named(objects: Iterable[bpy.types.Object]) -> str:
    """Return the names of objects for messages; long lists are abbreviated."""
    names = [str(obj.name) for obj in objects]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} others"


def key_of(obj: bpy.types.Object) -> str:
    """Return the session key of an object's group."""
    return str(obj.dampsim.together) or f"object {obj.session_uid}"


def group_of(obj: bpy.types.Object) -> Group:
    """Return an object's group: all objects with its group id that share a scene with it."""
    mark = obj.dampsim.together
    if not mark:
        return Group((obj,))
    now = seen()
    marked = {other for other in now.objects if other.dampsim.together == mark}
    members = {obj}
    for scene in (bpy.data.scenes if obj in marked else obj.users_scene) if marked - {obj} else ():
        there = marked & set(now.within(scene))
        if obj in there or obj not in marked:
            members |= there
    return Group(tuple(sorted(members, key=lambda member: member.name_full)))


def groups_of(objects: Iterable[bpy.types.Object]) -> list[Group]:
    """Return the groups of some objects without repetition."""
    found: dict[str, Group] = {}
    for obj in simulated(objects):
        if key_of(obj) not in found:
            found[key_of(obj)] = group_of(obj)
    return list(found.values())


def marks(group: Group) -> dict[str, str]:
    """Return the identifiers of the members in caches, by object name. They do not change when objects are renamed.

    Duplicated objects have the same identifier and are distinguished by name.
    """
    if group.alone:
        return {group.members[0].name: _ALONE}
    known = [str(obj.dampsim.member) for obj in group.members]
    return {
        obj.name: mark if mark and known.count(mark) == 1 else f"{mark}:{obj.name}"
        for obj, mark in zip(group.members, known, strict=True)
    }


def join(objects: Iterable[bpy.types.Object]) -> Group:
    """Simulate objects, and all members of their groups, together from now on."""
    chosen = list(objects)
    members = {member for obj in chosen for member in group_of(obj).members}
    mark = next((obj.dampsim.together for obj in chosen if obj.dampsim.together), "") or uuid.uuid4().hex[:16]
    for member in members:
        member.dampsim.together = mark
        member.dampsim.member = member.dampsim.member or uuid.uuid4().hex[:16]
    return group_of(chosen[0])


def leave(obj: bpy.types.Object) -> None:
    """Remove an object from its group. A group with a single remaining member is dissolved."""
    rest = [member for member in group_of(obj).members if member != obj]
    obj.dampsim.together = ""
    if len(rest) == 1:
        rest[0].dampsim.together = ""
