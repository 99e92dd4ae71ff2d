"""Measurements of an object that need no bake: its sag, and the correction of Settle for large swings."""

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
    """Measure the sag of the object under its own weight. Raises PinError if it is not completely pinned."""
    check_object(obj, view_layer)
    with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
        simulation = Simulation(take(sampler))
        if not simulation.is_held(obj.name):
            raise PinError(f"{obj.name}: not all of it is pinned, so it would fall; choose a vertex group under Pins.")
        note(obj, scene, simulation)


def calibrate(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object
) -> Generator[Step, None, None]:
    """Find the correction of Settle for swings of the size in obj.dampsim.swing. Cancelling changes nothing."""
    check_object(obj, view_layer)
    with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
        taken = take(sampler)
        simulation = yield from prepared(taken)
        note(obj, scene, simulation)
        test = core_calibrate(simulation, obj.name, obj.dampsim.swing / 100.0)
        result: Calibration = yield from paired(test, "Releasing")
    obj.dampsim.calibration = result.correction
    meant = ", started like a stop that throws it as far" if result.after.since == "stop" else ""
    keep_curve(obj, result.after, f"release from {obj.dampsim.swing:.3g}%{meant}")
