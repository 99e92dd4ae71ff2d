"""Fabrics by name, for cloth: what a real one weighs, and how it stretches and bends."""

from __future__ import annotations

import math

import bpy
from bpy.props import StringProperty
from bpy.types import Context, Menu, Operator, PropertyGroup, UILayout

from ...core.bodies.cloth import FABRICS
from ...core.scene.parameters import StiffnessBy
from ..scene.objects import chosen, free, simulated

# Numbers of properties come back in single precision.
_SAME = 1e-6


def standing(group: PropertyGroup) -> str:
    """Which fabric the object is of, as far as its dials say so."""
    for name, dials in FABRICS.items():
        if all(math.isclose(getattr(group, key), value, rel_tol=_SAME) for key, value in dials.items()):
            return name if group.stiffness_by == StiffnessBy.MODULUS else ""
    return ""


class DAMPSIM_MT_fabrics(Menu):
    bl_label = "Fabrics"

    def draw(self, context: Context) -> None:
        for name in FABRICS:
            self.layout.operator(DAMPSIM_OT_fabric.bl_idname, text=name).fabric = name


class DAMPSIM_OT_fabric(Operator):
    """Give the selected cloth a fabric's stiffness, weight, thickness and bending"""

    bl_idname = "dampsim.fabric"
    bl_label = "Fabric"
    bl_options = {"REGISTER", "UNDO"}

    fabric: StringProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: object) -> str:
        dials = FABRICS.get(getattr(properties, "fabric", ""))
        if dials is None:
            return str(cls.__doc__)
        area = 1e-3 * dials["density"] * dials["thickness"]
        return f"{1000.0 * area:.0f} g per square metre, {dials['stiffness'] * dials['thickness']:g} N per metre"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and obj.dampsim.kind == "CLOTH" and free(cls, context)

    def execute(self, context: Context) -> set[str]:
        if self.fabric not in FABRICS:
            self.report({"ERROR"}, f"'{self.fabric}' is none of the fabrics: {', '.join(FABRICS)}.")
            return {"CANCELLED"}
        for obj in {chosen(context), *simulated(context.selected_objects)}:
            if obj.dampsim.kind == "CLOTH":
                obj.dampsim.stiffness_by = StiffnessBy.MODULUS
                for key, value in FABRICS[self.fabric].items():
                    setattr(obj.dampsim, key, value)
        return {"FINISHED"}


def draw_fabrics(layout: UILayout, group: PropertyGroup) -> None:
    """The menu of fabrics."""
    layout.menu(DAMPSIM_MT_fabrics.__name__, text=standing(group) or "Fabrics", icon="MATERIAL")


CLASSES = (DAMPSIM_MT_fabrics, DAMPSIM_OT_fabric)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
