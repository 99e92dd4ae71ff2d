"""Presets of cloth with the weight, stretch and bending of real fabrics."""

from __future__ import annotations

import bpy
from bpy.props import StringProperty
from bpy.types import Context, Menu, Operator, PropertyGroup, UILayout

from ....core.base.wording import format_number, match_name, unknown_name
from ....core.bodies.fabrics import FABRICS
from ...model.default_settings import apply_fabric, current_fabric
from ...model.objects import active_simulated, chosen_simulated
from ...translations import report, translate
from ..common.chosen_objects import ChosenObjectsOperator


class DAMPSIM_MT_fabrics(Menu):
    bl_label = "Fabrics"

    def draw(self, context: Context) -> None:
        for name in FABRICS:
            text = f"{name}: {FABRICS[name].use}"
            self.layout.operator(DAMPSIM_OT_fabric.bl_idname, text=translate(text)).fabric = name


class DAMPSIM_OT_fabric(ChosenObjectsOperator, Operator):
    """Set stiffness, weight, thickness and bending of the selected cloth to those of a fabric"""

    bl_idname = "dampsim.fabric"
    bl_label = "Fabric"
    bl_options = {"REGISTER", "UNDO"}

    fabric: StringProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: object) -> str:
        fabric = FABRICS.get(match_name(getattr(properties, "fabric", ""), FABRICS))
        if fabric is None:
            return translate(str(cls.__doc__))
        return translate(
            f"{1000.0 * fabric.area_density:.0f} g/m², stretch stiffness {format_number(fabric.stretch)} N/m, "
            f"drape {fabric.drape}%: silk falls in folds at 50%, card stays flat at 100%"
        )

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and obj.dampsim.kind == "CLOTH" and super().poll(context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if obj.dampsim.kind == "CLOTH"]

    def execute(self, context: Context) -> set[str]:
        name = match_name(self.fabric, FABRICS)
        if not name:
            report(self, {"ERROR"}, unknown_name("a fabric", self.fabric, FABRICS))
            return {"CANCELLED"}
        self.fabric = name
        return super().execute(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        apply_fabric(obj, self.fabric)
        return ""


def draw_fabrics(layout: UILayout, group: PropertyGroup) -> None:
    """Draw the menu of fabrics, with the drape of the current one."""
    name = current_fabric(group)
    text = f"{name}, drape {FABRICS[name].drape}%" if name else "Fabrics"
    layout.menu(DAMPSIM_MT_fabrics.__name__, text=translate(text), icon="MATERIAL")


CLASSES = (DAMPSIM_MT_fabrics, DAMPSIM_OT_fabric)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
