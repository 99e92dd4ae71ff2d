"""Setup panel, and the operators that copy setups between objects, save and load them, and make assets of them."""

from __future__ import annotations

from pathlib import Path

import bpy
from bpy.props import BoolProperty, StringProperty
from bpy.types import Context, Event, Operator, Panel, UILayout

from ....core import DampSimError, ParameterError
from ....core.base.untrusted_files import open_regular_file, write_atomically
from ...model.objects import active_simulated, can_start_job, chosen_simulated, is_simulated
from ...scene_reader.setups import MAX_BYTES, Setup, apply_setup, parse_setup, read_setup, setup_text
from ...translations import report, translate
from ..common.layout import ChildPanel, enabled_column
from ..common.operators import ChosenObjectsOperator, EditOperator, count_label, is_met


def setup_source(context: Context) -> bpy.types.Object | None:
    """Return the active object if it is simulated or carries a setup."""
    obj = context.object
    return obj if obj is not None and (is_simulated(obj) or obj.dampsim.carries_setup) else None


def setup_targets(context: Context) -> list[bpy.types.Object]:
    """Return the selected meshes other than the active object."""
    return [
        obj
        for obj in context.selected_objects
        if obj.type == "MESH" and obj != context.object and obj.name in context.scene.objects
    ]


def draw_setup_copy(layout: UILayout, context: Context) -> None:
    """Draw the button that copies the setup of the active object."""
    text = count_label(DAMPSIM_OT_setup_copy.bl_label, setup_targets(context))
    layout.operator(DAMPSIM_OT_setup_copy.bl_idname, text=translate(text), icon="PASTEDOWN")


class DAMPSIM_OT_setup_copy(ChosenObjectsOperator, Operator):
    """Copy the dials, kind, vertex groups and collider settings of the active object to the other selected meshes, and
    simulate these. Missing vertex groups get the weights of the nearest points on its surface"""

    bl_label = "Copy Setup to Selected"

    @classmethod
    def poll(cls, context: Context) -> bool:
        can_copy = setup_source(context) is not None and setup_targets(context)
        message = "Select meshes, then the object whose setup you want last"
        return is_met(cls, can_copy, message) and can_start_job(cls, context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return setup_targets(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        source = setup_source(context)
        notes = apply_setup(obj, read_setup(source), source)
        obj.dampsim.enabled = True
        return "; ".join(notes) or "setup copied"


class _SetupFile:
    filepath: StringProperty(subtype="FILE_PATH", options={"SKIP_SAVE"})
    filter_glob: StringProperty(default="*.json", options={"HIDDEN"})

    @classmethod
    def poll(cls, context: Context) -> bool:
        return active_simulated(context) is not None and can_start_job(cls, context)

    def invoke(self, context: Context, event: Event) -> set[str]:
        self.filepath = self.filepath or bpy.path.clean_name(active_simulated(context).name) + ".json"
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}


class DAMPSIM_OT_setup_save(_SetupFile, EditOperator, Operator):
    """Save the dials, kind, and the names of vertex groups and collections of the active object to a JSON file"""

    bl_label = "Save Setup"
    bl_options = set[str]()

    check_existing: BoolProperty(default=True, options={"HIDDEN"})

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        path = Path(bpy.path.ensure_ext(bpy.path.abspath(self.filepath), ".json"))
        if path.is_dir() or not path.name.removesuffix(".json").strip("."):
            raise ParameterError(f"{obj.name}: the setup has no file name. Choose a folder and type a name.")
        try:
            write_atomically(path, setup_text(read_setup(obj)))
        except OSError as error:
            problem = error.strerror or type(error).__name__
            message = f"{obj.name}: {path} cannot be written ({problem}). Choose another folder."
            raise ParameterError(message) from None
        report(self, {"INFO"}, f"{obj.name}: setup saved to {path}")


class DAMPSIM_OT_setup_load(ChosenObjectsOperator, _SetupFile, Operator):
    """Apply a setup from a JSON file to all selected simulated objects"""

    bl_label = "Load Setup"

    _setup: Setup

    def execute(self, context: Context) -> set[str]:
        try:
            self._setup = read_setup_file(Path(bpy.path.abspath(self.filepath)))
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        return super().execute(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        return "; ".join(apply_setup(obj, self._setup)) or "setup loaded"


def read_setup_file(path: Path) -> Setup:
    """Return the setup of a JSON file. Raises ParameterError with one sentence."""
    try:
        file, _ = open_regular_file(path, follow_link=True)
        with file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise ParameterError(f"{path.name}: it cannot be read ({problem}); choose another file.") from None
    return parse_setup(text, path.name)


class DAMPSIM_OT_setup_asset(ChosenObjectsOperator, Operator):
    """Make an asset of the setup of each selected object: an empty that you can drag from the asset browser into any
    file, to copy its setup to meshes"""

    bl_label = "Make Setup Asset"

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        carrier = bpy.data.objects.new(f"{obj.name} Setup", None)
        carrier.dampsim.carries_setup = True
        apply_setup(carrier, read_setup(obj))
        carrier.asset_mark()
        carrier.asset_data.description = f"DampSim setup of {obj.name}"
        carrier.asset_data.tags.new("DampSim", skip_if_exists=True)
        return f"asset '{carrier.name}' added"


class DAMPSIM_PT_setup(ChildPanel, Panel):
    bl_label = "Setup"

    def draw(self, context: Context) -> None:
        column, chosen = enabled_column(self.layout, context, align=True), chosen_simulated(context)
        draw_setup_copy(column, context)
        column.operator(DAMPSIM_OT_setup_save.bl_idname, icon="EXPORT")
        for operator, icon in ((DAMPSIM_OT_setup_load, "IMPORT"), (DAMPSIM_OT_setup_asset, "ASSET_MANAGER")):
            column.operator(operator.bl_idname, text=translate(count_label(operator.bl_label, chosen)), icon=icon)
