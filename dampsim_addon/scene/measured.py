"""What was measured of an object and is kept with it for the panel, and whether it still holds."""

from __future__ import annotations

import bpy

from ...core.simulation.simulation import Simulation


def note(obj: bpy.types.Object, simulation: Simulation) -> None:
    """Keep with the object what the panel says of it."""
    settings = simulation.scene.body.settings
    regions = simulation.model.system.regions
    obj.dampsim.measured_fill = simulation.model.fill
    stiffness = simulation.controls(settings).stiffness
    obj.dampsim.measured_eigenvalue = min((r.eigenvalue_at(stiffness) for r in regions), default=0.0)
    if simulation.held:
        young = simulation.young(settings)
        obj.dampsim.measured_young = young / 1000.0
        obj.dampsim.measured_sag = 100.0 * simulation.sag(young)
        obj.dampsim.measured_for = weighing(obj)


def weighing(obj: bpy.types.Object) -> str:
    """What the measured sag depends on, to tell whether it still holds."""
    group = obj.dampsim
    names = ("stiffness_by", "sag", "stiffness", "density", "poisson", "material", "resolution", "pin_group")
    return repr([getattr(group, name) for name in names])
