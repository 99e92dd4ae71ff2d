"""Operators that add and remove muscles and sensors, and assign edges to them."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import EnumProperty
from bpy.types import Context, Operator

from ....core import MuscleOverride, SceneError, SensorType, kind_by_name
from ...blender.sampler import frame_rate
from ...blender.vertex_groups import mark_edges, remove_edge_attribute, selected_edges
from ...model.objects import active_simulated, is_job_running, remove_item
from ...scene_reader.muscles import ATTRIBUTE_PREFIX
from ...translations import report
from ..common.operators import EditOperator, can_paint

_LIST_PROPERTY = EnumProperty(
    items=[("MUSCLE", "Muscle", ""), ("SENSOR", "Sensor", "")], options={"HIDDEN", "SKIP_SAVE"}
)


def collection_and_index_name(group: bpy.types.PropertyGroup, what: str) -> tuple[Any, str]:
    """Return the muscles or sensors of an object, and the name of the property with the active index."""
    return (group.muscles, "active_muscle") if what == "MUSCLE" else (group.sensors, "active_sensor")


def active_item(group: bpy.types.PropertyGroup, what: str) -> bpy.types.PropertyGroup | None:
    """Return the active muscle or sensor of an object, or None."""
    items, index_name = collection_and_index_name(group, what)
    index = getattr(group, index_name)
    return items[index] if 0 <= index < len(items) else None


def _unique_name(start: str, known: set[str]) -> str:
    number = 1
    while f"{start} {number}" in known:
        number += 1
    return f"{start} {number}"


class _MuscleOperator(EditOperator):
    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is None or not kind_by_name(obj.dampsim.kind).supports_muscles or is_job_running(context):
            return False
        return can_paint(cls, obj)


class DAMPSIM_OT_muscle_add(_MuscleOperator, Operator):
    """Add a muscle or a sensor and, in Edit Mode, assign the selected edges to it. A new sensor switches the active
    muscle if no other sensor does"""

    bl_label = "Add"

    what: _LIST_PROPERTY

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        group = obj.dampsim
        items, index_name = collection_and_index_name(group, self.what)
        name = _unique_name("Muscle" if self.what == "MUSCLE" else "Sensor", {one.name for one in items})
        item = items.add()
        item.name = name
        if self.what == "MUSCLE":
            item.fps = frame_rate(context.scene)
            for _ in group.sensors:
                item.weights.add()
        else:
            for muscle in group.muscles:
                while len(muscle.weights) < len(group.sensors):
                    muscle.weights.add()
            source = active_item(group, "MUSCLE")
            item.attribute = source.attribute if source is not None else ""
            if source is not None and not any(weight.weight for weight in source.weights):
                # A weight of 0 would move nothing: switch the muscle on while the sensor reads 1.
                source.weights[-1].weight = max(source.threshold, 0.0) + 1.0
        setattr(group, index_name, len(items) - 1)
        if obj.mode == "EDIT" and selected_edges(obj).any():
            _assign_edges(obj, item)


class DAMPSIM_OT_muscle_remove(_MuscleOperator, Operator):
    """Remove the active muscle or sensor, and its edge attribute if nothing else uses it"""

    bl_label = "Remove"

    what: _LIST_PROPERTY

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        group = obj.dampsim
        item = active_item(group, self.what)
        if item is None:
            raise SceneError(f"{obj.name}: there is nothing to remove.")
        items, index_name = collection_and_index_name(group, self.what)
        index, attribute = getattr(group, index_name), item.attribute
        remove_item(obj, items, index)
        if self.what == "SENSOR":
            for muscle in group.muscles:
                if index < len(muscle.weights):
                    muscle.weights.remove(index)
        setattr(group, index_name, max(0, min(index, len(items) - 1)))
        is_used = any(other.attribute == attribute for other in (*group.muscles, *group.sensors))
        if attribute.startswith(ATTRIBUTE_PREFIX) and not is_used:
            remove_edge_attribute(obj, attribute)


class DAMPSIM_OT_muscle_assign(_MuscleOperator, Operator):
    """Assign the edges selected in Edit Mode, and no others, to the active muscle or sensor. They stay assigned when
    you edit the mesh"""

    bl_label = "Assign Selected Edges"

    what: _LIST_PROPERTY

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        item = active_item(obj.dampsim, self.what)
        if item is None:
            raise SceneError(f"{obj.name}: there is no {self.what.lower()} yet. Add one first.")
        if not selected_edges(obj).any():
            raise SceneError(f"{obj.name}: no edge is selected. Select the edges of {item.name} in Edit Mode.")
        count = _assign_edges(obj, item)
        report(self, {"INFO"}, f"{obj.name}: edges assigned to {item.name}: {count}")


def _assign_edges(obj: bpy.types.Object, item: bpy.types.PropertyGroup) -> int:
    """Store the selected edges of a muscle or sensor in an attribute of its own. Return their number."""
    group, edges = obj.dampsim, selected_edges(obj)
    others = [other.attribute for other in (*group.muscles, *group.sensors) if other != item]
    if not item.attribute or item.attribute in others:
        item.attribute = _unique_name(f"{ATTRIBUTE_PREFIX}edges", {*others, *obj.data.attributes.keys()})
    mark_edges(obj, item.attribute, edges)
    return int(edges.sum())


class DAMPSIM_OT_muscle_key(_MuscleOperator, Operator):
    """Keyframe the active muscle at this frame: on, off, or switched by its sensors"""

    bl_label = "Key"

    force: EnumProperty(
        items=[(MuscleOverride.ON, "On", "Switch it on from this frame onwards"),
               (MuscleOverride.OFF, "Off", "Switch it off from this frame onwards"),
               (MuscleOverride.AUTO, "Auto", "Let the sensors switch the muscle from this frame onwards")],
        options={"SKIP_SAVE"},
    )  # fmt: skip

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        muscle = active_item(obj.dampsim, "MUSCLE")
        if muscle is None:
            raise SceneError(f"{obj.name}: there is no muscle yet. Add one first.")
        muscle.force = self.force
        obj.keyframe_insert(f"dampsim.muscles[{obj.dampsim.active_muscle}].force", frame=context.scene.frame_current)


def is_edge_based(item: bpy.types.PropertyGroup) -> bool:
    """Return whether a muscle or sensor uses edges."""
    return getattr(item, "sense", SensorType.LENGTH) == SensorType.LENGTH
