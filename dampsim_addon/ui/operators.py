"""Operators that remove, clear, measure and calibrate the active object."""

from __future__ import annotations

from collections.abc import Generator

import bpy
from bpy.types import Context, Operator

from ...core.errors import DampSimError, ParameterError
from .. import live
from ..jobs.calibrate import calibrate, measure
from ..jobs.clear import clear
from ..scene.groups import group_of
from ..scene.objects import chosen, working
from ..scene.on_disk import known
from ..scene.properties import read_settings
from ..scene.results import curve_of
from ..work.steps import Step
from .chosen_job import ChosenJob
from .group_operators import alone


class DAMPSIM_OT_remove(Operator):
    """Stop simulating the object with DampSim, and clear its bake"""

    bl_idname = "dampsim.remove"
    bl_label = "Remove"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None and not working(context)

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        try:
            clear(obj)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        live.drop(obj)
        alone(obj)
        obj.dampsim.enabled = False
        return {"FINISHED"}


class DAMPSIM_OT_clear(Operator):
    """Remove the bake and the cached frames of all objects that are simulated together, and restore the objects"""

    bl_idname = "dampsim.clear"
    bl_label = "Clear"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        there = known(obj)
        baked = any(member.dampsim.baked for member in group_of(obj).members)
        if not baked and there.looked and not there.frames:
            cls.poll_message_set("There is no bake to clear")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        try:
            for member in group_of(chosen(context)).members:
                clear(member)
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
        return chosen(context) is not None and not working(context)

    def execute(self, context: Context) -> set[str]:
        try:
            measure(context.scene, context.view_layer, chosen(context))
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        group = chosen(context).dampsim
        self.report({"INFO"}, f"Sags {group.measured_sag:.3g}% of its size at {group.measured_young:.4g} kPa")
        return {"FINISHED"}


class DAMPSIM_OT_calibrate(ChosenJob, Operator):
    """Deflect the object as far as a sudden stop would, release it, and correct Settle for large deformations"""

    bl_idname = "dampsim.calibrate"
    bl_label = "Calibrate"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        try:
            by_settle = obj is None or read_settings(obj).by_settle
        except ParameterError:
            return False
        if not by_settle:
            cls.poll_message_set("Calibrate corrects Settle. Set Damping By to Settle and Bounce first")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        return calibrate(context.scene, context.view_layer, chosen(context))

    def said(self, context: Context) -> tuple[str, str]:
        obj = chosen(context)
        shown = curve_of(obj) if obj else None
        return shown.curve.text if shown else "calibrated", "calibration stopped; nothing was changed"


CLASSES = (
    DAMPSIM_OT_remove,
    DAMPSIM_OT_clear,
    DAMPSIM_OT_measure,
    DAMPSIM_OT_calibrate,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
