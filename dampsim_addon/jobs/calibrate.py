"""Measurements of an object that need no bake: its sag, and the correction of Settle for large swings."""

from __future__ import annotations

from collections.abc import Generator

import bpy

from ...core import PinError, Simulation
from ...core.base.wording import format_number
from ...core.measure.calibrate import Calibration
from ...core.measure.calibrate import calibrate as core_calibrate
from ..model.groups import group_of
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import build_scene, check_object
from ..status.measurements import store_measurements
from ..status.results import store_curve
from ..work.steps import Step, map_steps
from .prepare import prepare_scene, prepare_simulation


def measure_sag(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> None:
    """Measure the sag of the object under its own weight. Raises PinError if it is not completely pinned."""
    check_object(obj, view_layer)
    with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
        simulation = Simulation(build_scene(sampler))
        if not simulation.is_constrained(obj.name):
            raise PinError(f"{obj.name}: not all of it is pinned, so it would fall; choose a vertex group under Pins.")
        store_measurements(obj, scene, simulation, search_sag=True)


def calibrate_settle(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object
) -> Generator[Step, None, None]:
    """Find the correction of Settle for swings of the size in obj.dampsim.swing. Cancelling changes nothing."""
    check_object(obj, view_layer)
    with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
        core_scene = yield from prepare_scene(sampler)
        simulation = yield from prepare_simulation(core_scene)
        store_measurements(obj, scene, simulation)
        test = core_calibrate(simulation, obj.name, obj.dampsim.swing / 100.0)
        result: Calibration = yield from map_steps(test, lambda progress: Step(*progress, "Releasing"))
    obj.dampsim.calibration = result.correction
    suffix = ", started like a stop that throws it as far" if result.after.since == "stop" else ""
    store_curve(obj, result.after, f"release from {format_number(obj.dampsim.swing)}%{suffix}")
