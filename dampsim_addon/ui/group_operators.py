"""Operators that join and leave simulation groups."""

from __future__ import annotations

from collections.abc import Iterable

import bpy
from bpy.types import Context, Operator

from ...core.bodies.registry import kind
from .. import live
from ..scene.groups import Group, group_of, join, leave
from ..scene.objects import chosen, selected, simulated, working
from ..scene.on_disk import look
from ..scene.registry import trusting


def together(objects: Iterable[bpy.types.Object], touch: bool = False) -> Group:
    """Join objects in one simulation group, and drop the live frames of their former groups.

    collide: also enable Other Bodies for the kinds that support it.
    """
    chosen = list(objects)
    for obj in chosen:
        _drop(group_of(obj))
    group = join(chosen)
    for obj in chosen if touch else ():
        # Not all kinds support it.
        obj.dampsim.touch_together = kind(obj.dampsim.kind).joins
    _look(group)
    return group


def alone(obj: bpy.types.Object) -> None:
    """Remove an object from its simulation group, and drop the group's live frames."""
    group = group_of(obj)
    _drop(group)
    leave(obj)
    for member in group.members:
        if not member.dampsim.together:
            # The last member has nothing left to collide with.
            member.dampsim.touch_together = False
    _look(group)


def apart(objects: Iterable[bpy.types.Object]) -> bool:
    """Return whether objects belong to more than one simulation group."""
    chosen = simulated(objects)
    return len(chosen) > 1 and not set(chosen) <= set(group_of(chosen[0]).members)


def _drop(group: Group) -> None:
    for obj in group.members:
        live.drop(obj)


def _look(group: Group) -> None:
    """Refresh the cache status of a group's objects, whose frames have a new location."""
    for obj in group.members:
        look(obj)


class DAMPSIM_OT_together(Operator):
    """Simulate the selected objects together: they collide with each other, can be linked, and share one bake"""

    bl_idname = "dampsim.together"
    bl_label = "Simulate Together"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        with trusting():
            objects = selected(context)
            if len(objects) < 2:
                cls.poll_message_set("Select two or more simulated objects")
                return False
            if not apart(objects):
                cls.poll_message_set("The selected objects are already simulated together")
                return False
        return True

    def execute(self, context: Context) -> set[str]:
        group = together(selected(context), touch=True)
        self.report({"INFO"}, f"Simulated together: {group.name}")
        return {"FINISHED"}


class DAMPSIM_OT_alone(Operator):
    """Simulate the active object separately. Its links are kept; to bake them, simulate the objects together again"""

    bl_idname = "dampsim.alone"
    bl_label = "Simulate Separately"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        if not obj.dampsim.together:
            cls.poll_message_set("The object is already simulated separately")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        alone(chosen(context))
        return {"FINISHED"}


class DAMPSIM_OT_select_group(Operator):
    """Select all objects that are simulated with the active one. Hold Alt while you edit a value to set it on all"""

    bl_idname = "dampsim.select_group"
    bl_label = "Select Group"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and bool(obj.dampsim.together) and obj.mode == "OBJECT"

    def execute(self, context: Context) -> set[str]:
        members = group_of(chosen(context)).members
        there = [obj for obj in members if obj.visible_get(view_layer=context.view_layer)]
        for obj in there:
            obj.select_set(True, view_layer=context.view_layer)
        hidden = len(members) - len(there)
        self.report({"INFO"}, f"Selected objects: {len(there)}" + (f"; hidden objects: {hidden}" if hidden else ""))
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_together, DAMPSIM_OT_alone, DAMPSIM_OT_select_group)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
