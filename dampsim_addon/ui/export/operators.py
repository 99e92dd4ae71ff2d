"""Operator that exports baked objects, with its dialog, and the checks of parts that formats cannot hold."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import bpy
from bpy.props import EnumProperty, IntProperty, StringProperty
from bpy.types import Context, Event, Operator

from ....core import SceneError
from ....core.base.wording import format_count, format_percent
from ...blender.vertex_groups import MAX_EXPORTED_BONES
from ...jobs import export
from ...jobs.export import apply_bone_limit
from ...model.objects import can_start_job, chosen_simulated
from ...model.registry import reuse_last_scan
from ...status.pieces import accept, is_accepted, known_parts
from ...translations import report, translate
from ...work.operators import ModalJob
from ...work.steps import Step
from ..common.issue import Check, Issue
from ..common.layout import draw_wrapped
from ..common.operators import NamedOperator, is_met


def _too_many_bones(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    parts = known_parts(obj)
    if parts is None or not parts.overweighted.any():
        return None
    count = int(parts.overweighted.sum())
    verb = "has" if count == 1 else "have"
    return Issue(
        f"glTF: {format_count(count, 'vertex')} {verb} more than {MAX_EXPORTED_BONES} bone weights",
        f"Limit to {MAX_EXPORTED_BONES} Bones",
        lambda o, s: apply_bone_limit(o),
        f"Keep the {MAX_EXPORTED_BONES} largest bone weights of each vertex. Then bake again",
        vertices=parts.overweighted,
    )


def _vertices_without_faces(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    parts = known_parts(obj)
    if parts is None or not parts.faceless.any() or is_accepted(obj, "faceless", parts.faceless):
        return None
    vertices, count = parts.faceless, int(parts.faceless.sum())
    verb = "belongs" if count == 1 else "belong"
    return Issue(
        f"glTF: {format_count(count, 'vertex')} {verb} to no face and would be left out",
        f"Export without {'It' if count == 1 else 'Them'}",
        lambda o, s: accept(o, "faceless", vertices),
        "Do not compare these vertices after an export, and do not warn again about them",
        vertices=vertices,
    )


EXPORT_CHECKS: dict[str, Check] = {"bones": _too_many_bones, "faceless": _vertices_without_faces}


class DAMPSIM_OT_export(NamedOperator, ModalJob, Operator):
    """Export the selected baked objects to glTF, FBX, Alembic, USD or textures, then check the written files"""

    bl_label = "Export and Check"
    bl_options = {"UNDO"}
    ended_by_esc = "stops"

    filepath: StringProperty(
        name="Files",
        description="Choose the file path, without extension. If empty, write the files next to the .blend file",
        subtype="FILE_PATH",
        options={"SKIP_SAVE", "PATH_SUPPORTS_BLEND_RELATIVE"},
    )
    format: EnumProperty(
        name="Formats",
        items=[
            (form.name, form.label, f"Write {form.label}. Hold Shift to choose several formats")
            for form in export.FORMATS
        ],
        options={"ENUM_FLAG"},
        default={form.name for form in export.DEFAULT_FORMATS},
    )
    frames: EnumProperty(
        name="Frames",
        items=[
            ("SCENE", "Scene", "Export the frame range of the scene", 0),
            ("PREVIEW", "Preview", "Export the preview range of the timeline", 1),
            ("CUSTOM", "Custom", "Export the frames from Start to End", 2),
        ],
    )
    engine: EnumProperty(
        name="Engine",
        description="Choose the engine whose limits of bone weights, morph targets and bones are checked",
        items=[
            ("NONE", "None", "Do not check engine limits", 0),
            *(
                (one.name, one.label, one.description or f"Check the limits of {one.label}", number)
                for number, one in enumerate(export.ENGINES, 1)
            ),
        ],
    )
    start: IntProperty(name="Start", description="Set the first exported frame", default=1, min=0)
    end: IntProperty(name="End", description="Set the last exported frame", default=250, min=0)

    _exported: Sequence[export.ExportResult] = ()
    _has_dialog = False

    @classmethod
    def poll(cls, context: Context) -> bool:
        with reuse_last_scan():
            any_baked = any(obj.dampsim.baked for obj in chosen_simulated(context))
        return is_met(cls, any_baked, "Select a baked object") and can_start_job(cls, context)

    def subject(self, context: Context) -> str:
        return ", ".join(obj.name for obj in self._baked_objects(context))

    def _baked_objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if obj.dampsim.baked]

    def _base_path(self) -> Path:
        if not self.filepath and not bpy.data.filepath:
            raise SceneError("The scene is not saved yet. Save it first, or choose a path for the export.")
        return export.base_path(bpy.path.abspath(self.filepath) if self.filepath else default_path())

    def _frame_range(self, scene: bpy.types.Scene) -> tuple[int, int]:
        if self.frames == "CUSTOM":
            return self.start, self.end
        if self.frames == "PREVIEW":
            return scene.frame_preview_start, scene.frame_preview_end
        return scene.frame_start, scene.frame_end

    def invoke(self, context: Context, event: Event) -> set[str]:
        if self.filepath:
            return set(super().invoke(context, event))
        self.filepath, self._has_dialog = str(default_path()), True
        if not self.properties.is_property_set("end"):
            self.start, self.end = context.scene.frame_start, context.scene.frame_end
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}

    def execute(self, context: Context) -> set[str]:
        if not self._has_dialog:
            return super().execute(context)
        # Run with progress and ESC, as other jobs do.
        options = {name: getattr(self, name) for name in ("filepath", "format", "frames", "engine", "start", "end")}
        bpy.ops.dampsim.export("INVOKE_DEFAULT", **options)
        # Blender stores the chosen options for the next export.
        return {"FINISHED"}

    def draw(self, context: Context) -> None:
        layout, scene = self.layout, context.scene
        layout.use_property_split, layout.use_property_decorate = True, False
        layout.column().prop(self, "format")
        layout.prop(self, "engine")
        column = layout.column(align=True)
        column.prop(self, "frames")
        if self.frames == "CUSTOM":
            column.prop(self, "start")
            column.prop(self, "end")
        else:
            first, last = self._frame_range(scene)
            column.label(text=translate(f"Frames {first} to {last}"))
        for text in self._known_problems(context):
            draw_wrapped(layout, text, "ERROR", context)
        if "FBX" in self.format:
            draw_wrapped(layout, "Set Offset to 0 when you import the FBX file into Blender", "INFO", context)

    def _known_problems(self, context: Context) -> list[str]:
        """Return the parts that the chosen formats cannot hold, each once."""
        found = [
            f"{obj.name}: {text}"
            for obj in self._baked_objects(context)
            for form in export.FORMATS
            if form.name in self.format
            for text in export.lost_parts(obj, form.name)
        ]
        engine = export.find_engine(self.engine)
        if engine is not None and {form.name for form in export.DEFAULT_FORMATS} & set(self.format):
            found += [
                f"{o.name}: {said}" for o in self._baked_objects(context) for said in export.exceeded_limits(o, engine)
            ]
        return list(dict.fromkeys(found))

    def work(self, context: Context) -> Generator[Step]:
        objects = self._baked_objects(context)
        formats = [form for form in export.FORMATS if form.name in self.format]
        scene, layer = context.scene, context.view_layer
        self._exported = yield from export.export_objects(
            scene, layer, objects, self._base_path(), formats, self._frame_range(scene), export.find_engine(self.engine)
        )
        for one in self._exported:
            if one.problem:
                report(self, {"ERROR"}, one.problem)
            elif one.warning:
                report(self, {"WARNING"}, one.warning)
        for obj in objects:
            results = [one for one in self._exported if one.name == obj.name]
            errors = [one.problem or one.warning or f"{one.label} {format_percent(one.part)}" for one in results]
            notes = dict.fromkeys(note for one in results for note in one.notes)
            obj.dampsim.exported = "; ".join(text.rstrip(".") for text in (*errors, *notes))

    def completion_messages(self, context: Context) -> tuple[str, str]:
        errors = ", ".join(
            f"{Path(one.path).name} {format_percent(one.part)}" for one in self._exported if not one.problem
        )
        return f"largest error, relative to the object's size: {errors}", "export stopped"


def default_path() -> Path:
    """Return the path of exports without their suffix: next to the .blend file, or in the user's folder.

    A suffix of the name keeps the user's own exports, which may have the scene's name, from being overwritten.
    """
    blend = Path(bpy.data.filepath) if bpy.data.filepath else Path.home() / "untitled"
    return blend.with_name(f"{blend.stem}_baked")
