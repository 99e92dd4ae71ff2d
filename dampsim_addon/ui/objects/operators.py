"""Operators that remove, clear, measure and calibrate the active object."""

from __future__ import annotations

from collections.abc import Generator

import bpy
from bpy.types import Context, Operator

from ....core import DampSimError, ParameterError
from ....core.base.wording import format_number, format_small
from ... import live
from ...jobs.calibrate import calibrate_settle, measure_sag
from ...jobs.clear import clear_bake
from ...model.cache_status import known_status
from ...model.groups import group_of
from ...model.objects import active_simulated, is_job_running
from ...model.properties import read_settings
from ...status.results import displayed_curve
from ...work.steps import Step
from ..common.active_object_job import ActiveObjectJob
from .group_operators import simulate_separately


class DAMPSIM_OT_remove(Operator):
    """Stop simulating the object with DampSim, and clear its bake"""

    bl_idname = "dampsim.remove"
    bl_label = "Remove"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return active_simulated(context) is not None and not is_job_running(context)

    def execute(self, context: Context) -> set[str]:
        obj = active_simulated(context)
        try:
            clear_bake(obj)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        live.drop_session(obj)
        simulate_separately(obj)
        obj.dampsim.enabled = False
        return {"FINISHED"}


class DAMPSIM_OT_clear(Operator):
    """Remove the bake and the cached frames of all objects that are simulated together, and restore the objects"""

    bl_idname = "dampsim.clear"
    bl_label = "Clear"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is None or is_job_running(context):
            return False
        cache_status = known_status(obj)
        baked = any(member.dampsim.baked for member in group_of(obj).members)
        if not baked and cache_status.is_known and not cache_status.frame_count:
            cls.poll_message_set("There is no bake to clear")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        try:
            for member in group_of(active_simulated(context)).members:
                clear_bake(member)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


class DAMPSIM_OT_measure(Operator):
    """Measure how far the object sags under its own weight, without baking"""

    bl_idname = "dampsim.measure"
    bl_label = "Measure Sag"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return active_simulated(context) is not None and not is_job_running(context)

    def execute(self, context: Context) -> set[str]:
        try:
            measure_sag(context.scene, context.view_layer, active_simulated(context))
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        group = active_simulated(context).dampsim
        self.report(
            {"INFO"},
            f"Sags {format_small(group.measured_sag, 3)}% of its size at {format_number(group.measured_young, 4)} kPa",
        )
        return {"FINISHED"}


class DAMPSIM_OT_calibrate(ActiveObjectJob, Operator):
    """Let the object swing as far as Swing sets, measure its settle time, and correct Settle to match"""

    bl_idname = "dampsim.calibrate"
    bl_label = "Calibrate"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        try:
            by_settle = obj is None or read_settings(obj).is_settle_controlled
        except ParameterError:
            return False
        if not by_settle:
            cls.poll_message_set("Calibrate corrects Settle. Set Damping Model to Settle and Bounce first")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        return calibrate_settle(context.scene, context.view_layer, active_simulated(context))

    def completion_messages(self, context: Context) -> tuple[str, str]:
        obj = active_simulated(context)
        settle_curve = displayed_curve(obj) if obj else None
        return settle_curve.curve.summary if settle_curve else "calibrated", "calibration stopped; nothing was changed"


CLASSES = (
    DAMPSIM_OT_remove,
    DAMPSIM_OT_clear,
    DAMPSIM_OT_measure,
    DAMPSIM_OT_calibrate,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
