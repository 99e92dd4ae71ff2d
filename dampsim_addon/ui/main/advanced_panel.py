"""Advanced panel: substeps, painted dials, and the damping models of the literature."""

from __future__ import annotations

from dataclasses import replace

import bpy
from bpy.types import Context, Panel

from ....core import DampingBy, ReferenceChoice, kind_by_name
from ....core.base.wording import format_count, format_number
from ....core.literature.damping.damping import removed_fraction, retained_fraction
from ....core.simulation.dials import law_for_settings
from ....core.simulation.method_selection import (
    has_reference_effect,
    method_warnings,
    uses_dampsim_stepper,
)
from ...blender.animation import animated_paths
from ...blender.sampler import frame_rate
from ...model.links import is_linked
from ...model.objects import active_simulated
from ...model.properties import read_settings
from ...scene_reader.muscles import has_edge_springs
from ...scene_reader.scene_builder import has_group_effect, is_deformed
from ...status.measurements import is_measurement_current, required_substeps
from ..common.layout import ChildPanel, draw_parameters, draw_property, draw_wrapped, enabled_column, parameter_sections


class DAMPSIM_PT_advanced(ChildPanel, Panel):
    bl_label = "Advanced"

    def draw(self, context: Context) -> None:
        obj = active_simulated(context)
        group, column = obj.dampsim, enabled_column(self.layout, context)
        reference_matters = uses_reference_motion(obj)
        draw_parameters(column, group, context, "advanced", excluded="" if reference_matters else "carrier")
        if reference_matters and group.carrier == ReferenceChoice.AUTO:
            draw_wrapped(column, f"Reference motion: {'the animated mesh' if is_deformed(obj) else 'the pins'}", "INFO",
                    context)  # fmt: skip
        map_properties = ["settle_group", "stiffness_group"]
        map_properties += ["length_group"] if "springs" in parameter_sections(group) else []
        for name in (one for one in map_properties if has_group_effect(obj, one)):
            label = group.bl_rna.properties[name].name
            draw_property(column, group, name, label, context, search=(obj, "vertex_groups"))
        if has_edge_springs(obj):
            search = (obj.data, "attributes")
            draw_property(column, group, "damper_attribute", "Damper Attribute", context, search=search)
        draw_property(column, group, "cache_folder", "Cache", context)
        column.separator()
        # Parameters that only some kinds have are drawn along with the others.
        if kind_by_name(group.kind).has_damping_models:
            own = (one for one in parameter_sections(group) if one.endswith(" papers"))
            draw_parameters(column, group, context, "papers", *own)
        settings = read_settings(obj)
        if has_group_effect(obj, "damping_group"):
            draw_property(column, group, "damping_group", "Damping Group", context, search=(obj, "vertex_groups"))
        if has_group_effect(obj, "centre_group"):
            draw_property(column, group, "centre_group", "Centre Group", context, search=(obj, "vertex_groups"))
            if not group.centre_group:
                draw_wrapped(column, "Without a Centre Group, the rays start at the centre of mass", "INFO", context)
        for remark in method_warnings(settings):
            draw_wrapped(column, remark, "INFO", context)
        if uses_dampsim_stepper(settings):
            draw_wrapped(column, active_coefficients_text(obj, context.scene), "NONE", context)


def uses_reference_motion(obj: bpy.types.Object) -> bool:
    """Return whether the reference motion has an effect: not on unpinned objects, nor with most damping models."""
    if not obj.dampsim.pin_group and not is_linked(obj):
        return False
    settings = read_settings(obj)
    # Where Follow-through is keyframed, its value may differ from 1 at another frame.
    keyed = replace(settings, follow_through=0.0)
    return has_reference_effect(settings) or (
        has_reference_effect(keyed) and "dampsim.follow_through" in animated_paths(obj)
    )


def active_coefficients_text(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Return the damping coefficients of the slowest region for one substep (τ in s), as text."""
    settings, needed, group = read_settings(obj), required_substeps(obj, scene), obj.dampsim
    substeps = format_count(needed.count, "substep")
    frame_length = 1.0 / frame_rate(scene)
    h = 1.0 / (frame_rate(scene) * needed.count)
    if not settings.is_settle_controlled:
        kappa = settings.kappa if settings.damping_by == DampingBy.TAU_KAPPA else retained_fraction(settings.gamma, h)
        tau = settings.tau
    elif group.measured_eigenvalue > 0.0 and is_measurement_current(obj, scene):
        eigenvalue, net = group.measured_eigenvalue, group.measured_net
        law = law_for_settings(settings, needed.overshoot, frame_length, eigenvalue, net)
        coefficients = law.coefficients(h)
        tau, kappa = float(coefficients.inertia_time), float(coefficients.kappa)
        if coefficients.is_waveform:
            theta, sigma = format_number(float(coefficients.theta)), format_number(float(coefficients.sigma))
            return (
                f"In use: inertia time τ {format_number(tau)} s, velocity kept κ {format_number(kappa)}, "
                f"implicit force θ {theta}, force memory σ {sigma}, {substeps}"
            )
    else:
        return "The damping coefficients τ, κ and γ are known after a simulation with these settings"
    gamma = format_number(removed_fraction(kappa, h))
    return (
        f"In use: inertia time τ {format_number(tau)} s, velocity kept κ {format_number(kappa)}, removed γ {gamma}, "
        f"{substeps}"
    )
