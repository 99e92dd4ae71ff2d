"""The buttons that say who is simulated together with whom."""

from __future__ import annotations

from collections.abc import Iterable

import bpy
from bpy.types import Context, Operator

from .. import live
from ..scene.groups import Group, group_of, join, leave
from ..scene.objects import chosen, simulated, working
from ..scene.on_disk import look


def together(objects: Iterable[bpy.types.Object]) -> Group:
    """Join objects, and let go of the live frames that each one had without the others."""
    chosen = list(objects)
    for obj in chosen:
        _drop(group_of(obj))
    group = join(chosen)
    _look(group)
    return group


def alone(obj: bpy.types.Object) -> None:
    """Take an object out of its group, and let go of the live frames that it had with the others."""
    group = group_of(obj)
    _drop(group)
    leave(obj)
    _look(group)


def _drop(group: Group) -> None:
    for obj in group.members:
        live.drop(obj)


def _look(group: Group) -> None:
    """Their frames lie elsewhere now."""
    for obj in group.members:
        look(obj)


class DAMPSIM_OT_together(Operator):
    """Simulate the selected objects together from now on, so that links can join them: they have one bake"""

    bl_idname = "dampsim.together"
    bl_label = "Simulate Together"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        selected = simulated(context.selected_objects)
        if len(selected) < 2:
            cls.poll_message_set("Select two or more objects that DampSim simulates")
            return False
        if len(group_of(selected[0]).members) >= len(selected) and set(selected) <= set(group_of(selected[0]).members):
            cls.poll_message_set("The selected objects are simulated together already")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        group = together(simulated(context.selected_objects))
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


CLASSES = (DAMPSIM_OT_together, DAMPSIM_OT_alone)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
