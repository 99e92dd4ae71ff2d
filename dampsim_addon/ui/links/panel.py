"""Links panel."""

from __future__ import annotations

from typing import Any

from bpy.types import Context, Panel, UILayout, UIList

from ....core.base.wording import format_count
from ...model.groups import format_names, group_of
from ...model.links import anchor_name, is_target_deleted
from ...model.objects import active_simulated
from ...translations import translate
from ..common.layout import ChildPanel, ItemList, draw_wrapped, labelled_column
from .operators import DAMPSIM_OT_link, DAMPSIM_OT_unlink, DAMPSIM_OT_weld


class DAMPSIM_UL_links(ItemList, UIList):
    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
        if is_target_deleted(item):
            layout.label(text=translate(f"{item.other.name} is missing" if item.other else "Missing"), icon="ERROR")
            return
        icon = "BONE_DATA" if item.bone else "OBJECT_DATA"
        layout.label(text=anchor_name(item.other, item.bone), icon=icon, translate=False)
        layout.label(text=translate(f"{len(item.points)} {'rigid' if item.rigid else 'soft'}"))


class DAMPSIM_PT_links(ChildPanel, Panel):
    bl_label = "Links"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group = obj.dampsim
        row = layout.row()
        row.template_list(DAMPSIM_UL_links.__name__, "", group, "links", group, "active_link", rows=3)
        row.column().operator(DAMPSIM_OT_unlink.bl_idname, text="", icon="REMOVE")
        if 0 <= group.active_link < len(group.links):
            link = group.links[group.active_link]
            column = labelled_column(layout.column(), context)
            column.prop(link, "other")
            if link.other is not None and link.other.type == "ARMATURE":
                column.prop_search(link, "bone", link.other.data, "bones")
            column.prop(link, "rigid")
            if not link.rigid:
                column.prop(link, "stiffness", text="Stiffness (N/m)")
            count = len(link.points)
            column.label(text=translate(f"Linked at {format_count(count, 'point')}"))
        linked = [
            member
            for member in group_of(obj).members
            if member != obj and any(link.other == obj for link in member.dampsim.links)
        ]
        if linked:
            draw_wrapped(layout, f"Also linked to it: {format_names(linked)}", "LINKED", context)
        column = layout.column(align=True)
        column.operator(DAMPSIM_OT_link.bl_idname, icon="LINKED")
        column.operator(DAMPSIM_OT_weld.bl_idname, icon="AUTOMERGE_ON")
        if not len(group.links) and not linked:
            draw_wrapped(layout, "Select another object as well, then press Link Selected", "INFO", context)
