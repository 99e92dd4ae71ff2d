"""Advanced panel: substeps, painted dials, and the damping models of the literature."""

from __future__ import annotations

from dataclasses import replace

import bpy
from bpy.types import Context, Panel

from ...core.damping.rate import remembered, removed
from ...core.scene.parameters import DampingBy, Reference
from ...core.simulation.choice import has_reference, is_own, remarks, torques
from ...core.simulation.dials import dialled_law
from ..blender.animation import animated_paths
from ..blender.sampler import frame_rate
from ..scene.measured import holds, substeps
from ..scene.objects import chosen, working
from ..scene.properties import read_settings
from ..scene.snapshot import deforming
from .doctor import is_linked
from .layout import Child, dials, field, sections, wrapped


class DAMPSIM_PT_advanced(Child, Panel):
    bl_label = "Advanced"
    bl_idname = "DAMPSIM_PT_advanced"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        obj = chosen(context)
        group, column = obj.dampsim, self.layout.column()
        column.enabled = not working(context)
        matters = has_reference_motion(obj)
        dials(column, group, context, "advanced", without="" if matters else "carrier")
        if matters and group.carrier == Reference.AUTO:
            wrapped(column, f"Reference motion: {'the animated mesh' if deforming(obj) else 'the pins'}", "INFO",
                    context)  # fmt: skip
        maps = ["settle_group", "stiffness_group"]
        for name in [*maps, "length_group"] if "springs" in sections(group) else maps:
            field(column, group, name, group.bl_rna.properties[name].name, context, search=(obj, "vertex_groups"))
        field(column, group, "cache_folder", "Cache", context)
        column.separator()
        # Parameters that only solids have are drawn along with the others.
        dials(column, group, context, "papers", *(one for one in sections(group) if one == "solid papers"))
        settings = read_settings(obj)
        if "RAYS" in torques(settings) or group.centre_group not in ("", *obj.vertex_groups.keys()):
            field(column, group, "centre_group", "Centre Group", context, search=(obj, "vertex_groups"))
            if not group.centre_group:
                wrapped(column, "Without a Centre Group, the rays start at the centre of mass", "INFO", context)
        for remark in remarks(settings):
            wrapped(column, remark, "INFO", context)
        if is_own(settings):
            wrapped(column, in_force(obj, context.scene), "NONE", context)


def has_reference_motion(obj: bpy.types.Object) -> bool:
    """Return whether the reference motion has an effect: not on unpinned objects, nor with most damping models."""
    if not obj.dampsim.pin_group and not is_linked(obj):
        return False
    settings = read_settings(obj)
    # Where Follow-through is keyframed, its value may differ from 1 at another frame.
    keyed = replace(settings, follow_through=0.0)
    return has_reference(settings) or (has_reference(keyed) and "dampsim.follow_through" in animated_paths(obj))


def in_force(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Return the damping coefficients of the slowest region for one substep (τ in s), as text."""
    settings, needed = read_settings(obj), substeps(obj, scene)
    count = f"{needed.count} substep{'' if needed.count == 1 else 's'}"
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
                f"In use: inertia time τ {tau:.3g} s, velocity kept κ {kappa:.3g}, "
                f"implicit force θ {float(found.theta):.3g}, force memory σ {float(found.sigma):.3g}, {count}"
            )
    else:
        return "The damping coefficients τ, κ and γ are known after a simulation with these settings"
    return (
        f"In use: inertia time τ {tau:.3g} s, velocity kept κ {kappa:.3g}, removed γ {removed(kappa, h):.3g}, {count}"
    )
