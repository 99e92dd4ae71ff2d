"""Materials by name, in Blender's preset system: sags and behaviours, so that they fit any size.

A new one is a file in presets/dampsim and a picture in presets/pictures, which `tools/material_pictures.py` renders.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import bpy
import bpy.utils.previews
from bl_operators.presets import AddPresetBase
from bpy.props import StringProperty
from bpy.types import Context, Menu, Operator, UILayout

from ....core.scene.parameters import PARAMETERS
from ..objects import is_simulated

_FOLDER = "dampsim"
# What makes a material; the rest is the scene's.
_SECTIONS = ("dials",)
_MATERIAL = ("poisson", "density", "material", "plastic_yield", "plastic_creep", "plastic_most")
_VALUES = [p.name for p in PARAMETERS.values() if p.section in _SECTIONS or p.name in _MATERIAL]
_PICTURES = Path(__file__).parent / "pictures"
# Blender's pictures by file name, while the add-on is on.
_icons: dict[str, Any] = {}


def scripts() -> list[Path]:
    """All materials' files, by name."""
    found = {path for folder in bpy.utils.preset_paths(_FOLDER) for path in Path(folder).glob("*.py")}
    return sorted(found, key=lambda path: path.stem.lower())


def title(path: Path) -> str:
    """What a material is called: memory_foam.py is Memory Foam."""
    words = bpy.path.display_name(path.name, title_case=False).split()
    return " ".join(word[:1].upper() + word[1:] for word in words)


def picture(name: str) -> int:
    """The number of a material's picture among Blender's icons; 0 where it has none."""
    known = _icons.get("all")
    return known[name].icon_id if known is not None and name in known else 0


def standing(group: bpy.types.PropertyGroup) -> str:
    """Which material the object has, as far as one was chosen and not changed since."""
    return str(group.preset) if group.preset and group.preset_of == _mark(group) else ""


def _mark(group: bpy.types.PropertyGroup) -> str:
    return hashlib.sha256(repr([getattr(group, name) for name in _VALUES]).encode()).hexdigest()[:16]


class DAMPSIM_MT_presets(Menu):
    bl_label = "Materials"
    preset_subdir = _FOLDER
    preset_operator = "script.execute_preset"

    def draw(self, context: Context) -> None:
        for path in scripts():
            icon = picture(path.stem)
            text = title(path)
            entry = self.layout.operator(DAMPSIM_OT_preset.bl_idname, text=text, icon_value=icon)
            entry.filepath, entry.text = str(path), f"{text}: {_said(path)}" if icon else text


def _said(path: Path) -> str:
    """A material's dials in a few words."""
    values = dict(
        line.removeprefix("dampsim.").split(" = ")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("dampsim.") and " = " in line
    )
    named = {"sag": "sags by {:g}%", "settle": "settles in {:g} frames", "bounce": "bounces by {:g}%",
             "plastic_yield": "stays as it is beyond a strain of {:g}%"}  # fmt: skip
    return ", ".join(text.format(float(values[name])) for name, text in named.items() if name in values)


class DAMPSIM_OT_preset(Operator):
    """Give the object a material's dials"""

    bl_idname = "dampsim.preset"
    bl_label = "Material"
    bl_options = {"REGISTER", "UNDO"}

    filepath: StringProperty(subtype="FILE_PATH", options={"SKIP_SAVE", "HIDDEN"})
    text: StringProperty(options={"SKIP_SAVE", "HIDDEN"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        return str(properties.text)

    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_simulated(context.object)

    def execute(self, context: Context) -> set[str]:
        if not Path(self.filepath).is_file():
            self.report({"ERROR"}, f"There is no material at '{self.filepath}'; choose one of the menu.")
            return {"CANCELLED"}
        # Of those that say nothing of it, as of files from before it, nothing stays.
        for name in ("plastic_yield", "plastic_creep", "plastic_most"):
            context.object.dampsim.property_unset(name)
        done = bpy.ops.script.execute_preset(filepath=self.filepath, menu_idname=DAMPSIM_MT_presets.__name__)
        # Blender calls the menu as the material, for all objects.
        DAMPSIM_MT_presets.bl_label = "Materials"
        group = context.object.dampsim
        group.preset, group.preset_of = title(Path(self.filepath)), _mark(group)
        return set(done)


class DAMPSIM_OT_preset_add(AddPresetBase, Operator):
    """Keep these dials and material as a preset, or remove one"""

    bl_idname = "dampsim.preset_add"
    bl_label = "Add Material Preset"
    preset_menu = "DAMPSIM_MT_presets"
    preset_subdir = _FOLDER
    preset_defines = ["dampsim = bpy.context.object.dampsim"]
    preset_values = [f"dampsim.{name}" for name in _VALUES]

    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_simulated(context.object)


def draw_presets(layout: UILayout, group: bpy.types.PropertyGroup) -> None:
    """The menu of materials, with buttons to add and remove."""
    row = layout.row(align=True)
    name = standing(group)
    icon = picture(name.lower().replace(" ", "_")) if name else 0
    if icon:
        row.menu(DAMPSIM_MT_presets.__name__, text=name, icon_value=icon)
    else:
        row.menu(DAMPSIM_MT_presets.__name__, text=name or "Materials", icon="MATERIAL")
    row.operator(DAMPSIM_OT_preset_add.bl_idname, text="", icon="ADD")
    row.operator(DAMPSIM_OT_preset_add.bl_idname, text="", icon="REMOVE").remove_active = True


CLASSES = (DAMPSIM_MT_presets, DAMPSIM_OT_preset, DAMPSIM_OT_preset_add)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.utils.register_preset_path(str(Path(__file__).parents[1]))
    _icons["all"] = bpy.utils.previews.new()
    for path in sorted(_PICTURES.glob("*.png")):
        _icons["all"].load(path.stem, str(path), "IMAGE")


def unregister() -> None:
    bpy.utils.previews.remove(_icons.pop("all"))
    bpy.utils.unregister_preset_path(str(Path(__file__).parents[1]))
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
