"""What is measured of an object without a bake: how far it hangs, and how its bends settle."""

from __future__ import annotations

from collections.abc import Generator

import bpy

from ...core.errors import PinError
from ...core.measure.calibrate import Calibration
from ...core.measure.calibrate import calibrate as core_calibrate
from ...core.simulation.simulation import Simulation
from ..blender.sampler import GroupSampler
from ..scene.groups import group_of
from ..scene.measured import note
from ..scene.results import keep_curve
from ..scene.snapshot import check_object, take
from ..work.steps import Step, paired
from .prepare import prepared


def measure(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> None:
    """Find how far the object hangs under its own weight, without a bake."""
    check_object(obj, view_layer)
    with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
        simulation = Simulation(take(sampler))
        if not simulation.is_held(obj.name):
            raise PinError(f"{obj.name}: nothing holds all of it, so it would fall; choose a pin group.")
        note(obj, scene, simulation)


def calibrate(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object
) -> Generator[Step, None, None]:
    """Find the correction of Settle for swings as large as the object's swing says. Stopped, it changes nothing."""
    check_object(obj, view_layer)
    with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
        taken = take(sampler)
        simulation = yield from prepared(taken)
        note(obj, scene, simulation)
        test = core_calibrate(simulation, obj.name, obj.dampsim.swing / 100.0)
        result: Calibration = yield from paired(test, "Releasing")
    obj.dampsim.calibration = result.correction
    meant = ", as if a stop had thrown it so far" if result.after.since == "stop" else ""
    keep_curve(obj, result.after, f"release from {obj.dampsim.swing:.3g}%{meant}")
