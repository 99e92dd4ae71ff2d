"""Panel of the viewport overlays."""

from __future__ import annotations

from bpy.types import Context, Panel

from ...model.objects import active_simulated
from ..common.layout import ChildPanel, draw_property, draw_wrapped
from .overlay import OVERLAYS


class DAMPSIM_PT_show(ChildPanel, Panel):
    bl_label = "Show in Viewport"

    def draw(self, context: Context) -> None:
        column, obj = self.layout.column(), active_simulated(context)
        for option in OVERLAYS:
            if option.property_name and option.is_available(obj):
                column.prop(obj.dampsim, option.property_name)
        if obj.dampsim.live and not obj.dampsim.baked:
            draw_property(column, obj.dampsim, "influence", "Influence", context)
        draw_wrapped(column, "Overlays are shown on live frames only", "INFO", context)
