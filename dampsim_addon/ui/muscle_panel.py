"""Muscles panel: the muscles and sensors of an object, and their state at the displayed frame."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.types import Context, Panel, UILayout, UIList

from ...core.bodies.registry import kind
from ...core.scene.muscles import Force, Sense
from ...core.system.muscular import MUSCLES, SENSORS
from ...core.system.state import remembered_by
from ..blender.sampler import frame_rate
from ..scene.objects import chosen, working
from . import overlay
from .layout import Child, split, wrapped
from .muscle_operators import (
    DAMPSIM_OT_muscle_add,
    DAMPSIM_OT_muscle_assign,
    DAMPSIM_OT_muscle_key,
    DAMPSIM_OT_muscle_remove,
    active,
    needs_edges,
)
from .walk_operators import draw_walks


def values_now(obj: bpy.types.Object, context: Context) -> tuple[list[bool], list[float]]:
    """Return which muscles are on, and the sensor values, at the displayed frame; empty lists if unknown."""
    found = overlay.drawn(obj, context.scene)
    if found is None:
        return [], []
    own = remembered_by(found.state.memory, found.block.name)
    on = [bool(row[0]) for row in own[MUSCLES]] if MUSCLES in own else []
    return on, [float(one) for one in own.get(SENSORS, ())]


def said(sensor: bpy.types.PropertyGroup, value: float) -> str:
    """Return a sensor value as text. value: N, m or a length ratio."""
    if sensor.sense == Sense.CONTACT:
        return f"{value:.3g} N" if value > 0.0 else "free"
    return f"{value:.3g} m" if sensor.sense == Sense.DISTANCE else f"{100.0 * value:.1f}%"


def reads(sensor: bpy.types.PropertyGroup, value: float) -> bool:
    """Return whether a sensor reads 1 at a value."""
    if sensor.sense == Sense.CONTACT:
        return value > 0.0
    if sensor.sense == Sense.DISTANCE:
        return bool(sensor.near <= value <= sensor.far)
    return bool(sensor.low <= 100.0 * value <= sensor.high)


class DAMPSIM_UL_muscles(UIList):
    def draw_item(
        self, context: Context, layout: UILayout, data: Any, item: Any, icon: int, active_data: Any,
        active_name: str, index: int,
    ) -> None:  # fmt: skip
        on, _ = values_now(data.id_data, context)
        shown = "RADIOBUT_ON" if index < len(on) and on[index] else "RADIOBUT_OFF"
        layout.prop(item, "name", text="", emboss=False, icon=shown)
        layout.prop(item, "force", text="", emboss=False, icon_only=item.force == Force.AUTO)


class DAMPSIM_UL_sensors(UIList):
    def draw_item(
        self, context: Context, layout: UILayout, data: Any, item: Any, icon: int, active_data: Any,
        active_name: str, index: int,
    ) -> None:  # fmt: skip
        _, values = values_now(data.id_data, context)
        known = index < len(values)
        shown = "HIDE_OFF" if known and reads(item, values[index]) else "HIDE_ON"
        layout.prop(item, "name", text="", emboss=False, icon=shown)
        if known:
            layout.label(text=said(item, values[index]))


class DAMPSIM_PT_muscles(Child, Panel):
    bl_label = "Muscles"
    bl_idname = "DAMPSIM_PT_muscles"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and kind(obj.dampsim.kind).switched

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        group = obj.dampsim
        _list(layout, group, "MUSCLE")
        muscle = active(group, "MUSCLE")
        if muscle is None:
            wrapped(layout, "Select edges in Edit Mode, then add a muscle", "INFO", context)
        else:
            _muscle(context, layout, obj, muscle)
        layout.separator()
        layout.label(text="Sensors")
        _list(layout, group, "SENSOR")
        sensor = active(group, "SENSOR")
        if sensor is not None:
            _sensor(context, layout, obj, sensor)
        if muscle is not None and sensor is not None:
            layout.separator()
            draw_walks(context, layout, group)


def _muscle(context: Context, layout: UILayout, obj: bpy.types.Object, muscle: bpy.types.PropertyGroup) -> None:
    _edges(layout, obj, muscle, "MUSCLE")
    column = split(layout.column(align=True), context)
    for name in ("length", "stiffness", "stiffness_on", "damping", "damping_on", "threshold", "delay"):
        column.prop(muscle, name)
    rate = frame_rate(context.scene)
    if muscle.delay and muscle.fps and abs(muscle.fps - rate) > 1e-3:
        wrapped(layout, f"Delay was set at {muscle.fps:g} fps and keeps its duration in seconds", "INFO", context)
    for place, weight in enumerate(muscle.weights):
        if place < len(obj.dampsim.sensors):
            column.prop(weight, "weight", text=obj.dampsim.sensors[place].name)
    row = split(layout.row(align=True), context)
    row.use_property_decorate = True
    row.prop(muscle, "force")
    row = layout.row(align=True)
    row.enabled = not working(context)
    for force in (Force.ON, Force.OFF, Force.AUTO):
        row.operator(DAMPSIM_OT_muscle_key.bl_idname, text=f"Key {force.title()}").force = force


def _list(layout: UILayout, group: bpy.types.PropertyGroup, what: str) -> None:
    kind = DAMPSIM_UL_muscles if what == "MUSCLE" else DAMPSIM_UL_sensors
    row, plural = layout.row(), "muscles" if what == "MUSCLE" else "sensors"
    row.template_list(kind.__name__, "", group, plural, group, f"active_{what.lower()}", rows=3)
    column = row.column(align=True)
    column.operator(DAMPSIM_OT_muscle_add.bl_idname, text="", icon="ADD").what = what
    column.operator(DAMPSIM_OT_muscle_remove.bl_idname, text="", icon="REMOVE").what = what


def _edges(layout: UILayout, obj: bpy.types.Object, one: bpy.types.PropertyGroup, what: str) -> None:
    # One above the other: a row has no space for the name.
    column = layout.column(align=True)
    column.prop_search(one, "attribute", obj.data, "attributes", text="")
    column.operator(DAMPSIM_OT_muscle_assign.bl_idname, text="Assign Selected Edges").what = what


def _sensor(context: Context, layout: UILayout, obj: bpy.types.Object, sensor: bpy.types.PropertyGroup) -> None:
    column = split(layout.column(align=True), context)
    column.prop(sensor, "sense")
    if needs_edges(sensor):
        _edges(layout, obj, sensor, "SENSOR")
        limits = split(layout.column(align=True), context)
        limits.prop(sensor, "low")
        limits.prop(sensor, "high")
        return
    column.prop_search(sensor, "vertex_group", obj, "vertex_groups")
    if sensor.sense == Sense.DISTANCE:
        column.prop(sensor, "target")
        column.prop(sensor, "near")
        column.prop(sensor, "far")


CLASSES = (DAMPSIM_UL_muscles, DAMPSIM_UL_sensors)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
