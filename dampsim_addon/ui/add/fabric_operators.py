"""Presets of cloth with the weight, stretch and bending of real fabrics."""

from __future__ import annotations

import math

import bpy
from bpy.props import StringProperty
from bpy.types import Context, Menu, Operator, PropertyGroup, UILayout

from ....core import StiffnessBy
from ....core.base.wording import format_number, match_name, unknown_name
from ....core.bodies.cloth import FABRICS
from ...model.objects import active_simulated, chosen_simulated
from ..common.chosen_objects import ChosenObjectsOperator

# Blender stores properties in single precision.
_TOLERANCE = 1e-6


def current_fabric(group: PropertyGroup) -> str:
    """Return the name of the fabric that the object's settings match, or ''."""
    for name, values in FABRICS.items():
        if all(math.isclose(getattr(group, key), value, rel_tol=_TOLERANCE) for key, value in values.items()):
            return name if group.stiffness_by == StiffnessBy.MODULUS else ""
    return ""


class DAMPSIM_MT_fabrics(Menu):
    bl_label = "Fabrics"

    def draw(self, context: Context) -> None:
        for name in FABRICS:
            self.layout.operator(DAMPSIM_OT_fabric.bl_idname, text=name).fabric = name


class DAMPSIM_OT_fabric(ChosenObjectsOperator, Operator):
    """Set stiffness, weight, thickness and bending of the selected cloth to those of a fabric"""

    bl_idname = "dampsim.fabric"
    bl_label = "Fabric"
    bl_options = {"REGISTER", "UNDO"}

    fabric: StringProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: object) -> str:
        values = FABRICS.get(match_name(getattr(properties, "fabric", ""), FABRICS))
        if values is None:
            return str(cls.__doc__)
        area = 1e-3 * values["density"] * values["thickness"]
        stretch = format_number(values["stiffness"] * values["thickness"])
        return f"{1000.0 * area:.0f} g/m², stretch stiffness {stretch} N/m"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and obj.dampsim.kind == "CLOTH" and super().poll(context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if obj.dampsim.kind == "CLOTH"]

    def execute(self, context: Context) -> set[str]:
        name = match_name(self.fabric, FABRICS)
        if not name:
            self.report({"ERROR"}, unknown_name("a fabric", self.fabric, FABRICS))
            return {"CANCELLED"}
        self.fabric = name
        return super().execute(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        obj.dampsim.stiffness_by = StiffnessBy.MODULUS
        for key, value in FABRICS[self.fabric].items():
            setattr(obj.dampsim, key, value)
        return ""


def draw_fabrics(layout: UILayout, group: PropertyGroup) -> None:
    """Draw the menu of fabrics."""
    layout.menu(DAMPSIM_MT_fabrics.__name__, text=current_fabric(group) or "Fabrics", icon="MATERIAL")


CLASSES = (DAMPSIM_MT_fabrics, DAMPSIM_OT_fabric)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
