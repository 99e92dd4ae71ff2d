"""Operators that remove, clear, measure and calibrate the selected objects, without a bake."""

from __future__ import annotations

from collections.abc import Generator

import bpy
from bpy.types import Context, Operator

from ....core import KINDS, DampSimError, ParameterError, PinError, Simulation
from ....core.base.wording import format_number, format_small
from ....core.measure.calibrate import Calibration
from ....core.measure.calibrate import calibrate as core_calibrate
from ... import live
from ...blender.dampsim_names import joined_bake_keys
from ...jobs.clear import clear_bake
from ...jobs.prepare import prepare_scene, prepare_simulation
from ...model.cache_status import known_status
from ...model.groups import format_names, group_of, groups_of
from ...model.objects import active_simulated, can_start_job, chosen_simulated, is_simulated
from ...model.properties import read_settings
from ...scene_reader.isolation import isolated_sampler
from ...scene_reader.scene_builder import build_scene, check_object
from ...status.measurements import store_measurements
from ...status.results import displayed_curve, store_curve
from ...targets.keys import remove_joined_keys
from ...work.steps import Step, paired_steps
from ..common.operators import ActiveObjectJob, ChosenObjectsOperator, is_met, report_problems
from .group_operators import simulate_separately


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
        result: Calibration = yield from paired_steps(test, "Releasing")
    obj.dampsim.calibration = result.correction
    suffix = ", started like a stop that throws it as far" if result.after.since == "stop" else ""
    store_curve(obj, result.after, f"release from {format_number(obj.dampsim.swing)}%{suffix}")


class DAMPSIM_OT_remove(ChosenObjectsOperator, Operator):
    """Stop simulating the selected objects with DampSim, and clear their bakes"""

    bl_label = "Remove"

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        clear_bake(obj)
        live.drop_session(obj)
        simulate_separately(obj)
        obj.dampsim.enabled = False


class DAMPSIM_OT_clear(ChosenObjectsOperator, Operator):
    """Remove the bakes and cached frames of the selected objects, and of all objects that are simulated with them, and
    restore the objects. Also remove shape keys of baked objects that were joined into them"""

    bl_label = "Clear"

    @classmethod
    def poll(cls, context: Context) -> bool:
        if joined_into(context):
            return can_start_job(cls, context)
        if not super().poll(context):
            return False
        return is_met(cls, any(map(_can_clear, chosen_simulated(context))), "There is no bake to clear")

    def objects(self, context: Context) -> list[bpy.types.Object]:
        members = [member for group in groups_of(chosen_simulated(context)) for member in group.members]
        return list(dict.fromkeys([*members, *joined_into(context)]))

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        if is_simulated(obj):
            clear_bake(obj)
        else:
            remove_joined_keys(obj)


def joined_into(context: Context) -> list[bpy.types.Object]:
    """Return the active and selected meshes with shape keys of baked objects that were joined into them."""
    chosen = dict.fromkeys(one for one in (context.object, *context.selected_objects) if one is not None)
    return [obj for obj in chosen if obj.type == "MESH" and joined_bake_keys(obj.data.shape_keys)]


def _can_clear(obj: bpy.types.Object) -> bool:
    cache_status = known_status(obj)
    baked = any(member.dampsim.baked for member in group_of(obj).members)
    return baked or not cache_status.is_known or bool(cache_status.frame_count)


class DAMPSIM_OT_measure(ChosenObjectsOperator, Operator):
    """Measure how far the selected objects sag under their own weight, without baking"""

    bl_label = "Measure Sag"

    @classmethod
    def poll(cls, context: Context) -> bool:
        can_sag = any(map(_has_stiffness, chosen_simulated(context)))
        return super().poll(context) and is_met(cls, can_sag, "Rigid bodies do not sag")

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if _has_stiffness(obj)]

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        measure_sag(context.scene, context.view_layer, obj)
        group = obj.dampsim
        return (
            f"sags {format_small(group.measured_sag, 3)}% of its size at {format_number(group.measured_young, 4)} kPa"
        )


class DAMPSIM_OT_calibrate(ActiveObjectJob, Operator):
    """Let each selected object swing as far as Swing sets, measure its settle time, and correct Settle to match"""

    bl_label = "Calibrate"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        message = "Calibrate corrects Settle. Set Damping Model to Settle and Bounce first"
        return is_met(cls, obj is None or _is_settle_controlled(obj), message) and super().poll(context)

    def subject(self, context: Context) -> str:
        return format_names(self._objects(context))

    def work(self, context: Context) -> Generator[Step]:
        objects, problems = self._objects(context), list[str]()
        for obj in objects:
            try:
                yield from calibrate_settle(context.scene, context.view_layer, obj)
            except DampSimError as error:
                problems.append(str(error))
        report_problems(self, problems, len(objects))

    def _objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if _is_settle_controlled(obj)]

    def completion_messages(self, context: Context) -> tuple[str, str]:
        obj = active_simulated(context)
        settle_curve = displayed_curve(obj) if obj else None
        return settle_curve.curve.summary if settle_curve else "calibrated", "calibration stopped; nothing was changed"


def _has_stiffness(obj: bpy.types.Object) -> bool:
    # An unknown kind, as from a newer version, is reported by the panel.
    return any(kind.has_stiffness for kind in KINDS if kind.name == obj.dampsim.kind)


def _is_settle_controlled(obj: bpy.types.Object) -> bool:
    try:
        return read_settings(obj).is_settle_controlled
    except ParameterError:
        return False
