"""Parts panel: the parts of an object and their dials."""

from __future__ import annotations

from typing import Any

from bpy.types import Context, Panel, UILayout, UIList

from ....core import PARAMETERS
from ....core.scene.part import PART_DIALS
from ...model.objects import active_simulated, is_job_running
from ...model.properties import read_settings
from ..common.layout import ChildPanel, ItemList, draw_property, draw_wrapped
from .operators import DAMPSIM_OT_part_add, DAMPSIM_OT_part_add_bones, DAMPSIM_OT_part_remove, active_part


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
