"""Setup panel: copies, files and assets of an object's settings."""

from __future__ import annotations

from bpy.types import Context, Panel

from ...model.objects import chosen_simulated
from ...translations import translate
from ..common.layout import ChildPanel, enabled_column
from ..common.operators import count_label
from .setup_operators import (
    DAMPSIM_OT_setup_asset,
    DAMPSIM_OT_setup_load,
    DAMPSIM_OT_setup_save,
    draw_setup_copy,
)


class DAMPSIM_PT_setup(ChildPanel, Panel):
    bl_label = "Setup"

    def draw(self, context: Context) -> None:
        column, chosen = enabled_column(self.layout, context, align=True), chosen_simulated(context)
        draw_setup_copy(column, context)
        column.operator(DAMPSIM_OT_setup_save.bl_idname, icon="EXPORT")
        for operator, icon in ((DAMPSIM_OT_setup_load, "IMPORT"), (DAMPSIM_OT_setup_asset, "ASSET_MANAGER")):
            column.operator(operator.bl_idname, text=translate(count_label(operator.bl_label, chosen)), icon=icon)
