"""Operators that bake, and export baked objects."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, IntProperty, StringProperty
from bpy.types import Context, Operator

from ...core.errors import SceneError
from ..jobs import bake as job
from ..jobs import export
from ..scene.groups import groups_of
from ..scene.objects import free, selected, simulated, simulated_in
from ..scene.registry import trusting
from ..work.modal import ModalJob
from ..work.steps import Step


class DAMPSIM_OT_bake(ModalJob, Operator):
    """Simulate the frame range and bake it to shape keys or a point cache. ESC stops and keeps the finished frames"""

    bl_idname = "dampsim.bake"
    bl_label = "Bake"
    # Not REGISTER: each change in the redo panel would bake again.
    bl_options = {"UNDO"}
    ended_by_esc = "stops and keeps the finished frames"

    resume: BoolProperty(name="Resume", description="Continue after the last simulated frame", options={"SKIP_SAVE"})
    rebake: BoolProperty(
        name="Re-bake", description="Simulate again from the given frame on, and keep the frames before it",
        options={"SKIP_SAVE"},
    )  # fmt: skip
    frame: IntProperty(name="Frame", description="First frame to simulate again", options={"SKIP_SAVE"})
    which: EnumProperty(
        name="Objects",
        items=[
            ("ACTIVE", "Active", "The active object"),
            ("SELECTED", "Selected", "All selected simulated objects"),
            ("ALL", "All", "All simulated objects of the scene"),
        ],
        options={"SKIP_SAVE"},
    )

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        if properties.rebake:
            return "Simulate again from this frame on. Earlier frames are kept if their inputs did not change"
        return "Continue after the last simulated frame" if properties.resume else str(cls.__doc__)

    @classmethod
    def poll(cls, context: Context) -> bool:
        with trusting():
            none = not simulated_in(context.scene)
        if none:
            cls.poll_message_set("Select an object that DampSim simulates")
            return False
        return free(cls, context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        if self.which == "ACTIVE":
            return simulated([context.object] if context.object else [])
        return selected(context) if self.which == "SELECTED" else simulated_in(context.scene)

    def subject(self, context: Context) -> str:
        return ", ".join(group.name for group in groups_of(self.objects(context)))

    def work(self, context: Context) -> Generator[Step]:
        objects = self.objects(context)
        groups = groups_of(objects)
        if not objects:
            raise SceneError("No simulated object is selected. Select one, or press Bake All.")
        restart, start = not (self.resume or self.rebake), self.frame if self.rebake else None
        scene, layer = context.scene, context.view_layer
        if len(groups) == 1:
            results = yield from job.run_group(scene, layer, groups[0], restart, start)
        else:
            results = yield from job.run_all(scene, layer, objects, restart, start)
        for result in results:
            if result.problem:
                self.report({"ERROR"}, result.problem)

    def said(self, context: Context) -> tuple[str, str]:
        return "baked", "bake stopped. Resume continues after the last simulated frame"


class DAMPSIM_OT_export(ModalJob, Operator):
    """Export the selected baked objects to glTF and FBX with their shape keys, then check the written files"""

    bl_idname = "dampsim.export"
    bl_label = "Export and Check"
    bl_options = {"UNDO"}
    ended_by_esc = "stops"

    filepath: StringProperty(
        name="Files",
        description="File path without extension. If empty, the files are written next to the .blend file",
        subtype="FILE_PATH",
        options={"SKIP_SAVE", "PATH_SUPPORTS_BLEND_RELATIVE"},
    )
    format: EnumProperty(
        name="Formats",
        items=[(form.name, form.label, f"Write a {form.label} file") for form in export.FORMATS],
        options={"ENUM_FLAG"},
        default={form.name for form in export.FORMATS},
    )

    _exported: Sequence[export.Exported] = ()

    @classmethod
    def poll(cls, context: Context) -> bool:
        with trusting():
            baked = any(obj.dampsim.baked for obj in selected(context))
        if not baked:
            cls.poll_message_set("Select a baked object")
            return False
        return free(cls, context)

    def subject(self, context: Context) -> str:
        return ", ".join(obj.name for obj in self._objects(context))

    def _objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in selected(context) if obj.dampsim.baked]

    def _base(self, context: Context) -> Path:
        given = Path(bpy.path.abspath(self.filepath)) if self.filepath else None
        if given is not None:
            return given.with_suffix("") if given.suffix in {form.suffix for form in export.FORMATS} else given
        if not bpy.data.filepath:
            raise SceneError(
                "The scene is not saved yet. Save it first: the export is written next to the .blend file."
            )
        # A suffix keeps the user's own exports, which may have the scene's name, from being overwritten.
        return Path(bpy.data.filepath).with_name(f"{Path(bpy.data.filepath).stem}_morphs")

    def work(self, context: Context) -> Generator[Step]:
        objects = self._objects(context)
        formats = [form for form in export.FORMATS if form.name in self.format]
        scene, layer = context.scene, context.view_layer
        self._exported = yield from export.run(scene, layer, objects, self._base(context), formats)
        for one in self._exported:
            if one.problem:
                self.report({"ERROR"}, one.problem)
        for obj in objects:
            obj.dampsim.exported = "; ".join(
                f"{one.format} {100.0 * one.part:.2g}%" for one in self._exported if one.name == obj.name
            )

    def said(self, context: Context) -> tuple[str, str]:
        errors = ", ".join(f"{Path(one.path).name} {100.0 * one.part:.2g}%" for one in self._exported)
        return f"largest error, relative to the object's size: {errors}", "export stopped"


CLASSES = (DAMPSIM_OT_bake, DAMPSIM_OT_export)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
