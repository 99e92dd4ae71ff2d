"""Materials by name, in Blender's preset system. A new one is a file in presets/dampsim."""

from __future__ import annotations

from pathlib import Path

import bpy
from bl_operators.presets import AddPresetBase
from bpy.types import Context, Menu, Operator, UILayout

from ....core.scene.parameters import PARAMETERS
from ..objects import is_simulated

_FOLDER = "dampsim"
# What makes a material; the rest is the scene's.
_SECTIONS = ("dials",)
_MATERIAL = ("poisson", "density", "material")


class DAMPSIM_MT_presets(Menu):
    bl_label = "Materials"
    preset_subdir = _FOLDER
    preset_operator = "script.execute_preset"
    draw = Menu.draw_preset


class DAMPSIM_OT_preset_add(AddPresetBase, Operator):
    """Keep these dials and material as a preset, or remove one"""

    bl_idname = "dampsim.preset_add"
    bl_label = "Add Material Preset"
    preset_menu = "DAMPSIM_MT_presets"
    preset_subdir = _FOLDER
    preset_defines = ["dampsim = bpy.context.object.dampsim"]
    preset_values = [f"dampsim.{p.name}" for p in PARAMETERS.values() if p.section in _SECTIONS or p.name in _MATERIAL]

    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_simulated(context.object)


def draw_presets(layout: UILayout) -> None:
    """The menu of materials, with buttons to add and remove."""
    row = layout.row(align=True)
    row.menu(DAMPSIM_MT_presets.__name__, text=DAMPSIM_MT_presets.bl_label, icon="MATERIAL")
    row.operator(DAMPSIM_OT_preset_add.bl_idname, text="", icon="ADD")
    row.operator(DAMPSIM_OT_preset_add.bl_idname, text="", icon="REMOVE").remove_active = True


CLASSES = (DAMPSIM_MT_presets, DAMPSIM_OT_preset_add)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.utils.register_preset_path(str(Path(__file__).parents[1]))


def unregister() -> None:
    bpy.utils.unregister_preset_path(str(Path(__file__).parents[1]))
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
