"""Panels of the sidebar tab."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.types import Context, Panel, UILayout

from ....core import PARAMETERS, kind_by_name
from ....core.base.wording import format_number, format_small
from ... import live
from ...blender.animation import animated_paths
from ...blender.yarns import is_orphaned_yarn, yarn_source
from ...model.force_fields import fields_acting_on, wind_texts
from ...model.groups import format_names, group_of
from ...model.objects import active_simulated, chosen_simulated, selected_simulated
from ...model.presets import draw_presets
from ...model.properties import effective_value, read_settings
from ...scene_reader.scene_builder import seam_groups
from ...status import results
from ...status.measurements import is_measurement_current, required_substeps
from ...targets.influence import influence_values
from ...targets.landing import stored_weights, weights_at
from ...translations import translate
from ..add.add_operators import (
    CONVERTIBLE_TYPES,
    DAMPSIM_OT_add,
    DAMPSIM_OT_convert_add,
    DAMPSIM_OT_curve_rope,
    DAMPSIM_OT_hair,
    DAMPSIM_OT_local_add,
    DAMPSIM_OT_open_sample,
    can_add,
    draw_fabrics,
    has_guides,
    rope_of_curve,
)
from ..common.layout import (
    UNIT_X,
    ChildPanel,
    SidebarPanel,
    active_parameters,
    draw_parameters,
    draw_property,
    draw_slider,
    draw_wrapped,
    enabled_column,
    parameter_sections,
)
from ..objects.group_operators import (
    DAMPSIM_OT_alone,
    DAMPSIM_OT_select_group,
    DAMPSIM_OT_together,
    in_different_groups,
)
from ..objects.operators import (
    DAMPSIM_OT_calibrate,
    DAMPSIM_OT_clear,
    DAMPSIM_OT_measure,
    DAMPSIM_OT_remove,
    joined_into,
)
from ..objects.panel import draw_setup_copy
from ..pins import panel as pin_panel
from ..yarns.operators import (
    DAMPSIM_OT_drop_yarns,
    DAMPSIM_OT_select_woven,
    DAMPSIM_OT_weave,
    draw_yarn_status,
    simulated_source,
)
from .live_status import contact_texts, draw_draft, live_status_text, reserved_texts


class DAMPSIM_PT_fields(ChildPanel, Panel):
    bl_label = "Gravity and Force Fields"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        column = enabled_column(layout, context)
        for parameter in active_parameters(obj.dampsim, "fields"):
            draw_slider(column, obj.dampsim, parameter)
        draw_property(column, obj.dampsim, "field_collection", "Effector Collection", context)
        others = [other for other in fields_acting_on(obj, context.view_layer) if not other.hide_viewport]
        text = f"Affected by {format_names(others)}" if others else "No force field of the scene affects it"
        draw_wrapped(layout, text, "FORCE_FORCE" if others else "NONE", context)
        for text in wind_texts(obj, others):
            draw_wrapped(layout, text, "FORCE_WIND", context)


def draw_add(layout: UILayout, context: Context) -> None:
    """Draw the first steps for the selected objects."""
    obj = context.object
    if obj is not None and obj.dampsim.carries_setup:
        draw_wrapped(layout, f"{obj.name} carries a setup. Select meshes too, then copy it to them", "INFO", context)
        draw_setup_copy(layout, context)
    if obj is not None and obj.type == "ARMATURE" and context.mode == "POSE":
        pin_panel.draw_rig_pins(layout, context)
        return
    joined = joined_into(context)
    if joined:
        text = f"{format_names(joined)}: shape keys of a baked object that was joined into it no longer play"
        draw_wrapped(layout, text, "ERROR", context)
        layout.operator(DAMPSIM_OT_clear.bl_idname, text="Remove Keys of Bake", icon="TRASH")
    any_addable = any(map(can_add, context.selected_objects))
    woven_source = yarn_source(obj) if obj is not None else None
    if obj is not None and is_orphaned_yarn(obj, context.scene):
        draw_wrapped(layout, f"{obj.name} shows the yarns of a deleted object and no longer moves", "INFO", context)
        layout.operator(DAMPSIM_OT_drop_yarns.bl_idname, icon="TRASH")
        return
    if woven_source is not None:
        text = f"{obj.name} shows the yarns of {woven_source.name}, which is the simulated mesh"
        draw_wrapped(layout, text, "INFO", context)
        _draw_select_source(layout, woven_source)
        return
    if obj is not None and obj.library is not None:
        draw_wrapped(layout, f"{obj.name} is linked from another file. Make it local to simulate it", "INFO", context)
        layout.operator(DAMPSIM_OT_local_add.bl_idname, icon="LIBRARY_DATA_INDIRECT")
    elif obj is not None and obj.type in CONVERTIBLE_TYPES:
        _draw_non_mesh(layout, obj, context)
        simulated = simulated_source(obj)
        if simulated is not None:
            _draw_select_source(layout, simulated)
            return
        layout.operator(DAMPSIM_OT_convert_add.bl_idname, icon="OUTLINER_OB_MESH")
    elif not any_addable:
        draw_wrapped(layout, "Select a mesh, then press Add", "INFO", context)
    if any_addable or obj is None or (obj.type == "MESH" and obj.library is None):
        row = layout.row()
        row.scale_y = 1.4
        row.operator(DAMPSIM_OT_add.bl_idname, icon="ADD")
        layout.operator(DAMPSIM_OT_weave.bl_idname, icon="MESH_GRID")
    layout.operator_menu_enum(DAMPSIM_OT_open_sample.bl_idname, "sample", icon="FILE_BLEND")


def _draw_select_source(layout: UILayout, source: bpy.types.Object) -> None:
    text = translate(f"Select {source.name}")
    layout.operator(DAMPSIM_OT_select_woven.bl_idname, text=text, icon="RESTRICT_SELECT_OFF")


def _draw_non_mesh(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the options for a curve, hair or another object that is not a mesh."""
    rope = rope_of_curve(obj) if obj.type == "CURVE" else None
    if rope is not None:
        draw_wrapped(layout, f"{obj.name} follows the bake of {rope.name}", "INFO", context)
    elif obj.type == "CURVE":
        draw_wrapped(layout, f"{obj.name} can follow a rope simulated along its centre line", "INFO", context)
        layout.operator(DAMPSIM_OT_curve_rope.bl_idname, icon="OUTLINER_OB_CURVE")
    elif obj.type == "CURVES" and has_guides(obj):
        draw_wrapped(layout, f"{obj.name} follows its simulated guides", "INFO", context)
    elif obj.type == "CURVES":
        text = f"{obj.name} can be simulated: a few strands become ropes, and the others follow"
        draw_wrapped(layout, text, "INFO", context)
        layout.operator(DAMPSIM_OT_hair.bl_idname, icon="OUTLINER_OB_CURVES")
    else:
        draw_wrapped(layout, f"{obj.name} is not a mesh. Only meshes can be simulated", "INFO", context)


# Distance to the modelled shape, in percent of the size, below which it counts as kept.
_MIN_SHOWN_SAG = 0.01
# Dials of the stiffness, which rigid bodies do not have.
STIFFNESS_DIALS = ("stiffness", "sag")


class DAMPSIM_PT_main(SidebarPanel, Panel):
    bl_label = "DampSim"

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj = active_simulated(context)
        if obj is None:
            draw_add(layout, context)
            return
        group = obj.dampsim
        row = layout.row()
        row.label(text=obj.name, icon="MESH_DATA", translate=False)
        row.operator(DAMPSIM_OT_remove.bl_idname, text="", icon="X")
        chosen = chosen_simulated(context)
        if len(chosen) > 1:
            draw_wrapped(layout, f"{len(chosen)} objects selected: buttons apply to all of them", "INFO", context)
            layout.prop(context.window_manager, "dampsim_all_selected", toggle=True, icon="MODIFIER")
        pin_panel.draw_pins(layout, obj, context)
        column = enabled_column(layout, context)
        if group.kind_note:
            draw_property(column, group, "kind", "Kind", context)
            draw_wrapped(column, group.kind_note[:1].upper() + group.kind_note[1:], "INFO", context)
        if group.kind == "WEAVE":
            draw_yarn_status(column, obj, context)
        if group.kind == "CLOTH":
            draw_fabrics(column, group)
        elif kind_by_name(group.kind).has_stiffness:
            draw_presets(column, group)
        sliders = column.column(align=True)
        for parameter in active_parameters(group, "dials"):
            if not parameter.choices and (
                parameter.name not in STIFFNESS_DIALS or kind_by_name(group.kind).has_stiffness
            ):
                draw_slider(sliders, group, parameter)
        if "shape" in parameter_sections(group):
            draw_parameters(column, group, context, "shape")
            if group.keep_shape and group.measured_sag > _MIN_SHOWN_SAG and is_measurement_current(obj, context.scene):
                text = (
                    f"{format_small(group.measured_sag)}% of sag remains: no rest shape can fully compensate its weight"
                )
                draw_wrapped(column, text, "INFO", context)
        damping = effective_value(group, "damping_by")
        damping_choice = next((one for one in PARAMETERS["damping_by"].choices if one.name == damping), None)
        if damping_choice is not None and damping_choice.name != PARAMETERS["damping_by"].default:
            draw_wrapped(column, f"Damping model: {damping_choice.label} (see Advanced)", "INFO", context)
        substep_choice = required_substeps(obj, context.scene)
        # A natural Bounce may be larger than the dialled one, which then has no effect.
        if substep_choice.is_limited and substep_choice.overshoot < read_settings(obj).overshoot:
            text = f"This short Settle limits Bounce to {100 * substep_choice.overshoot:.0f}%"
            draw_wrapped(column, text, "INFO", context)
        _draw_group(layout, context)
        column = enabled_column(layout, context)
        draw_property(column, group, "live", "Live", context)
        draw_draft(column, obj, context)
        text, is_problem = live_status_text(obj, context)
        icon = "ERROR" if is_problem else "NONE"
        draw_wrapped(layout, text, icon, context, alternatives=reserved_texts(context.scene))
        for line in contact_texts(obj, context):
            draw_wrapped(layout, line, "INFO", context)
        if kind_by_name(group.kind).supports_muscles:
            draw_wrapped(layout, group.walk_said, "VIEWZOOM", context)


def _draw_group(layout: UILayout, context: Context) -> None:
    obj = active_simulated(context)
    others = [member for member in group_of(obj).members if member != obj]
    column = layout.column(align=True)
    if others:
        draw_wrapped(column, f"Simulated with {format_names(others)}", "LINKED", context)
        row = column.row(align=True)
        row.operator(DAMPSIM_OT_select_group.bl_idname, text="Select", icon="RESTRICT_SELECT_OFF")
        row.operator(DAMPSIM_OT_alone.bl_idname, text="Separate", icon="UNLINKED")
    if in_different_groups(selected_simulated(context)):
        column.operator(DAMPSIM_OT_together.bl_idname, icon="LINKED")


class DAMPSIM_PT_material(ChildPanel, Panel):
    bl_label = "Kind and Stiffness"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group = obj.dampsim
        column = enabled_column(layout, context)
        draw_property(column, group, "kind", "Kind", context)
        note = group.kind_note
        draw_wrapped(column, note[:1].upper() + note[1:], "INFO", context)
        if kind_by_name(group.kind).has_stiffness:
            draw_property(column, group, "stiffness_by", "Stiffness By", context)
            text = DAMPSIM_OT_measure.bl_label
            if group.measured_young > 0.0 and is_measurement_current(obj, context.scene):
                text = f"Sags {format_small(group.measured_sag, 3)}% at {pressure_text(group.measured_young)}"
            column.operator(DAMPSIM_OT_measure.bl_idname, text=translate(text), icon="DRIVER_DISTANCE")
        for section in parameter_sections(group):
            if section not in ("shape", "plastic", "fibres") and not section.endswith(" papers"):
                draw_parameters(column, group, context, section)
        if group.kind == "CLOTH":
            draw_property(column, group, "sew_loose_edges", "Sew Loose Edges", context)
        seams = seam_groups(obj) if group.kind == "CLOTH" else []
        if seams:
            draw_wrapped(column, f"Sewn along {', '.join(seams)}", "INFO", context)


def pressure_text(kilo: float) -> str:
    """Return a stiffness as text, without an exponent. kilo: kPa."""
    return f"{format_number(kilo, 4)} kPa"


def _influence_of_curve(obj: bpy.types.Object, displayed: results.DisplayedCurve) -> tuple[float, ...]:
    """Return the keyed influence of the bake and its blends at the frames of its curve; () if there are none."""
    if displayed.start is None:
        return ()
    frames = [displayed.start + float(frame) for frame in displayed.curve.frames]
    keyed, points = influence_values(obj, frames), stored_weights(obj)
    return tuple((np.array(keyed or 1.0) * weights_at(points, frames)).tolist()) if points else keyed


class DAMPSIM_PT_curve(ChildPanel, Panel):
    bl_label = "Settle Curve"
    bl_options = set[str]()

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        results_curve = results.displayed_curve(obj)
        if results_curve is None:
            text = "To see how it settles, press Calibrate, or play a shot that ends at rest"
            draw_wrapped(layout, text, "INFO", context)
        else:
            column = layout.column(align=True)
            influence = _influence_of_curve(obj, results_curve)
            is_dark = results.is_dark_theme(context.preferences.themes[0])
            number = results.curve_icon(results_curve, is_dark, influence)
            # Fill the width of the panel.
            width = context.region.width / context.preferences.system.ui_scale / UNIT_X
            column.template_icon(number, scale=max(width - 2.5, 4.0))
            row = column.row()
            row.label(text="Measured", icon="STRIP_COLOR_02")
            row.label(text="Target", icon="STRIP_COLOR_05")
            column.label(text="Target rest frame", icon="STRIP_COLOR_01")
            if influence:
                column.label(text="Influence", icon="STRIP_COLOR_04")
            draw_wrapped(column, results_curve.curve.summary, "NONE", context)
            draw_wrapped(column, f"Source: {results_curve.source}", "NONE", context)
        column = enabled_column(layout, context)
        draw_property(column, obj.dampsim, "swing", "Swing", context)
        layout.operator(DAMPSIM_OT_calibrate.bl_idname, icon="FCURVE")


class DAMPSIM_PT_shot(ChildPanel, Panel):
    bl_label = "Start and Loop"

    def draw(self, context: Context) -> None:
        obj = active_simulated(context)
        column = enabled_column(self.layout, context)
        draw_parameters(column, obj.dampsim, context, "shot")
        if not obj.dampsim.pin_group or obj.dampsim.hold != 1.0 or "dampsim.hold" in animated_paths(obj):
            draw_parameters(column, obj.dampsim, context, "throw")
        session = live.find_session(obj)
        error = 100.0 * session.loop_error if session and session.loop_error else obj.dampsim.loop_error
        if obj.dampsim.loop and error >= 0.0:
            text = f"The loop closes within {format_small(error)}% of the object's size"
            draw_wrapped(self.layout, text, "FILE_REFRESH", context)
