"""Operator that adds maps of simulated objects for materials, and removes them."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, FloatProperty
from bpy.types import Context, Operator, UILayout

from ...blender.maps import detach_maps, maps_modifier
from ...jobs.maps import update_maps
from ...model.objects import chosen_simulated
from ...translations import translate
from ..common.chosen_objects import ChosenObjectsOperator, count_label

_REMOVE_TIP = "Remove the maps of the selected objects"


class DAMPSIM_OT_maps(ChosenObjectsOperator, Operator):
    """Add attributes for materials to the selected objects: stretch, compression, contact with colliders, and velocity.
    They render without files. Press again after colliders have changed"""

    bl_idname = "dampsim.maps"
    bl_label = "Add Maps"
    bl_options = {"REGISTER", "UNDO"}

    contact_range: FloatProperty(
        name="Contact Range", min=0.0,
        description="Set the distance from colliders at which contact falls to 0; 0 for 2% of the size, or as before",
        subtype="DISTANCE", options={"SKIP_SAVE"},
    )  # fmt: skip
    remove: BoolProperty(name="Remove", description=_REMOVE_TIP, options={"SKIP_SAVE", "HIDDEN"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        return translate(_REMOVE_TIP) if properties.remove else " ".join(translate(str(cls.__doc__)).split())

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        if self.remove:
            detach_maps(obj)
        else:
            update_maps(context.view_layer, obj, self.contact_range)
        return ""


def draw_maps(layout: UILayout, context: Context, obj: bpy.types.Object) -> None:
    """Draw the buttons that add, update and remove maps, if the object has a bake or maps."""
    has_maps = maps_modifier(obj) is not None
    if not (has_maps or obj.dampsim.baked):
        return
    row = layout.row(align=True)
    text = count_label("Update Maps" if has_maps else DAMPSIM_OT_maps.bl_label, chosen_simulated(context))
    row.operator(DAMPSIM_OT_maps.bl_idname, text=translate(text), icon="NODE_MATERIAL")
    if has_maps:
        row.operator(DAMPSIM_OT_maps.bl_idname, text="", icon="X").remove = True


register, unregister = bpy.utils.register_classes_factory((DAMPSIM_OT_maps,))
