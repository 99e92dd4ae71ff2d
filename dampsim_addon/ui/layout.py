"""What the panels have in common."""

from __future__ import annotations

import textwrap

import bpy
from bpy.types import Context, UILayout

from ...core.bodies.registry import kind
from ...core.scene.parameters import PARAMETERS
from ..scene.objects import chosen, working
from ..scene.properties import read_settings


class Sidebar:
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "DampSim"


class Child(Sidebar):
    bl_parent_id = "DAMPSIM_PT_main"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None


# Pixels of Blender's interface unit, and of a letter on the mean, at scale 1.
UNIT_X, _LETTER = 20.0, 6.6


def split(column: UILayout, context: Context) -> UILayout:
    """A column of labelled properties that cannot be touched while a job runs."""
    column.use_property_split = True
    column.use_property_decorate = False
    column.enabled = not working(context)
    return column


def wrapped(layout: UILayout, text: str, icon: str, context: Context) -> None:
    """A text in as many lines as the panel's width asks for."""
    if not text:
        return
    letters = max(int((context.region.width / context.preferences.system.ui_scale - 60.0) / _LETTER), 16)
    column = layout.column(align=True)
    column.scale_y = 0.8
    for number, line in enumerate(textwrap.wrap(text, letters)):
        column.label(text=line, icon=icon if number == 0 else ("BLANK1" if icon != "NONE" else "NONE"))


def sections(group: bpy.types.PropertyGroup) -> tuple[str, ...]:
    """Of the parameters that the object's kind reads, beside those that all do."""
    return kind(group.kind).sections(read_settings(group.id_data))


def dials(layout: UILayout, group: bpy.types.PropertyGroup, section: str, without: str = "") -> None:
    """Of a section, all that have a meaning with what is chosen; but for one."""
    for parameter in PARAMETERS.values():
        meant = parameter.has_meaning(lambda name: getattr(group, name))
        if parameter.section == section and parameter.name != without and meant:
            unit = f" ({parameter.unit})" if parameter.unit not in ("", "%") else ""
            layout.prop(group, parameter.name, text=parameter.label + unit)
