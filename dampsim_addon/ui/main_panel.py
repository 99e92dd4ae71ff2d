"""The sidebar tab."""

from __future__ import annotations

from dataclasses import replace

import bpy
from bpy.types import Context, Panel, UILayout

from ...core.damping.rate import remembered, removed
from ...core.scene.parameters import PARAMETERS, DampingBy, Reference, StiffnessBy
from ...core.simulation.choice import has_reference, is_own, remarks, torques
from ...core.simulation.dials import dialled_law
from .. import live
from ..blender.animation import animated_paths
from ..blender.sampler import frame_rate
from ..compare.ghosts import NAMES
from ..scene import results
from ..scene.groups import group_of, named
from ..scene.measured import holds, substeps
from ..scene.objects import chosen, selected, working
from ..scene.presets import draw_presets
from ..scene.properties import read_settings
from ..scene.snapshot import deforming
from . import earlier_law_operators
from .bake_panel import DAMPSIM_PT_bake
from .doctor import is_linked
from .ghost_operators import (
    DAMPSIM_OT_compare,
    DAMPSIM_OT_ghost_add,
    DAMPSIM_OT_ghost_pick,
    DAMPSIM_OT_ghost_remove,
)
from .group_operators import DAMPSIM_OT_alone, DAMPSIM_OT_select_group, DAMPSIM_OT_together, apart
from .layout import UNIT_X, Child, Sidebar, dials, sections, split, wrapped
from .link_panel import DAMPSIM_PT_links
from .live_line import standing
from .operators import DAMPSIM_OT_add, DAMPSIM_OT_calibrate, DAMPSIM_OT_measure, DAMPSIM_OT_remove
from .pin_operator import DAMPSIM_OT_pin


class DAMPSIM_PT_main(Sidebar, Panel):
    bl_label = "DampSim"
    bl_idname = "DAMPSIM_PT_main"

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj = chosen(context)
        if obj is None:
            layout.operator(DAMPSIM_OT_add.bl_idname, icon="ADD")
            if context.object is None or context.object.type != "MESH":
                layout.label(text="Select a mesh", icon="INFO")
            return
        row = layout.row()
        row.label(text=obj.name, icon="MESH_DATA")
        row.operator(DAMPSIM_OT_remove.bl_idname, text="", icon="X")
        column = split(layout.column(), context)
        column.prop(obj.dampsim, "kind")
        wrapped(column, obj.dampsim.kind_note.capitalize(), "INFO", context)
        if "springs" in sections(obj.dampsim):
            dials(column, obj.dampsim, "springs")
        draw_presets(column)
        dials(column, obj.dampsim, "dials")
        earlier_law_operators.draw(column, context)
        by = next((one for one in PARAMETERS["damping_by"].choices if one.name == obj.dampsim.damping_by), None)
        if by is not None and by.name != PARAMETERS["damping_by"].default:
            column.label(text=f"Damped by {by.label}, see Advanced", icon="INFO")
        text = DAMPSIM_OT_measure.bl_label
        if obj.dampsim.measured_young > 0.0 and holds(obj, context.scene):
            text = f"Hangs {obj.dampsim.measured_sag:.3g}% at {pressure(obj.dampsim.measured_young)}"
        column.operator(DAMPSIM_OT_measure.bl_idname, text=text, icon="DRIVER_DISTANCE")
        most = substeps(obj, context.scene)
        if most.limited:
            column.label(text=f"So short a settle carries {100 * most.overshoot:.0f}% bounce", icon="INFO")
        row = column.row(align=True)
        row.prop_search(obj.dampsim, "pin_group", obj, "vertex_groups", text="Pins")
        row.operator(DAMPSIM_OT_pin.bl_idname, text="", icon="ADD")
        _draw_group(layout, context)
        column = split(layout.column(), context)
        column.prop(obj.dampsim, "live")
        text, wrong = standing(obj, context.scene)
        wrapped(layout, text, "ERROR" if wrong else "NONE", context)


def pressure(kilo: float) -> str:
    """In kPa, as the dial has it: not as 1e+06."""
    return f"{kilo:.4g} kPa" if kilo < 1e4 else f"{kilo:.0f} kPa"


def _draw_group(layout: UILayout, context: Context) -> None:
    obj = chosen(context)
    others = [member for member in group_of(obj).members if member != obj]
    column = layout.column(align=True)
    if others:
        wrapped(column, f"Simulated with {named(others)}", "LINKED", context)
        row = column.row(align=True)
        row.operator(DAMPSIM_OT_select_group.bl_idname, icon="RESTRICT_SELECT_OFF")
        row.operator(DAMPSIM_OT_alone.bl_idname, icon="UNLINKED")
    if apart(selected(context)):
        column.operator(DAMPSIM_OT_together.bl_idname, icon="LINKED")


class DAMPSIM_PT_curve(Child, Panel):
    bl_label = "Settle Curve"
    bl_idname = "DAMPSIM_PT_curve"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        shown = results.curve_of(obj)
        if shown is None:
            wrapped(layout, "Calibrate, or play or bake a shot that ends still, to see how it settles", "INFO", context)
        else:
            column = layout.column(align=True)
            number = results.icon(shown, results.is_dark(context.preferences.themes[0]))
            # As wide as the panel.
            width = context.region.width / context.preferences.system.ui_scale / UNIT_X
            column.template_icon(number, scale=max(width - 2.5, 4.0))
            row = column.row()
            row.label(text="Measured", icon="STRIP_COLOR_02")
            row.label(text="Dialled", icon="STRIP_COLOR_05")
            column.label(text="Where it is to be at rest", icon="STRIP_COLOR_01")
            wrapped(column, shown.curve.text, "NONE", context)
            wrapped(column, f"From the {shown.source}", "NONE", context)
        column = split(layout.column(), context)
        column.prop(obj.dampsim, "swing")
        if read_settings(obj).by_settle:
            column.prop(obj.dampsim, "calibration")
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
            layout.label(text="The ghosts are out of date", icon="TIME")


class DAMPSIM_PT_show(Child, Panel):
    bl_label = "Show in Viewport"
    bl_idname = "DAMPSIM_PT_show"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        column, obj = self.layout.column(), chosen(context)
        for name in ("show_rest", "show_cage", "show_pins", "show_worst"):
            column.prop(obj.dampsim, name)
        wrapped(column, "Of what is simulated live", "INFO", context)
        if len(obj.dampsim.links):
            column.prop(obj.dampsim, "show_links")


class DAMPSIM_PT_shot(Child, Panel):
    bl_label = "Start and Loop"
    bl_idname = "DAMPSIM_PT_shot"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        obj = chosen(context)
        dials(split(self.layout.column(), context), obj.dampsim, "shot")
        session = live.find(obj)
        error = 100.0 * session.loop_error if session and session.loop_error else obj.dampsim.loop_error
        if obj.dampsim.loop and error >= 0.0:
            self.layout.label(text=f"The loop closes within {error:.2g}% of the size", icon="FILE_REFRESH")


class DAMPSIM_PT_advanced(Child, Panel):
    bl_label = "Advanced"
    bl_idname = "DAMPSIM_PT_advanced"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        obj = chosen(context)
        column = split(self.layout.column(), context)
        matters = has_reference_motion(obj)
        dials(column, obj.dampsim, "advanced", without="" if matters else "carrier")
        for section in sections(obj.dampsim):
            if section not in ("springs", "solid papers"):
                dials(column, obj.dampsim, section)
        if matters and obj.dampsim.carrier == Reference.AUTO:
            column.label(text=f"Reference motion now: {'the animated mesh' if deforming(obj) else 'the pins'}")
        maps = ["settle_group", "stiffness_group"]
        for name in [*maps, "length_group"] if "springs" in sections(obj.dampsim) else maps:
            column.prop_search(obj.dampsim, name, obj, "vertex_groups")
        column.prop(obj.dampsim, "cache_folder")
        column.separator()
        # Those that only solids know stand among the rest.
        dials(column, obj.dampsim, "papers", *(one for one in sections(obj.dampsim) if one == "solid papers"))
        settings = read_settings(obj)
        if "RAYS" in torques(settings) or obj.dampsim.centre_group not in ("", *obj.vertex_groups.keys()):
            column.prop_search(obj.dampsim, "centre_group", obj, "vertex_groups")
            if not obj.dampsim.centre_group:
                wrapped(column, "Without a Centre Group the rays come from the centre of mass", "INFO", context)
        for remark in remarks(settings):
            wrapped(column, remark, "INFO", context)
        if is_own(settings):
            wrapped(column, in_force(obj, context.scene), "NONE", context)


def has_reference_motion(obj: bpy.types.Object) -> bool:
    """Whether it matters what the object goes along with: not where nothing holds it, nor to most of the dampings."""
    if not obj.dampsim.pin_group and not is_linked(obj):
        return False
    settings = read_settings(obj)
    # Where it is keyframed, another frame may have another one than 1.
    keyed = replace(settings, follow_through=0.0)
    return has_reference(settings) or (has_reference(keyed) and "dampsim.follow_through" in animated_paths(obj))


def in_force(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """tau, kappa and gamma as the dials have them for the slowest region, for one substep."""
    settings, needed = read_settings(obj), substeps(obj, scene)
    h = 1.0 / (frame_rate(scene) * needed.count)
    if not settings.by_settle:
        kappa = settings.kappa if settings.damping_by == DampingBy.TAU_KAPPA else remembered(settings.gamma, h)
        tau = settings.tau
    elif obj.dampsim.measured_eigenvalue > 0.0 and holds(obj, scene):
        law = dialled_law(
            settings,
            needed.overshoot,
            1.0 / frame_rate(scene),
            obj.dampsim.measured_eigenvalue,
            obj.dampsim.measured_net,
        )
        found = law.coefficients(h)
        tau, kappa = float(found.s), float(found.kappa)
        if found.waveform:
            return (
                f"In force: τ {tau:.3g} s, κ {kappa:.3g}, θ {float(found.theta):.3g}, σ {float(found.sigma):.3g}, "
                f"{needed.count} substeps"
            )
    else:
        return "τ, κ and γ are known after a simulation with these dials and this mesh"
    return f"In force: τ {tau:.3g} s, κ {kappa:.3g}, γ {removed(kappa, h):.3g}, {needed.count} substeps"


CLASSES = (
    DAMPSIM_PT_main,
    DAMPSIM_PT_bake,
    DAMPSIM_PT_links,
    DAMPSIM_PT_curve,
    DAMPSIM_PT_compare,
    DAMPSIM_PT_show,
    DAMPSIM_PT_shot,
    DAMPSIM_PT_advanced,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
