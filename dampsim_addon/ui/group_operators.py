"""The buttons that say who is simulated together with whom."""

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
    """Join objects, and let go of the live frames that each one had without the others. touch: let those that can."""
    chosen = list(objects)
    for obj in chosen:
        _drop(group_of(obj))
    group = join(chosen)
    for obj in chosen if touch else ():
        # Not all kinds can.
        obj.dampsim.touch_together = kind(obj.dampsim.kind).joins
    _look(group)
    return group


def alone(obj: bpy.types.Object) -> None:
    """Take an object out of its group, and let go of the live frames that it had with the others."""
    group = group_of(obj)
    _drop(group)
    leave(obj)
    for member in group.members:
        if not member.dampsim.together:
            # There is nobody left.
            member.dampsim.touch_together = False
    _look(group)


def apart(objects: Iterable[bpy.types.Object]) -> bool:
    """Whether they are of more than one group."""
    chosen = simulated(objects)
    return len(chosen) > 1 and not set(chosen) <= set(group_of(chosen[0]).members)


def _drop(group: Group) -> None:
    for obj in group.members:
        live.drop(obj)


def _look(group: Group) -> None:
    """Their frames lie elsewhere now."""
    for obj in group.members:
        look(obj)


class DAMPSIM_OT_together(Operator):
    """Simulate the selected objects together from now on: they stop at each other, links can join them, and they have
    one bake"""

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
                cls.poll_message_set("Select two or more objects that DampSim simulates")
                return False
            if not apart(objects):
                cls.poll_message_set("The selected objects are simulated together already")
                return False
        return True

    def execute(self, context: Context) -> set[str]:
        group = together(selected(context), touch=True)
        self.report({"INFO"}, f"Simulated together: {group.name}")
        return {"FINISHED"}


class DAMPSIM_OT_alone(Operator):
    """Simulate the active object by itself from now on; its links to the others stay, and ask for it to come back"""

    bl_idname = "dampsim.alone"
    bl_label = "Simulate Alone"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        if not obj.dampsim.together:
            cls.poll_message_set("It is simulated alone already")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        alone(chosen(context))
        return {"FINISHED"}


class DAMPSIM_OT_select_group(Operator):
    """Select all that is simulated with the active object. Hold Alt while you dial to set a dial on all of it"""

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
        self.report({"INFO"}, f"{len(there)} objects selected" + (f", {hidden} hidden ones not" if hidden else ""))
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_together, DAMPSIM_OT_alone, DAMPSIM_OT_select_group)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
