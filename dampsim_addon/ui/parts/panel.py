"""Parts panel: the parts of an object and their dials, the operators that add and remove parts, and their overlay."""

from __future__ import annotations

import colorsys
from typing import Any

import bpy
from bpy.types import Context, Menu, Operator, Panel, UILayout, UIList

from ....core import PARAMETERS, Array
from ....core.base.wording import format_count
from ....core.scene.part import PART_DIALS
from ...blender.vertex_groups import write_own_weights
from ...model.objects import active_simulated, is_job_running
from ...model.presets import MaterialChoice, MaterialSaver, draw_materials
from ...model.properties import read_settings
from ...scene_reader.parts import append_part, find_equal_part, remove_part, selected_bone_weights
from ...translations import report
from ..common import drawing
from ..common.layout import ChildPanel, ItemList, draw_property, draw_wrapped
from ..common.operators import EditOperator, can_paint
from ..common.overlay_option import BodyView, OverlayOption

# Golden section: neighbouring parts get hues far apart, however many there are.
_HUE_STEP, _SATURATION, _ALPHA = 0.618034, 0.65, 0.9
# Share from which a node counts as part of a part.
_MIN_SHARE = 0.5


def part_color(index: int) -> drawing.Color:
    """Return the colour of a part."""
    return (*colorsys.hsv_to_rgb(index * _HUE_STEP % 1.0, _SATURATION, 1.0), _ALPHA)


def part_nodes(view: BodyView) -> list[Array]:
    """Return the positions (k, 3) m of the nodes of each part."""
    shares = view.block.part_shares
    return [] if shares is None else [view.nodes[share >= _MIN_SHARE] for share in shares[:, 1:].T]


class PartOption(OverlayOption):
    property_name, label = "show_parts", "Parts"
    description = "Mark the vertices of each part in a colour of its own"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(False)
        for index, points in enumerate(view.data(part_nodes)):
            drawing.draw_points(points, part_color(index))


class DAMPSIM_UL_parts(ItemList, UIList):
    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
        layout.prop(item, "name", text="", emboss=False, icon="GROUP_VERTEX")
        row = layout.row(align=True)
        row.prop(item, "settle", text="", emboss=False)
        row.label(text=PARAMETERS["settle"].unit)


class DAMPSIM_PT_parts(ChildPanel, Panel):
    bl_label = "Parts"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        layout.enabled = not is_job_running(context)
        row = layout.row()
        row.template_list(DAMPSIM_UL_parts.__name__, "", obj.dampsim, "parts", obj.dampsim, "active_part", rows=3)
        buttons = row.column(align=True)
        buttons.operator(DAMPSIM_OT_part_add.bl_idname, text="", icon="ADD")
        buttons.operator(DAMPSIM_OT_part_remove.bl_idname, text="", icon="REMOVE")
        layout.operator(DAMPSIM_OT_part_add_bones.bl_idname, icon="BONE_DATA")
        part = active_part(obj)
        if part is None:
            text = "Each part has its own Settle, so ears can come to rest later than the belly"
            draw_wrapped(layout, text, "INFO", context)
            return
        row = layout.row(align=True)
        row.menu(DAMPSIM_MT_part_presets.__name__, icon="MATERIAL")
        row.operator(DAMPSIM_OT_part_preset_add.bl_idname, text="", icon="ADD")
        column = layout.column(align=True)
        row = column.row()
        row.alert = part.vertex_group not in obj.vertex_groups
        draw_property(row, part, "vertex_group", "Vertex Group", context, search=(obj, "vertex_groups"))
        for name in PART_DIALS:
            draw_property(column, part, name, PARAMETERS[name].label, context, PARAMETERS[name].unit)
        draw_property(column, part, "own_sag", "Own Sag", context)
        if part.own_sag:
            draw_property(column, part, "sag", PARAMETERS["sag"].label, context, PARAMETERS["sag"].unit)
        if not read_settings(obj).is_settle_controlled:
            draw_wrapped(layout, "Parts have no effect with this damping model", "INFO", context)


class _PartOperator(EditOperator):
    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and obj.type == "MESH" and not is_job_running(context)


class DAMPSIM_OT_part_add(_PartOperator, Operator):
    """Give the vertices of the active vertex group a Settle, Bounce and Follow-through of their own"""

    bl_label = "Add Part"

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        active = obj.vertex_groups.active
        # A second part of the same group would only divide it, and pinned vertices do not move on their own.
        used = {obj.dampsim.pin_group, *(part.vertex_group for part in obj.dampsim.parts)}
        append_part(obj, active.name if active is not None and active.name not in used else "")
        obj.update_tag()


class DAMPSIM_OT_part_add_bones(_PartOperator, Operator):
    """Give the vertices that the bones selected in Pose Mode move a Settle, Bounce and Follow-through of their own.
    Their weights are added up in a new vertex group"""

    bl_label = "Add from Selected Bones"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and can_paint(cls, active_simulated(context))

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        bone, weights = selected_bone_weights(obj)
        equal = find_equal_part(obj, weights)
        if equal is not None:
            obj.dampsim.active_part = equal
            report(self, {"WARNING"}, f"{obj.name}: part '{obj.dampsim.parts[equal].name}' has these vertices already")
            return
        name = append_part(obj, write_own_weights(obj, "", f"{bone} Part", weights).name)
        obj.update_tag()
        report(self, {"INFO"}, f"{obj.name}: part '{name}' has {format_count(int((weights > 0.5).sum()), 'vertex')}")


class DAMPSIM_OT_part_remove(_PartOperator, Operator):
    """Remove this part, and keep its vertex group"""

    bl_label = "Remove Part"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and active_part(active_simulated(context)) is not None

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        remove_part(obj, obj.dampsim.active_part)


class DAMPSIM_MT_part_presets(Menu):
    bl_label = "Materials"

    def draw(self, context: Context) -> None:
        draw_materials(self.layout, DAMPSIM_OT_part_preset.bl_idname)


class _HasActivePart:
    @classmethod
    def poll(cls, context: Context) -> bool:
        return active_part(active_simulated(context)) is not None and not is_job_running(context)


class DAMPSIM_OT_part_preset(_HasActivePart, MaterialChoice, Operator):
    """Set Settle, Bounce and Follow-through of the part to those of a material"""

    bl_idname = "dampsim.part_preset"

    def apply(self, context: Context, values: dict[str, Any]) -> None:
        obj = active_simulated(context)
        for name in PART_DIALS:
            if name in values:
                setattr(active_part(obj), name, values[name])
        obj.update_tag()


class DAMPSIM_OT_part_preset_add(_HasActivePart, MaterialSaver, Operator):
    """Save Settle, Bounce and Follow-through of the part as a preset"""

    bl_idname = "dampsim.part_preset_add"

    def values_to_save(self, context: Context) -> dict[str, Any]:
        part = active_part(active_simulated(context))
        return {name: getattr(part, name) for name in PART_DIALS}


def active_part(obj: bpy.types.Object | None) -> bpy.types.PropertyGroup | None:
    """Return the active part of an object, or None."""
    if obj is None or not 0 <= obj.dampsim.active_part < len(obj.dampsim.parts):
        return None
    part: bpy.types.PropertyGroup = obj.dampsim.parts[obj.dampsim.active_part]
    return part
