"""Material presets in Blender's preset system. They set Sag instead of moduli, so that they fit objects of any size.

A new one needs a file in presets/dampsim and a picture in presets/pictures, rendered by `tools/material_pictures.py`.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any, ClassVar

import bpy
import bpy.utils.previews
from bl_operators.presets import AddPresetBase
from bpy.props import StringProperty
from bpy.types import Context, Menu, Operator, UILayout

from ....core import PARAMETERS, ParameterError
from ....core.base.errors import MAX_SHOWN, disk_errors, printable_text
from ....core.base.untrusted_files import open_regular_file, write_atomically
from ....core.scene.part import PART_DIALS
from ...translations import report, translate
from ..objects import chosen_simulated, is_simulated

_FOLDER = "dampsim"
# First lines of a preset file.
_HEAD = "import bpy\ndampsim = bpy.context.object.dampsim\n\n"
# Parameters that define a material. All others depend on the scene.
_SECTIONS = ("dials",)
_OTHER_PARAMETERS = ("poisson", "density", "material")
_ADDED_PARAMETERS = ("plastic_yield", "plastic_creep", "plastic_most")
_PARAMETER_NAMES = [
    p.name for p in PARAMETERS.values() if p.section in _SECTIONS or p.name in _OTHER_PARAMETERS + _ADDED_PARAMETERS
]
# Folder of the materials that the add-on brings.
_OWN_FOLDER = Path(__file__).parent / _FOLDER
# Largest size of a preset file in bytes, and of one of its values in characters.
_MAX_PRESET_SIZE, _MAX_VALUE_LENGTH = 100_000, 100
# Exceptions that reading a damaged file raises.
_READ_ERRORS = (OSError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError, ParameterError)
_PICTURES = Path(__file__).parent / "pictures"
# Preview collection of the pictures, while the add-on is enabled.
_icons: dict[str, Any] = {}


def material_scripts() -> list[Path]:
    """Return the preset files of all materials, sorted by name."""
    found = {path for folder in bpy.utils.preset_paths(_FOLDER) for path in Path(folder).glob("*.py")}
    return sorted(found, key=lambda path: path.stem.lower())


def material_title(path: Path) -> str:
    """Return the name of a material: Memory Foam for memory_foam.py."""
    words = bpy.path.display_name(path.name, title_case=False).split()
    return " ".join(word[:1].upper() + word[1:] for word in words)


def material_icon(name: str) -> int:
    """Return the icon id of a material's picture; 0 where it has none."""
    known = _icons.get("all")
    return known[name].icon_id if known is not None and name in known else 0


def current_material(group: bpy.types.PropertyGroup) -> str:
    """Return the name of the chosen material; '' if there is none, or if its values were changed since."""
    return str(group.preset) if group.preset and group.preset_of == _material_digest(group) else ""


def _material_digest(group: bpy.types.PropertyGroup) -> str:
    return hashlib.sha256(repr([getattr(group, name) for name in _PARAMETER_NAMES]).encode()).hexdigest()[:16]


class DAMPSIM_MT_presets(Menu):
    bl_label = "Materials"
    preset_subdir = _FOLDER
    preset_operator = "script.execute_preset"

    def draw(self, context: Context) -> None:
        draw_materials(self.layout, DAMPSIM_OT_preset.bl_idname)


def draw_materials(layout: UILayout, operator: str) -> None:
    """Draw an entry for each material. operator: bl_idname of a MaterialChoice."""
    for path in material_scripts():
        icon = material_icon(path.stem)
        text = material_title(path)
        entry = layout.operator(operator, text=translate(text), icon_value=icon)
        entry.filepath, entry.text = str(path), f"{text}: {_material_summary(path)}" if icon else text


def preset_values(path: Path) -> dict[str, Any]:
    """Return the parameters of a preset file. Its other lines are ignored, not run. Raises ParameterError."""
    try:
        file, size = open_regular_file(path, follow_link=True)
        with file:
            if size > _MAX_PRESET_SIZE:
                raise ValueError("it is too large")
            lines = file.read(size).decode("utf-8").splitlines()
        pairs = [line.removeprefix("dampsim.").split(" = ", 1) for line in lines if line.startswith("dampsim.")]
        values = {
            pair[0]: PARAMETERS[pair[0]].validate(ast.literal_eval(pair[1][:_MAX_VALUE_LENGTH]))
            for pair in pairs
            if len(pair) == 2 and pair[0] in _PARAMETER_NAMES
        }
        if not values:
            raise ValueError("it has no values")
    except _READ_ERRORS as error:
        reason = printable_text(str(error) or "no valid text", MAX_SHOWN).removesuffix(".")
        raise ParameterError(f"Material '{path.stem}': its file is damaged ({reason}); choose another one.") from error
    return values


def _material_summary(path: Path) -> str:
    """Return a summary of a material's dials; '' for a damaged file."""
    try:
        values = preset_values(path)
    except ParameterError:
        return ""
    named = {"sag": "sags by {:g}%", "settle": "settles in {:g} frames", "bounce": "bounces by {:g}%",
             "plastic_yield": "keeps strains beyond {:g}%"}  # fmt: skip
    return ", ".join(text.format(float(values[name])) for name, text in named.items() if name in values)


def _report_error(operator: Any, edit: Callable[[], set[str]]) -> set[str]:
    """Return the result of an operator's edit; report its ParameterError, and return that it is cancelled."""
    try:
        return edit()
    except ParameterError as error:
        report(operator, {"ERROR"}, str(error))
        return {"CANCELLED"}


class MaterialChoice:
    """Base class of operators that set dials to those of a material."""

    bl_label = "Material"
    bl_options: ClassVar[set[str]] = {"REGISTER", "UNDO"}

    filepath: StringProperty(subtype="FILE_PATH", options={"SKIP_SAVE", "HIDDEN"})
    text: StringProperty(options={"SKIP_SAVE", "HIDDEN"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        return str(properties.text)

    def execute(self, context: Context) -> set[str]:
        return _report_error(self, lambda: self._read_and_apply(context))

    def _read_and_apply(self, context: Context) -> set[str]:
        if not Path(self.filepath).is_file():
            raise ParameterError(f"The material file '{self.filepath}' is missing. Choose another material.")
        self.apply(context, preset_values(Path(self.filepath)))
        return {"FINISHED"}

    def apply(self, context: Context, values: dict[str, Any]) -> None:
        """Set the dials. values: see preset_values."""
        raise NotImplementedError


class DAMPSIM_OT_preset(MaterialChoice, Operator):
    """Set the dials of the selected objects to those of a material"""

    bl_idname = "dampsim.preset"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_simulated(context.object)

    def apply(self, context: Context, values: dict[str, Any]) -> None:
        for obj in chosen_simulated(context):
            # Fabrics are the materials of cloth.
            if obj == context.object or obj.dampsim.kind != "CLOTH":
                self._apply_to_body(obj.dampsim, values)

    def _apply_to_body(self, group: bpy.types.PropertyGroup, values: dict[str, Any]) -> None:
        # Older materials lack these values, which then have to be the defaults. Those of parts are dials only.
        for name in _ADDED_PARAMETERS if set(values) - set(PART_DIALS) else ():
            group.property_unset(name)
        for name, value in values.items():
            setattr(group, name, value)
        group.preset, group.preset_of = material_title(Path(self.filepath)), _material_digest(group)


class MaterialSaver(AddPresetBase):
    """Base class of operators that save dials as a material of the user."""

    bl_label = "Add Material Preset"
    preset_menu = "DAMPSIM_MT_presets"
    preset_subdir = _FOLDER

    def execute(self, context: Context) -> set[str]:
        save: Any = super().execute
        return _report_error(self, lambda: set(save(context)))

    def add(self, context: Context, filepath: str) -> None:
        """Write a preset in place of Blender's own code, which leaves a part of it on a full disk."""
        path = Path(filepath)
        lines = [f"dampsim.{name} = {value!r}" for name, value in self.values_to_save(context).items()]
        fix = "choose another name or free some space"
        with disk_errors(f"Material '{path.stem}' cannot be written to {path.parent}", fix, ParameterError):
            write_atomically(path, _HEAD + "\n".join([*lines, ""]))

    def values_to_save(self, context: Context) -> dict[str, Any]:
        """Return the values by the names of the parameters."""
        raise NotImplementedError


class DAMPSIM_OT_preset_add(MaterialSaver, Operator):
    """Save the dials and material as a preset"""

    bl_idname = "dampsim.preset_add"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_simulated(context.object)

    def add(self, context: Context, filepath: str) -> None:
        super().add(context, filepath)
        group = context.object.dampsim
        group.preset, group.preset_of = material_title(Path(filepath)), _material_digest(group)

    def values_to_save(self, context: Context) -> dict[str, Any]:
        return {name: getattr(context.object.dampsim, name) for name in _PARAMETER_NAMES}


class DAMPSIM_OT_preset_remove(Operator):
    """Remove the chosen material from your own presets"""

    # Blender's own button removes the preset that was added last, not the one that is chosen.
    bl_idname = "dampsim.preset_remove"
    bl_label = "Remove Material Preset"

    @classmethod
    def poll(cls, context: Context) -> bool:
        name = current_material(context.object.dampsim) if is_simulated(context.object) else ""
        if not name or name in _own_titles():
            cls.poll_message_set("Choose a material that you have saved")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        return _report_error(self, lambda: self._remove(context))

    def _remove(self, context: Context) -> set[str]:
        name = current_material(context.object.dampsim)
        path = self._file(context.object.dampsim, name)
        fix = "check the permissions of its folder"
        with disk_errors(f"Material '{name}' cannot be removed from {path.parent}", fix, ParameterError):
            path.unlink()
        report(self, {"INFO"}, f"Removed material '{name}'. Objects keep its values.")
        return {"FINISHED"}

    def _file(self, group: bpy.types.PropertyGroup, name: str) -> Path:
        """Return the file of the user's material that an object has. Raises ParameterError."""
        for path in material_scripts():
            # Two names that differ in upper and lower case have one title.
            if path.parent != _OWN_FOLDER and material_title(path) == name and _has_values(group, path):
                return path
        raise ParameterError(f"Material '{name}' has no file any more. Choose another one.")


def _has_values(group: bpy.types.PropertyGroup, path: Path) -> bool:
    """Return whether an object has the values of a preset file."""
    try:
        values = preset_values(path)
    except ParameterError:
        return False
    # Blender stores numbers in single precision.
    return all(
        isclose(getattr(group, name), value, rel_tol=1e-6)
        if isinstance(value, float)
        else getattr(group, name) == value
        for name, value in values.items()
    )


@cache
def _own_titles() -> frozenset[str]:
    """Names of the materials that the add-on brings."""
    return frozenset(map(material_title, _OWN_FOLDER.glob("*.py")))


def draw_presets(layout: UILayout, group: bpy.types.PropertyGroup) -> None:
    """Draw the menu of materials, with buttons to add and remove presets."""
    row = layout.row(align=True)
    name = current_material(group)
    icon = material_icon(name.lower().replace(" ", "_")) if name else 0
    if icon:
        row.menu(DAMPSIM_MT_presets.__name__, text=translate(name), icon_value=icon)
    else:
        row.menu(DAMPSIM_MT_presets.__name__, text=name or "Materials", icon="MATERIAL")
    row.operator(DAMPSIM_OT_preset_add.bl_idname, text="", icon="ADD")
    row.operator(DAMPSIM_OT_preset_remove.bl_idname, text="", icon="REMOVE")


CLASSES = (DAMPSIM_MT_presets, DAMPSIM_OT_preset, DAMPSIM_OT_preset_add, DAMPSIM_OT_preset_remove)
_register_classes, _unregister_classes = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    _register_classes()
    bpy.utils.register_preset_path(str(Path(__file__).parents[1]))
    _icons["all"] = bpy.utils.previews.new()
    for path in sorted(_PICTURES.glob("*.png")):
        _icons["all"].load(path.stem, str(path), "IMAGE")


def unregister() -> None:
    bpy.utils.previews.remove(_icons.pop("all"))
    bpy.utils.unregister_preset_path(str(Path(__file__).parents[1]))
    _unregister_classes()
