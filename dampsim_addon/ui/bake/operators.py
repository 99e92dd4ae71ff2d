"""Operators that bake, and that add maps of simulated objects for materials."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty
from bpy.types import Context, Event, Menu, Operator, UILayout

from ....core import SceneError
from ...blender.bone_bakes import rig_of
from ...blender.dampsim_names import bake_mark
from ...blender.maps import detach_maps, maps_modifier
from ...blender.movers import is_local
from ...jobs import bake as job
from ...jobs.result import Result
from ...model.cache_status import known_status
from ...model.colliders import update_maps
from ...model.groups import Group, group_of, groups_of, preview_range
from ...model.objects import (
    active_simulated,
    can_start_job,
    chosen_simulated,
    filter_simulated,
    simulated_in_scene,
)
from ...model.registry import reuse_last_scan
from ...scene_reader.bone_chains import is_selected
from ...translations import report, translate
from ...work.operators import ModalJob, pass_error
from ...work.steps import Step
from ..common.layout import labelled_column
from ..common.operators import ChosenObjectsOperator, EditOperator, NamedOperator, count_label, is_met


def report_failures(operator: Any, groups: Sequence[Group], results: Iterable[Result]) -> str:
    """Report the problems of a bake of some groups. Return the names of the groups without any."""
    problems = {result.name: result.problem for result in results if result.problem}
    for problem in problems.values():
        report(operator, {"ERROR"}, problem)
    baked = [group for group in groups if problems.keys().isdisjoint(obj.name for obj in group.members)]
    return ", ".join(group.name for group in baked)


class DAMPSIM_OT_bake(NamedOperator, ModalJob, Operator):
    """Simulate the frame range and bake it to shape keys, bones or a file. Cached frames are kept up to the first
    that is out of date. ESC stops and keeps the finished frames"""

    bl_label = "Bake"
    # Not REGISTER: each change in the redo panel would bake again.
    bl_options = {"UNDO"}
    ended_by_esc = "stops and keeps the finished frames"

    restart: BoolProperty(
        name="From Scratch",
        description="Discard the cached frames and simulate all frames again",
        options={"SKIP_SAVE"},
    )
    resume: BoolProperty(name="Resume", description="Continue after the last simulated frame", options={"SKIP_SAVE"})
    rebake: BoolProperty(
        name="Re-bake", description="Simulate again from the given frame onwards, and keep the frames before it",
        options={"SKIP_SAVE"},
    )  # fmt: skip
    frame: IntProperty(name="Frame", description="Set the first frame to simulate again", options={"SKIP_SAVE"})
    last: IntProperty(
        name="Last", description="Set the last frame to simulate again; later frames are kept. 0 for all later ones",
        options={"SKIP_SAVE"},
    )  # fmt: skip
    which: EnumProperty(
        name="Objects",
        items=[
            ("ACTIVE", "Active", "Bake the active object"),
            ("SELECTED", "Selected", "Bake the active and all other selected simulated objects"),
            ("ALL", "All", "Bake all simulated objects in the scene"),
        ],
        options={"SKIP_SAVE"},
    )

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        text = ""
        if properties.rebake and properties.last:
            text = "Simulate these frames again, and blend them into the others"
        elif properties.rebake:
            text = "Simulate again from this frame onwards. Earlier frames are kept if their inputs have not changed"
        elif properties.restart:
            text = "Discard the cached frames and simulate all frames again"
        elif properties.resume:
            text = "Continue after the last simulated frame"
        return translate(text) or " ".join(translate(str(cls.__doc__)).split())

    @classmethod
    def poll(cls, context: Context) -> bool:
        with reuse_last_scan():
            objects = simulated_in_scene(context.scene)
        return is_met(cls, objects, "Select an object that DampSim simulates") and can_start_job(cls, context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        if self.which == "ACTIVE":
            return filter_simulated([context.object] if context.object else [])
        return chosen_simulated(context) if self.which == "SELECTED" else simulated_in_scene(context.scene)

    def subject(self, context: Context) -> str:
        return ", ".join(group.name for group in groups_of(self.objects(context)))

    def work(self, context: Context) -> Generator[Step]:
        objects = self.objects(context)
        groups = groups_of(objects)
        if not objects:
            raise SceneError("No simulated object is selected. Select one, or press Bake All.")
        frames = (self.frame, self.last) if self.rebake and self.last else None
        start = self.frame if self.rebake and frames is None else None
        scene, layer = context.scene, context.view_layer
        if len(groups) == 1:
            steps = job.bake_group(scene, layer, groups[0], self.restart, start, resume=self.resume, frames=frames)
        else:
            steps = job.bake_all(scene, layer, objects, self.restart, start, resume=self.resume, frames=frames)
        results = yield from steps
        self.finished_names = report_failures(self, groups, results)

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "baked", "bake stopped. Resume continues after the last finished frame"


# Frames of a range unless the user chooses others.
_RANGE_LENGTH = 30


class DAMPSIM_OT_rebake_range(EditOperator, Operator):
    """Simulate a range of frames again, from the cached frame before it and with the current dials, and blend it into
    the other frames at both ends"""

    bl_label = "Re-bake Range"
    bl_options = {"UNDO"}

    first: IntProperty(name="First Frame", description="Set the first frame to simulate again", options={"SKIP_SAVE"})
    last: IntProperty(name="Last Frame", description="Set the last frame to simulate again", options={"SKIP_SAVE"})

    @classmethod
    def poll(cls, context: Context) -> bool:
        any_baked = any(obj.dampsim.baked for obj in chosen_simulated(context))
        return is_met(cls, any_baked, "Select a baked object") and can_start_job(cls, context)

    def invoke(self, context: Context, event: Event) -> set[str]:
        scene = context.scene
        current = max(scene.frame_current, scene.frame_start + 1)
        self.first, self.last = preview_range(scene) or (current, min(current + _RANGE_LENGTH, scene.frame_end))
        return set(context.window_manager.invoke_props_dialog(self, confirm_text=self.bl_label))

    def draw(self, context: Context) -> None:
        column = labelled_column(self.layout, context)
        column.prop(self, "first")
        column.prop(self, "last")
        column.prop(active_simulated(context).dampsim, "range_blend")

    def edit(self, context: Context) -> None:
        which = "SELECTED" if len(chosen_simulated(context)) > 1 else "ACTIVE"
        chosen = {"which": which, "rebake": True, "frame": self.first, "last": self.last}
        # After the dialog, the bake shows its progress; a script waits for it.
        place = "INVOKE_DEFAULT" if self.options.is_invoke else "EXEC_DEFAULT"
        problem = pass_error(bpy.ops.dampsim.bake, place, **chosen)
        if problem:
            raise SceneError(problem)


class DAMPSIM_MT_bake(Menu):
    """Other ways to bake"""

    bl_label = "Bake"

    def draw(self, context: Context) -> None:
        layout, scene, obj = self.layout, context.scene, active_simulated(context)
        if obj is None:
            return
        frames_done = min(known_status(obj).frame_count, scene.frame_end - scene.frame_start + 1)
        row = layout.row()
        row.enabled = scene.frame_start < scene.frame_current <= scene.frame_start + frames_done
        text = translate(f"Re-bake from Frame {scene.frame_current}")
        rebake = row.operator(DAMPSIM_OT_bake.bl_idname, text=text, icon="FILE_REFRESH")
        rebake.rebake, rebake.frame = True, scene.frame_current
        layout.operator_context = "INVOKE_DEFAULT"
        layout.operator(DAMPSIM_OT_rebake_range.bl_idname, text="Re-bake Range…", icon="PREVIEW_RANGE")
        layout.operator(DAMPSIM_OT_bake.bl_idname, text="Bake from Scratch", icon="RENDER_ANIMATION").restart = True
        objects = simulated_in_scene(scene)
        if len(objects) > 1:
            layout.separator()
            if len(chosen_simulated(context)) > 1:
                layout.operator(DAMPSIM_OT_bake.bl_idname, text=translate(f"Bake Only {group_of(obj).name}"))
            text = translate(f"Bake All ({len(objects)} objects)")
            layout.operator(DAMPSIM_OT_bake.bl_idname, text=text).which = "ALL"


class DAMPSIM_OT_use_preview_range(EditOperator, Operator):
    """Set Start and End of the scene to the preview range, so that the bake and the export cover it. The simulation
    then starts at its first frame"""

    bl_label = "Use Preview Range"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return bool(context.scene.use_preview_range) and can_start_job(cls, context)

    def edit(self, context: Context) -> None:
        scene = context.scene
        # Either assignment moves the other end if needed.
        scene.frame_start, scene.frame_end = scene.frame_preview_start, scene.frame_preview_end
        scene.use_preview_range = False


class DAMPSIM_OT_use_selected_bones(EditOperator, Operator):
    """Let the bones that are selected in Pose Mode follow the simulated mesh. A bone collection stores them"""

    bl_label = "Use Selected Bones"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        bones = obj is not None and _selected_bones(obj)
        return is_met(cls, bones, "Select bones of the rig in Pose Mode") and can_start_job(cls, context)

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        rig, names = rig_of(obj), _selected_bones(obj)
        collections = rig.data.collections
        name = f"{obj.name} Chain"
        chain = rig.data.collections_all.get(name)
        if chain is None:
            active = collections.active
            chain = collections.new(name)
            collections.active = active
        for bone in list(chain.bones):
            chain.unassign(bone)
        for bone in names:
            chain.assign(rig.data.bones[bone])
        obj.dampsim.chain_collection = chain.name


def _selected_bones(obj: bpy.types.Object) -> list[str]:
    rig = rig_of(obj)
    if rig is None or rig.type != "ARMATURE" or not is_local(rig.data):
        return []
    return [bone.name for bone in rig.pose.bones if is_selected(bone) and not bake_mark(bone.bone)]


_REMOVE_TIP = "Remove the maps of the selected objects"


class DAMPSIM_OT_maps(ChosenObjectsOperator, Operator):
    """Add attributes for materials to the selected objects: stretch, compression, contact with colliders, and velocity.
    They render without files. Press again after colliders have changed"""

    bl_label = "Add Maps"

    contact_range: FloatProperty(
        name="Contact Range", min=0.0,
        description="Set the distance from colliders at which contact falls to 0; 0 for 2% of the size, or as before",
        subtype="DISTANCE", options={"SKIP_SAVE"},
    )  # fmt: skip
    remove: BoolProperty(name="Remove", description=_REMOVE_TIP, options={"SKIP_SAVE", "HIDDEN"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        return translate(_REMOVE_TIP) if properties.remove else " ".join(translate(str(cls.__doc__)).split())

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        if self.remove:
            detach_maps(obj)
        else:
            update_maps(context.view_layer, obj, self.contact_range)


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
