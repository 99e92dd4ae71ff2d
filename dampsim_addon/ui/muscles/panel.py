"""Muscles panel: the muscles and sensors of an object, and their state at the displayed frame."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.types import Context, Panel, UILayout, UIList

from ....core import MuscleOverride, SensorType, kind_by_name
from ....core.base.wording import format_number
from ...blender.sampler import frame_rate
from ...model.objects import active_simulated, is_job_running
from ...translations import translate
from ..common.layout import ChildPanel, ItemList, draw_wrapped, labelled_column
from ..common.overlay_option import body_view
from .operators import (
    DAMPSIM_OT_muscle_add,
    DAMPSIM_OT_muscle_assign,
    DAMPSIM_OT_muscle_key,
    DAMPSIM_OT_muscle_remove,
    active_item,
    is_edge_based,
)
from .walk_operators import draw_walks


def displayed_values(obj: bpy.types.Object, context: Context) -> tuple[list[bool], list[float]]:
    """Return which muscles are on, and the sensor values, at the displayed frame; empty lists if unknown."""
    view = body_view(obj, context.scene)
    if view is None:
        return [], []
    history = view.state.history.block(view.block.name)
    on = [] if history.muscles is None else history.muscles.is_on.tolist()
    return on, [] if history.sensors is None else history.sensors.tolist()


def sensor_text(sensor: bpy.types.PropertyGroup, value: float) -> str:
    """Return a sensor value as text. value: N, m or a length ratio."""
    if sensor.sense == SensorType.CONTACT:
        return f"{format_number(value)} N" if value > 0.0 else "free"
    return f"{format_number(value)} m" if sensor.sense == SensorType.DISTANCE else f"{100.0 * value:.1f}%"


def is_sensor_on(sensor: bpy.types.PropertyGroup, value: float) -> bool:
    """Return whether a sensor reads 1 at a value."""
    if sensor.sense == SensorType.CONTACT:
        return value > 0.0
    if sensor.sense == SensorType.DISTANCE:
        return bool(sensor.near <= value <= sensor.far)
    return bool(sensor.low <= 100.0 * value <= sensor.high)


class DAMPSIM_UL_muscles(ItemList, UIList):
    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
        on, _ = displayed_values(item.id_data, context)
        shown = "RADIOBUT_ON" if index < len(on) and on[index] else "RADIOBUT_OFF"
        layout.prop(item, "name", text="", emboss=False, icon=shown)
        layout.prop(item, "force", text="", emboss=False, icon_only=item.force == MuscleOverride.AUTO)


class DAMPSIM_UL_sensors(ItemList, UIList):
    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
        _, values = displayed_values(item.id_data, context)
        known = index < len(values)
        shown = "HIDE_OFF" if known and is_sensor_on(item, values[index]) else "HIDE_ON"
        layout.prop(item, "name", text="", emboss=False, icon=shown)
        if known:
            layout.label(text=translate(sensor_text(item, values[index])))


class DAMPSIM_PT_muscles(ChildPanel, Panel):
    bl_label = "Muscles"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and kind_by_name(obj.dampsim.kind).supports_muscles

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group = obj.dampsim
        _draw_list(layout, group, "MUSCLE")
        muscle = active_item(group, "MUSCLE")
        if muscle is None:
            draw_wrapped(layout, "Select edges in Edit Mode, then add a muscle", "INFO", context)
        else:
            _draw_muscle(context, layout, obj, muscle)
        layout.separator()
        layout.label(text="Sensors")
        _draw_list(layout, group, "SENSOR")
        sensor = active_item(group, "SENSOR")
        if sensor is not None:
            _draw_sensor(context, layout, obj, sensor)
        if muscle is not None and sensor is not None:
            layout.separator()
            draw_walks(context, layout, group)


def _draw_muscle(context: Context, layout: UILayout, obj: bpy.types.Object, muscle: bpy.types.PropertyGroup) -> None:
    _draw_edges(layout, obj, muscle, "MUSCLE")
    column = labelled_column(layout.column(align=True), context)
    for name in ("length", "stiffness", "stiffness_on", "damping", "damping_on", "threshold", "delay"):
        column.prop(muscle, name)
    rate = frame_rate(context.scene)
    if muscle.delay and muscle.fps and abs(muscle.fps - rate) > 1e-3:
        text = f"Delay was set at {format_number(muscle.fps)} fps and keeps its duration in seconds"
        draw_wrapped(layout, text, "INFO", context)
    for index, weight in enumerate(muscle.weights):
        if index < len(obj.dampsim.sensors):
            column.prop(weight, "weight", text=obj.dampsim.sensors[index].name)
    row = labelled_column(layout.row(align=True), context)
    row.use_property_decorate = True
    row.prop(muscle, "force")
    row = layout.row(align=True)
    row.enabled = not is_job_running(context)
    for force in (MuscleOverride.ON, MuscleOverride.OFF, MuscleOverride.AUTO):
        row.operator(DAMPSIM_OT_muscle_key.bl_idname, text=translate(f"Key {force.title()}")).force = force


def _draw_list(layout: UILayout, group: bpy.types.PropertyGroup, what: str) -> None:
    list_class = DAMPSIM_UL_muscles if what == "MUSCLE" else DAMPSIM_UL_sensors
    row, plural = layout.row(), "muscles" if what == "MUSCLE" else "sensors"
    row.template_list(list_class.__name__, "", group, plural, group, f"active_{what.lower()}", rows=3)
    column = row.column(align=True)
    column.operator(DAMPSIM_OT_muscle_add.bl_idname, text="", icon="ADD").what = what
    column.operator(DAMPSIM_OT_muscle_remove.bl_idname, text="", icon="REMOVE").what = what


def _draw_edges(layout: UILayout, obj: bpy.types.Object, item: bpy.types.PropertyGroup, what: str) -> None:
    # One above the other: a row has no space for the name.
    column = layout.column(align=True)
    column.prop_search(item, "attribute", obj.data, "attributes", text="")
    column.operator(DAMPSIM_OT_muscle_assign.bl_idname, text="Assign Selected Edges").what = what


def _draw_sensor(context: Context, layout: UILayout, obj: bpy.types.Object, sensor: bpy.types.PropertyGroup) -> None:
    column = labelled_column(layout.column(align=True), context)
    column.prop(sensor, "sense")
    if is_edge_based(sensor):
        _draw_edges(layout, obj, sensor, "SENSOR")
        limits = labelled_column(layout.column(align=True), context)
        limits.prop(sensor, "low")
        limits.prop(sensor, "high")
        return
    column.prop_search(sensor, "vertex_group", obj, "vertex_groups")
    if sensor.sense == SensorType.DISTANCE:
        column.prop(sensor, "target")
        column.prop(sensor, "near")
        column.prop(sensor, "far")
