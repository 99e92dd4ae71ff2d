"""Who is simulated together with whom. Each object is a group of its own until Simulate Together joins it to others.

A group owns cache, progress, range and live frames; an object its dials, maps, target and result.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import bpy

from .objects import simulated
from .registry import seen

# What an object that is simulated alone is known by in its cache.
_ALONE = "object"
# A sentence that speaks of more objects counts them.
_NAMED = 3


@dataclass(frozen=True)
class Group:
    """members: by name, so that the order is always the same."""

    members: tuple[bpy.types.Object, ...]

    @property
    def name(self) -> str:
        """For messages that are about all of it."""
        return named(self.members)

    @property
    def alone(self) -> bool:
        return len(self.members) == 1

    @property
    def key(self) -> str:
        """What tells it from other groups of the session, whatever its objects are called."""
        return key_of(self.members[0])


def named(objects: Iterable[bpy.types.Object]) -> str:
    """Objects by name, but the first ones only where they are many."""
    names = [str(obj.name) for obj in objects]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} others"


def key_of(obj: bpy.types.Object) -> str:
    return str(obj.dampsim.together) or f"object {obj.session_uid}"


def group_of(obj: bpy.types.Object) -> Group:
    """An object's group: those of the file that have its mark, and are in a scene with it."""
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
    """The groups of some objects, each once."""
    found: dict[str, Group] = {}
    for obj in simulated(objects):
        if key_of(obj) not in found:
            found[key_of(obj)] = group_of(obj)
    return list(found.values())


def marks(group: Group) -> dict[str, str]:
    """What the members are known by in caches, by name: their names may change.

    Duplicates, which have the same mark, are told apart by their names.
    """
    if group.alone:
        return {group.members[0].name: _ALONE}
    known = [str(obj.dampsim.member) for obj in group.members]
    return {
        obj.name: mark if mark and known.count(mark) == 1 else f"{mark}:{obj.name}"
        for obj, mark in zip(group.members, known, strict=True)
    }


def join(objects: Iterable[bpy.types.Object]) -> Group:
    """Simulate objects together from now on, and with whom they were."""
    chosen = list(objects)
    members = {member for obj in chosen for member in group_of(obj).members}
    mark = next((obj.dampsim.together for obj in chosen if obj.dampsim.together), "") or uuid.uuid4().hex[:16]
    for member in members:
        member.dampsim.together = mark
        member.dampsim.member = member.dampsim.member or uuid.uuid4().hex[:16]
    return group_of(chosen[0])


def leave(obj: bpy.types.Object) -> None:
    """Simulate an object alone from now on. The last one of a group is alone too."""
    rest = [member for member in group_of(obj).members if member != obj]
    obj.dampsim.together = ""
    if len(rest) == 1:
        rest[0].dampsim.together = ""
