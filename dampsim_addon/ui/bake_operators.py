"""The buttons that bake, and export what is baked."""

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
    """Simulate the frame range and turn it into shape keys or a point cache. ESC stops and keeps the frames done"""

    bl_idname = "dampsim.bake"
    bl_label = "Bake"
    # Not REGISTER: a redo panel would bake again at each touch.
    bl_options = {"UNDO"}
    ended_by_esc = "stops and keeps what is done"

    resume: BoolProperty(name="Resume", description="Go on after the last simulated frame", options={"SKIP_SAVE"})
    rebake: BoolProperty(
        name="Re-bake", description="Keep the frames before the given one and simulate it and all after it anew",
        options={"SKIP_SAVE"},
    )  # fmt: skip
    frame: IntProperty(name="Frame", description="The first frame to simulate anew", options={"SKIP_SAVE"})
    which: EnumProperty(
        name="Objects",
        items=[
            ("ACTIVE", "Active", "The active object"),
            ("SELECTED", "Selected", "All selected objects that DampSim simulates"),
            ("ALL", "All", "All objects of the scene that DampSim simulates"),
        ],
        options={"SKIP_SAVE"},
    )

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        if properties.rebake:
            return "Simulate this frame and all after it anew; what lies before it stays, if nothing changed there"
        return "Go on after the last simulated frame" if properties.resume else str(cls.__doc__)

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
            raise SceneError("Nothing is selected that DampSim simulates; select an object, or bake all.")
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
        return "baked", "bake stopped; Resume goes on after the last frame"


class DAMPSIM_OT_export(ModalJob, Operator):
    """Write the selected baked objects to glTF and FBX so that the morphs are kept, read the files back and compare"""

    bl_idname = "dampsim.export"
    bl_label = "Export and Check"
    bl_options = {"UNDO"}
    ended_by_esc = "stops"

    filepath: StringProperty(
        name="Files",
        description="Where to, without .glb and .fbx; empty for beside the .blend file",
        subtype="FILE_PATH",
        options={"SKIP_SAVE", "PATH_SUPPORTS_BLEND_RELATIVE"},
    )
    format: EnumProperty(
        name="Formats",
        items=[(form.name, form.label, f"A file of {form.label}") for form in export.FORMATS],
        options={"ENUM_FLAG"},
        default={form.name for form in export.FORMATS},
    )

    _exported: Sequence[export.Exported] = ()

    @classmethod
    def poll(cls, context: Context) -> bool:
        with trusting():
            baked = any(obj.dampsim.baked for obj in selected(context))
        if not baked:
            cls.poll_message_set("Select an object that is baked")
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
            raise SceneError("The scene has no file yet; save it, and the export goes beside it.")
        # Not the scene's own name, which the artist's exports may have.
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
        return f"largest error of size: {errors}", "export stopped"


CLASSES = (DAMPSIM_OT_bake, DAMPSIM_OT_export)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
