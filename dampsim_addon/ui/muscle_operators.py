"""The buttons that make muscles and sensors, and say which edges are theirs."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import EnumProperty
from bpy.types import Context, Operator

from ...core.bodies.registry import kind
from ...core.scene.muscles import Force, Sense
from ..blender.edge_attributes import mark, remove, selected
from ..blender.sampler import frame_rate
from ..scene.muscles import MARK
from ..scene.objects import chosen, working

_WHAT = EnumProperty(items=[("MUSCLE", "Muscle", ""), ("SENSOR", "Sensor", "")], options={"HIDDEN", "SKIP_SAVE"})


def lists(group: bpy.types.PropertyGroup, what: str) -> tuple[Any, str]:
    """An object's muscles or sensors, and the name of the property that says which of them is the active one."""
    return (group.muscles, "active_muscle") if what == "MUSCLE" else (group.sensors, "active_sensor")


def active(group: bpy.types.PropertyGroup, what: str) -> bpy.types.PropertyGroup | None:
    """The active muscle or sensor of an object; None where there is none."""
    items, place = lists(group, what)
    number = getattr(group, place)
    return items[number] if 0 <= number < len(items) else None


def _fresh(start: str, known: set[str]) -> str:
    number = 1
    while f"{start} {number}" in known:
        number += 1
    return f"{start} {number}"


class _Switched:
    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or not kind(obj.dampsim.kind).switched or working(context):
            return False
        if obj.mode not in ("OBJECT", "EDIT") or not obj.data.is_editable:
            cls.poll_message_set("Leave this mode, and make the mesh local")
            return False
        return True


class DAMPSIM_OT_muscle_add(_Switched, Operator):
    """Add a muscle or a sensor. In Edit Mode, the selected edges are its own. A new sensor switches the active
    muscle, if none does yet"""

    bl_idname = "dampsim.muscle_add"
    bl_label = "Add"
    bl_options = {"REGISTER", "UNDO"}

    what: _WHAT

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        group = obj.dampsim
        items, place = lists(group, self.what)
        name = _fresh("Muscle" if self.what == "MUSCLE" else "Sensor", {one.name for one in items})
        one = items.add()
        one.name = name
        if self.what == "MUSCLE":
            one.fps = frame_rate(context.scene)
            for _ in group.sensors:
                one.weights.add()
        else:
            for muscle in group.muscles:
                while len(muscle.weights) < len(group.sensors):
                    muscle.weights.add()
            source = active(group, "MUSCLE")
            one.attribute = source.attribute if source is not None else ""
            if source is not None and not any(weight.weight for weight in source.weights):
                # What nothing switches yet shall be on while it reads 1: at a weight of 0 nothing would move.
                source.weights[-1].weight = max(source.threshold, 0.0) + 1.0
        setattr(group, place, len(items) - 1)
        if obj.mode == "EDIT" and selected(obj).any():
            _assign(obj, one)
        return {"FINISHED"}


class DAMPSIM_OT_muscle_remove(_Switched, Operator):
    """Remove the active muscle or sensor, with the mark on its edges that nothing else uses"""

    bl_idname = "dampsim.muscle_remove"
    bl_label = "Remove"
    bl_options = {"REGISTER", "UNDO"}

    what: _WHAT

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        group = obj.dampsim
        one = active(group, self.what)
        if one is None:
            return {"CANCELLED"}
        items, place = lists(group, self.what)
        number, attribute = getattr(group, place), one.attribute
        items.remove(number)
        if self.what == "SENSOR":
            for muscle in group.muscles:
                if number < len(muscle.weights):
                    muscle.weights.remove(number)
        setattr(group, place, max(0, min(number, len(items) - 1)))
        if attribute.startswith(MARK) and all(
            other.attribute != attribute for other in (*group.muscles, *group.sensors)
        ):
            remove(obj, attribute)
        return {"FINISHED"}


class DAMPSIM_OT_muscle_assign(_Switched, Operator):
    """Make the edges that are selected in Edit Mode, and no others, those of the active muscle or sensor. They stay its
    own when the mesh is edited"""

    bl_idname = "dampsim.muscle_assign"
    bl_label = "Assign Selected Edges"
    bl_options = {"REGISTER", "UNDO"}

    what: _WHAT

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        one = active(obj.dampsim, self.what)
        if one is None:
            self.report({"ERROR"}, f"{obj.name}: it has no {self.what.lower()} yet; add one first.")
            return {"CANCELLED"}
        if not selected(obj).any():
            self.report({"ERROR"}, f"{obj.name}: no edge is selected; go to Edit Mode and select those of {one.name}.")
            return {"CANCELLED"}
        count = _assign(obj, one)
        self.report({"INFO"}, f"{obj.name}: edges of {one.name}: {count}")
        return {"FINISHED"}


def _assign(obj: bpy.types.Object, one: bpy.types.PropertyGroup) -> int:
    """Mark the selected edges for a muscle or sensor, by an attribute of its own; how many they are."""
    group, edges = obj.dampsim, selected(obj)
    others = [other.attribute for other in (*group.muscles, *group.sensors) if other != one]
    if not one.attribute or one.attribute in others:
        one.attribute = _fresh(f"{MARK}edges", {*others, *obj.data.attributes.keys()})
    mark(obj, one.attribute, edges)
    return int(edges.sum())


class DAMPSIM_OT_muscle_key(_Switched, Operator):
    """Keyframe at this frame whether the active muscle is on, off, or switched by its sensors"""

    bl_idname = "dampsim.muscle_key"
    bl_label = "Key"
    bl_options = {"REGISTER", "UNDO"}

    force: EnumProperty(
        items=[(Force.ON, "On", "On from here"), (Force.OFF, "Off", "Off from here"),
               (Force.AUTO, "Auto", "Switched by its sensors from here")],
        options={"SKIP_SAVE"},
    )  # fmt: skip

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        one = active(obj.dampsim, "MUSCLE")
        if one is None:
            self.report({"ERROR"}, f"{obj.name}: it has no muscle yet; add one first.")
            return {"CANCELLED"}
        one.force = self.force
        obj.keyframe_insert(f"dampsim.muscles[{obj.dampsim.active_muscle}].force", frame=context.scene.frame_current)
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_muscle_add, DAMPSIM_OT_muscle_remove, DAMPSIM_OT_muscle_assign, DAMPSIM_OT_muscle_key)

register, unregister = bpy.utils.register_classes_factory(CLASSES)


def needs_edges(one: bpy.types.PropertyGroup) -> bool:
    """Whether a muscle or sensor is of edges."""
    return getattr(one, "sense", Sense.LENGTH) == Sense.LENGTH
