"""Operators that add and remove muscles and sensors, and assign edges to them."""

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
    """Return the muscles or sensors of an object, and the name of the property with the active index."""
    return (group.muscles, "active_muscle") if what == "MUSCLE" else (group.sensors, "active_sensor")


def active(group: bpy.types.PropertyGroup, what: str) -> bpy.types.PropertyGroup | None:
    """Return the active muscle or sensor of an object, or None."""
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
            cls.poll_message_set("Switch to Object or Edit Mode, and make the mesh local")
            return False
        return True


class DAMPSIM_OT_muscle_add(_Switched, Operator):
    """Add a muscle or a sensor. In Edit Mode, the selected edges are assigned to it. A new sensor switches the active
    muscle if no other sensor does"""

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
                # A weight of 0 would move nothing: switch the muscle on while the sensor reads 1.
                source.weights[-1].weight = max(source.threshold, 0.0) + 1.0
        setattr(group, place, len(items) - 1)
        if obj.mode == "EDIT" and selected(obj).any():
            _assign(obj, one)
        return {"FINISHED"}


class DAMPSIM_OT_muscle_remove(_Switched, Operator):
    """Remove the active muscle or sensor, and its edge attribute if nothing else uses it"""

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
    """Assign the edges selected in Edit Mode, and no others, to the active muscle or sensor. It is kept when the mesh
    is edited"""

    bl_idname = "dampsim.muscle_assign"
    bl_label = "Assign Selected Edges"
    bl_options = {"REGISTER", "UNDO"}

    what: _WHAT

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        one = active(obj.dampsim, self.what)
        if one is None:
            self.report({"ERROR"}, f"{obj.name}: there is no {self.what.lower()} yet. Add one first.")
            return {"CANCELLED"}
        if not selected(obj).any():
            self.report({"ERROR"}, f"{obj.name}: no edge is selected. Select the edges of {one.name} in Edit Mode.")
            return {"CANCELLED"}
        count = _assign(obj, one)
        self.report({"INFO"}, f"{obj.name}: edges assigned to {one.name}: {count}")
        return {"FINISHED"}


def _assign(obj: bpy.types.Object, one: bpy.types.PropertyGroup) -> int:
    """Store the selected edges of a muscle or sensor in an attribute of its own. Return their number."""
    group, edges = obj.dampsim, selected(obj)
    others = [other.attribute for other in (*group.muscles, *group.sensors) if other != one]
    if not one.attribute or one.attribute in others:
        one.attribute = _fresh(f"{MARK}edges", {*others, *obj.data.attributes.keys()})
    mark(obj, one.attribute, edges)
    return int(edges.sum())


class DAMPSIM_OT_muscle_key(_Switched, Operator):
    """Keyframe the active muscle at this frame: on, off, or switched by its sensors"""

    bl_idname = "dampsim.muscle_key"
    bl_label = "Key"
    bl_options = {"REGISTER", "UNDO"}

    force: EnumProperty(
        items=[(Force.ON, "On", "Switch it on from this frame"), (Force.OFF, "Off", "Switch it off from this frame"),
               (Force.AUTO, "Auto", "Let the sensors switch the muscle from this frame")],
        options={"SKIP_SAVE"},
    )  # fmt: skip

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        one = active(obj.dampsim, "MUSCLE")
        if one is None:
            self.report({"ERROR"}, f"{obj.name}: there is no muscle yet. Add one first.")
            return {"CANCELLED"}
        one.force = self.force
        obj.keyframe_insert(f"dampsim.muscles[{obj.dampsim.active_muscle}].force", frame=context.scene.frame_current)
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_muscle_add, DAMPSIM_OT_muscle_remove, DAMPSIM_OT_muscle_assign, DAMPSIM_OT_muscle_key)

register, unregister = bpy.utils.register_classes_factory(CLASSES)


def needs_edges(one: bpy.types.PropertyGroup) -> bool:
    """Return whether a muscle or sensor uses edges."""
    return getattr(one, "sense", Sense.LENGTH) == Sense.LENGTH
