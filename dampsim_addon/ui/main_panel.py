"""Panels of the sidebar tab."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ...core.bodies.registry import kind
from ...core.scene.parameters import PARAMETERS, StiffnessBy
from .. import live
from ..compare.ghosts import NAMES
from ..scene import results
from ..scene.groups import group_of, named
from ..scene.measured import holds, substeps
from ..scene.objects import chosen, selected, working
from ..scene.presets import draw_presets
from ..scene.seams import seam_groups
from . import hold
from .add_panel import draw_add
from .advanced_panel import DAMPSIM_PT_advanced
from .bake_panel import DAMPSIM_PT_bake
from .contact_panel import DAMPSIM_PT_collider, DAMPSIM_PT_contact
from .fabric_operators import draw_fabrics
from .fibre_panel import DAMPSIM_PT_fibres
from .field_panel import DAMPSIM_PT_fields
from .ghost_operators import (
    DAMPSIM_OT_compare,
    DAMPSIM_OT_ghost_add,
    DAMPSIM_OT_ghost_pick,
    DAMPSIM_OT_ghost_remove,
)
from .group_operators import DAMPSIM_OT_alone, DAMPSIM_OT_select_group, DAMPSIM_OT_together, apart
from .layout import UNIT_X, Child, Sidebar, dial, dials, field, meant, sections, wrapped
from .link_panel import DAMPSIM_PT_links
from .live_line import draw_draft, ordinary, standing, touching
from .muscle_panel import DAMPSIM_PT_muscles
from .operators import DAMPSIM_OT_calibrate, DAMPSIM_OT_measure, DAMPSIM_OT_remove
from .plastic_panel import DAMPSIM_PT_plastic
from .weave_operators import draw_yarns

# Distance to the modelled shape, in percent of the size, below which it counts as kept.
_KEPT = 0.01


class DAMPSIM_PT_main(Sidebar, Panel):
    bl_label = "DampSim"
    bl_idname = "DAMPSIM_PT_main"

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj = chosen(context)
        if obj is None:
            draw_add(layout, context)
            return
        group = obj.dampsim
        row = layout.row()
        row.label(text=obj.name, icon="MESH_DATA")
        row.operator(DAMPSIM_OT_remove.bl_idname, text="", icon="X")
        hold.draw(layout, obj, context)
        column = layout.column()
        column.enabled = not working(context)
        if group.kind_note:
            field(column, group, "kind", "Kind", context)
            wrapped(column, group.kind_note[:1].upper() + group.kind_note[1:], "INFO", context)
        if group.kind == "WEAVE":
            draw_yarns(column, obj, context)
        if group.kind == "CLOTH":
            draw_fabrics(column, group)
        else:
            draw_presets(column, group)
        dialled = column.column(align=True)
        for parameter in meant(group, "dials"):
            if not parameter.choices:
                dial(dialled, group, parameter)
        if "shape" in sections(group):
            dials(column, group, context, "shape")
            if group.keep_shape and group.measured_sag > _KEPT and holds(obj, context.scene):
                text = f"{group.measured_sag:.2g}% of sag remains: no rest shape can fully compensate its weight"
                wrapped(column, text, "INFO", context)
        by = next((one for one in PARAMETERS["damping_by"].choices if one.name == group.damping_by), None)
        if by is not None and by.name != PARAMETERS["damping_by"].default:
            wrapped(column, f"Damping model: {by.label} (see Advanced)", "INFO", context)
        most = substeps(obj, context.scene)
        if most.limited:
            wrapped(column, f"This short Settle limits Bounce to {100 * most.overshoot:.0f}%", "INFO", context)
        _draw_group(layout, context)
        column = layout.column()
        column.enabled = not working(context)
        field(column, group, "live", "Live", context)
        draw_draft(column, obj, context)
        text, wrong = standing(obj, context)
        wrapped(layout, text, "ERROR" if wrong else "NONE", context, instead=ordinary(context.scene))
        for line in touching(obj, context):
            wrapped(layout, line, "INFO", context)
        if kind(group.kind).switched:
            wrapped(layout, group.walk_said, "VIEWZOOM", context)


def _draw_group(layout: UILayout, context: Context) -> None:
    obj = chosen(context)
    others = [member for member in group_of(obj).members if member != obj]
    column = layout.column(align=True)
    if others:
        wrapped(column, f"Simulated with {named(others)}", "LINKED", context)
        row = column.row(align=True)
        row.operator(DAMPSIM_OT_select_group.bl_idname, text="Select", icon="RESTRICT_SELECT_OFF")
        row.operator(DAMPSIM_OT_alone.bl_idname, text="Separate", icon="UNLINKED")
    if apart(selected(context)):
        column.operator(DAMPSIM_OT_together.bl_idname, icon="LINKED")


class DAMPSIM_PT_material(Child, Panel):
    bl_label = "Kind and Stiffness"
    bl_idname = "DAMPSIM_PT_material"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        group = obj.dampsim
        column = layout.column()
        column.enabled = not working(context)
        field(column, group, "kind", "Kind", context)
        note = group.kind_note
        wrapped(column, note[:1].upper() + note[1:], "INFO", context)
        field(column, group, "stiffness_by", "Stiffness By", context)
        text = DAMPSIM_OT_measure.bl_label
        if group.measured_young > 0.0 and holds(obj, context.scene):
            text = f"Sags {group.measured_sag:.3g}% at {pressure(group.measured_young)}"
        column.operator(DAMPSIM_OT_measure.bl_idname, text=text, icon="DRIVER_DISTANCE")
        for section in sections(group):
            if section not in ("shape", "solid papers", "plastic", "fibres"):
                dials(column, group, context, section)
        sewn = seam_groups(obj) if group.kind == "CLOTH" else []
        if sewn:
            wrapped(column, f"Sewn along {', '.join(sewn)}", "INFO", context)


def pressure(kilo: float) -> str:
    """Return a stiffness as text, without an exponent. kilo: kPa."""
    return f"{kilo:.4g} kPa" if kilo < 1e4 else f"{kilo:.0f} kPa"


class DAMPSIM_PT_curve(Child, Panel):
    bl_label = "Settle Curve"
    bl_idname = "DAMPSIM_PT_curve"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        shown = results.curve_of(obj)
        if shown is None:
            wrapped(layout, "To see how it settles, press Calibrate, or play a shot that ends at rest", "INFO", context)
        else:
            column = layout.column(align=True)
            number = results.icon(shown, results.is_dark(context.preferences.themes[0]))
            # Fill the width of the panel.
            width = context.region.width / context.preferences.system.ui_scale / UNIT_X
            column.template_icon(number, scale=max(width - 2.5, 4.0))
            row = column.row()
            row.label(text="Measured", icon="STRIP_COLOR_02")
            row.label(text="Target", icon="STRIP_COLOR_05")
            column.label(text="Target rest frame", icon="STRIP_COLOR_01")
            wrapped(column, shown.curve.text, "NONE", context)
            wrapped(column, f"Source: {shown.source}", "NONE", context)
        column = layout.column()
        column.enabled = not working(context)
        field(column, obj.dampsim, "swing", "Swing", context)
        layout.operator(DAMPSIM_OT_calibrate.bl_idname, icon="FCURVE")


class DAMPSIM_PT_compare(Child, Panel):
    bl_label = "Compare"
    bl_idname = "DAMPSIM_PT_compare"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        layout.enabled = not working(context)
        for number, variant in enumerate(obj.dampsim.variants):
            box = layout.box()
            row = box.row(align=True)
            row.label(text=NAMES[number])
            row.operator(DAMPSIM_OT_ghost_pick.bl_idname, icon="CHECKMARK").number = number
            row.operator(DAMPSIM_OT_ghost_remove.bl_idname, text="", icon="X").number = number
            grid = box.grid_flow(columns=2, align=True, row_major=True)
            for name in (
                "settle",
                "bounce",
                "follow_through",
                "sag" if variant.stiffness_by == StiffnessBy.SAG else "stiffness",
            ):
                grid.prop(variant, name)
        row = layout.row(align=True)
        row.operator(DAMPSIM_OT_ghost_add.bl_idname, icon="ADD")
        row.operator(DAMPSIM_OT_compare.bl_idname, icon="GHOST_ENABLED")
        shown = results.ghosts_of(obj)
        if shown is not None and shown.stale:
            layout.label(text="The ghosts are out of date. Compare again", icon="TIME")


class DAMPSIM_PT_show(Child, Panel):
    bl_label = "Show in Viewport"
    bl_idname = "DAMPSIM_PT_show"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        column, obj = self.layout.column(), chosen(context)
        for name in ("show_rest", "show_cage", "show_pins", "show_worst", "show_contacts", "show_flow", "show_fibres"):
            column.prop(obj.dampsim, name)
        wrapped(column, "Overlays are shown on live frames only", "INFO", context)
        if len(obj.dampsim.links):
            column.prop(obj.dampsim, "show_links")


class DAMPSIM_PT_shot(Child, Panel):
    bl_label = "Start and Loop"
    bl_idname = "DAMPSIM_PT_shot"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        obj = chosen(context)
        column = self.layout.column()
        column.enabled = not working(context)
        dials(column, obj.dampsim, context, "shot")
        session = live.find(obj)
        error = 100.0 * session.loop_error if session and session.loop_error else obj.dampsim.loop_error
        if obj.dampsim.loop and error >= 0.0:
            wrapped(self.layout, f"The loop closes within {error:.2g}% of the object's size", "FILE_REFRESH", context)


CLASSES = (
    DAMPSIM_PT_main,
    DAMPSIM_PT_bake,
    DAMPSIM_PT_material,
    DAMPSIM_PT_plastic,
    DAMPSIM_PT_fibres,
    DAMPSIM_PT_muscles,
    DAMPSIM_PT_contact,
    DAMPSIM_PT_collider,
    DAMPSIM_PT_links,
    DAMPSIM_PT_curve,
    DAMPSIM_PT_compare,
    DAMPSIM_PT_show,
    DAMPSIM_PT_shot,
    DAMPSIM_PT_fields,
    DAMPSIM_PT_advanced,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
