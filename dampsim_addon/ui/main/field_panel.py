"""Panel of gravity and force fields."""

from __future__ import annotations

from bpy.types import Context, Panel

from ...model.force_fields import fields_acting_on
from ...model.groups import format_names
from ...model.objects import active_simulated, is_job_running
from ..common.layout import ChildPanel, active_parameters, draw_property, draw_slider, draw_wrapped


class DAMPSIM_PT_fields(ChildPanel, Panel):
    bl_label = "Gravity and Force Fields"
    bl_idname = "DAMPSIM_PT_fields"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        column = layout.column()
        column.enabled = not is_job_running(context)
        for parameter in active_parameters(obj.dampsim, "fields"):
            draw_slider(column, obj.dampsim, parameter)
        draw_property(column, obj.dampsim, "field_collection", "Effector Collection", context)
        others = [other for other in fields_acting_on(obj, context.view_layer) if not other.hide_viewport]
        text = f"Affected by {format_names(others)}" if others else "No force field of the scene affects it"
        draw_wrapped(layout, text, "FORCE_FORCE" if others else "NONE", context)
