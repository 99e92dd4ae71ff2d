"""Panel that compares variants of the settings."""

from __future__ import annotations

from bpy.types import Context, Panel

from ....core import StiffnessBy
from ...compare.ghosts import GHOST_LETTERS
from ...model.objects import active_simulated, is_job_running
from ...status import results
from ..common.layout import ChildPanel
from .operators import DAMPSIM_OT_compare, DAMPSIM_OT_ghost_add, DAMPSIM_OT_ghost_pick, DAMPSIM_OT_ghost_remove


class DAMPSIM_PT_compare(ChildPanel, Panel):
    bl_label = "Compare"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        layout.enabled = not is_job_running(context)
        for number, variant in enumerate(obj.dampsim.variants):
            box = layout.box()
            row = box.row(align=True)
            row.label(text=GHOST_LETTERS[number])
            row.operator(DAMPSIM_OT_ghost_pick.bl_idname, icon="CHECKMARK").number = number
            row.operator(DAMPSIM_OT_ghost_remove.bl_idname, text="", icon="X").number = number
            grid = box.grid_flow(columns=2, align=True, row_major=True)
            stiffness = "sag" if variant.stiffness_by == StiffnessBy.SAG else "stiffness"
            for name in ("settle", "bounce", "follow_through", stiffness):
                grid.prop(variant, name)
        row = layout.row(align=True)
        row.operator(DAMPSIM_OT_ghost_add.bl_idname, icon="ADD")
        row.operator(DAMPSIM_OT_compare.bl_idname, icon="GHOST_ENABLED")
        ghosts = results.ghosts_of(obj)
        if ghosts is not None and ghosts.is_stale:
            layout.label(text="The ghosts are out of date. Compare again", icon="TIME")
