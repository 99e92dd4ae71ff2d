"""The buttons."""

from __future__ import annotations

from collections.abc import Generator

import bpy
import numpy as np
from bpy.types import Context, Operator

from ...core.errors import DampSimError, ParameterError
from .. import live
from ..jobs.calibrate import calibrate, measure
from ..jobs.clear import clear
from ..scene.groups import group_of
from ..scene.objects import chosen, is_simulated, working
from ..scene.on_disk import known
from ..scene.properties import read_settings
from ..scene.results import curve_of
from ..work.steps import Step
from .chosen_job import ChosenJob
from .group_operators import alone

# A new object's Young's modulus in parts of the pressure at the foot of a column of its height: a solid sags by a few
# percent; springs, which hang by their whole length and by few of them, stretch by a fraction of one.
_FIRM = {"SOLID": 30.0, "SPRINGS": 500.0}
# A new wire or net is no thicker than this part of its size.
_THIN = 0.02


class DAMPSIM_OT_add(Operator):
    """Simulate the selected meshes: closed ones as solid bodies, open ones and wires as springs along their edges"""

    bl_idname = "dampsim.add"
    bl_label = "Add"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not any(obj.type == "MESH" and not is_simulated(obj) for obj in context.selected_objects):
            cls.poll_message_set("Select a mesh that DampSim does not simulate yet")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        for obj in context.selected_objects:
            if obj.type != "MESH" or is_simulated(obj):
                continue
            group = obj.dampsim
            group.enabled = True
            group.kind, note = _fitting(obj.data)
            group.kind_note = note
            self.report({"INFO"}, f"{obj.name}: {note}")
            if not group.pin_group and len(obj.vertex_groups) and obj.vertex_groups.active is not None:
                named = [g.name for g in obj.vertex_groups if g.name.lower() in ("pin", "pins", "goal")]
                group.pin_group = named[0] if named else ""
            height = max(*obj.dimensions)
            if group.kind == "SPRINGS" and height > 0.0:
                group.thickness = min(group.thickness, 1000.0 * _THIN * height)
            if height > 0.0:
                pressure = group.density * np.linalg.norm(context.scene.gravity) * height / 1000.0
                if pressure > 0.0:
                    group.stiffness = float(f"{_FIRM[group.kind] * pressure:.2g}")
        return {"FINISHED"}


def _fitting(mesh: bpy.types.Mesh) -> tuple[str, str]:
    """The kind that a mesh asks for, and why in a few words."""
    if len(mesh.edges) and not len(mesh.polygons):
        return "SPRINGS", "it has no faces, so its edges become springs"
    sides = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("edge_index", sides)
    if (np.bincount(sides, minlength=1) == 1).any():
        return "SPRINGS", "its surface is open, so its edges become springs"
    return "SOLID", "its surface is closed, so it becomes a solid body"


class DAMPSIM_OT_remove(Operator):
    """Take the object out of DampSim; its bake is cleared first"""

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
    """Remove the bake and its cached frames, of all that is simulated together; the objects are as they were before"""

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
    """Find out how far the object hangs under its own weight, without baking"""

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
        self.report({"INFO"}, f"Hangs {group.measured_sag:.3g}% of its size at {group.measured_young:.4g} kPa")
        return {"FINISHED"}


class DAMPSIM_OT_calibrate(ChosenJob, Operator):
    """Pull the object as far as a stop might throw it, let it go, and correct Settle for what large bends change"""

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
            cls.poll_message_set("Calibrate corrects Settle; dial the damping by Settle and Bounce")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        return calibrate(context.scene, context.view_layer, chosen(context))

    def said(self, context: Context) -> tuple[str, str]:
        obj = chosen(context)
        shown = curve_of(obj) if obj else None
        return shown.curve.text if shown else "calibrated", "calibration stopped; nothing was changed"


CLASSES = (
    DAMPSIM_OT_add,
    DAMPSIM_OT_remove,
    DAMPSIM_OT_clear,
    DAMPSIM_OT_measure,
    DAMPSIM_OT_calibrate,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
