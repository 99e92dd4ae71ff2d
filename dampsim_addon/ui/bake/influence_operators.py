"""Operators that key the influence of bakes, land and fade them, let them rest by a frame, and retime them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty
from bpy.types import Context, Event, Menu, Operator, UILayout

from ....core import DampSimError
from ....core.base.wording import format_number
from ...jobs import bake as job
from ...jobs.blends import blend_bakes, remove_baked_blends
from ...jobs.landing import kept_seconds_scale, retime_bake, set_rest_frame, speed_text
from ...model.groups import format_names, groups_of
from ...model.objects import active_simulated, can_start_job, chosen_simulated
from ...targets.influence import has_influence, key_influence
from ...targets.landing import DEFAULT_LENGTH, MIN_LENGTH, Blend, check_blend, stored_weights
from ...targets.retiming import MAX_SCALE, MIN_SCALE, is_time_scale, time_scale
from ...translations import report, translate
from ...work.operators import ModalJob
from ...work.steps import Step
from ..common.operators import ChosenObjectsOperator, NamedOperator, is_met, report_problems
from .operators import report_failures

_BLEND_ITEMS = [
    ("LAND", "Land on Pose", "Blend the bake into the animated pose, which it reaches at the current frame", 0),
    ("FADE_IN", "Fade In", "Blend the bake in from the animated pose, from the current frame on", 1),
    ("FADE_OUT", "Fade Out", "Blend the bake out to the animated pose, from the current frame on", 2),
]


def _baked_objects(context: Context) -> list[bpy.types.Object]:
    """Return the active and all other selected objects that have a bake."""
    return [obj for obj in chosen_simulated(context) if obj.dampsim.baked]


class DAMPSIM_OT_key_influence(ChosenObjectsOperator, Operator):
    """Insert a keyframe of Influence at the current frame, for all selected bakes"""

    bl_label = "Key Influence"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and any(map(has_influence, chosen_simulated(context)))

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if has_influence(obj)]

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        key_influence(obj, [(float(context.scene.frame_current), obj.dampsim.influence)])


class _BakedObjectsOperator(NamedOperator):
    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_met(cls, _baked_objects(context), "Select a baked object") and can_start_job(cls, context)

    def subject(self, context: Context) -> str:
        return format_names(_baked_objects(context))


class DAMPSIM_OT_blend(_BakedObjectsOperator, ModalJob, Operator):
    """Blend the selected bakes over some frames. A re-bake keeps the blend"""

    bl_label = "Blend Bake"
    bl_options = {"REGISTER", "UNDO"}
    ended_by_esc = "stops"

    kind: EnumProperty(name="Blend", description="Choose how Influence changes", items=_BLEND_ITEMS)
    frame: IntProperty(
        name="Frame", description="Set the frame at which a landing ends, or at which a fade begins",
        options={"SKIP_SAVE"},
    )  # fmt: skip
    length: IntProperty(name="Length", description="Set the number of frames", default=DEFAULT_LENGTH, min=MIN_LENGTH)
    _next_steps: Generator[Step] | None = None
    _has_bakes = False

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        return translate(str(next(item[2] for item in _BLEND_ITEMS if item[0] == properties.kind)))

    def invoke(self, context: Context, event: Event) -> set[str]:
        self.frame = context.scene.frame_current
        steps = self._blend(context)
        try:
            if next(steps, None) is None:
                # Only Influence was keyed.
                return {"FINISHED"} if self._has_bakes else {"CANCELLED"}
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        self._next_steps = steps
        return super().invoke(context, event)

    def execute(self, context: Context) -> set[str]:
        found = super().execute(context)
        return found if self._has_bakes else {"CANCELLED"}

    def _objects(self, context: Context) -> list[bpy.types.Object]:
        """Return the bakes that can be blended, and report the others."""
        found = []
        for obj in _baked_objects(context):
            try:
                check_blend(obj, Blend[self.kind], self.frame, self.length)
                found.append(obj)
            except DampSimError as error:
                report(self, {"ERROR"}, str(error))
        return found

    def work(self, context: Context) -> Generator[Step]:
        steps, self._next_steps = self._next_steps, None
        return steps or self._blend(context)

    def _blend(self, context: Context) -> Generator[Step]:
        scene, layer, objects = context.scene, context.view_layer, self._objects(context)
        self._has_bakes, self.finished_names = bool(objects), format_names(objects)
        warnings = yield from blend_bakes(scene, layer, objects, Blend[self.kind], self.frame, self.length)
        for warning in filter(None, warnings):
            report(self, {"WARNING"}, warning)

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "blended", "blend stopped"


class DAMPSIM_OT_remove_blends(NamedOperator, ModalJob, Operator):
    """Remove the blends from the frames of the selected bakes, and write these again"""

    bl_label = "Remove Blends"
    bl_options = {"UNDO"}
    ended_by_esc = "stops"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return any(map(stored_weights, chosen_simulated(context))) and can_start_job(cls, context)

    def subject(self, context: Context) -> str:
        return format_names(chosen_simulated(context))

    def work(self, context: Context) -> Generator[Step]:
        objects = [obj for obj in chosen_simulated(context) if stored_weights(obj)]
        self.finished_names = format_names(objects)
        yield from remove_baked_blends(context.scene, context.view_layer, objects)

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "blends removed", "stopped"


class DAMPSIM_OT_rest_by_frame(_BakedObjectsOperator, ModalJob, Operator):
    """Set Settle so that the selected objects come to rest by this frame, and bake them again"""

    bl_label = "Rest by Frame"
    bl_options = {"UNDO"}
    ended_by_esc = "stops and keeps the finished frames"

    frame: IntProperty(name="Frame", description="Set the frame by which the object rests", options={"SKIP_SAVE"})

    def work(self, context: Context) -> Generator[Step]:
        objects = _baked_objects(context)
        changed, problems = [], []
        for obj in objects:
            try:
                set_rest_frame(context.scene, obj, self.frame)
                changed.append(obj)
            except DampSimError as error:
                problems.append(str(error))
        report_problems(self, problems, len(objects))
        results = yield from job.bake_all(context.scene, context.view_layer, changed, False)
        self.finished_names = report_failures(self, groups_of(changed), results)

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return f"at rest by frame {self.frame}", "bake stopped. Resume continues after the last finished frame"


class DAMPSIM_OT_retime(_BakedObjectsOperator, ChosenObjectsOperator, Operator):
    """Let the bakes of the selected objects play faster or slower, from their first frame on, without a new bake"""

    bl_label = "Retime"

    scale: FloatProperty(
        name="Scale", description="Set how many times longer the bake plays: 2 for half its speed, 1 for its own",
        default=1.0, min=MIN_SCALE, max=MAX_SCALE, soft_min=0.25, soft_max=4.0, precision=3, options={"SKIP_SAVE"},
    )  # fmt: skip
    keeps_seconds: BoolProperty(
        name="Keep Seconds", description="Scale the bake so that it takes as many seconds as when it was baked",
        options={"SKIP_SAVE", "HIDDEN"},
    )  # fmt: skip

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        text = "Scale the bake so that it takes as many seconds as at the frame rate at which it was baked"
        return translate(text) if properties.keeps_seconds else " ".join(translate(str(cls.__doc__)).split())

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return _baked_objects(context)

    def invoke(self, context: Context, event: Event) -> set[str]:
        obj = active_simulated(context)
        if self.keeps_seconds or self.properties.is_property_set("scale") or obj is None:
            return set(self.execute(context))
        self.scale = time_scale(obj) or 1.0
        return set(context.window_manager.invoke_props_dialog(self, confirm_text=self.bl_label))

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        scale = retime_bake(context.scene, obj, None if self.keeps_seconds else self.scale)
        return speed_text(scale)


class DAMPSIM_MT_retime(Menu):
    """Change the timing of the bake"""

    bl_label = "Retime"

    def draw(self, context: Context) -> None:
        layout, scene, obj = self.layout, context.scene, active_simulated(context)
        if obj is None:
            return
        layout.operator_context = "INVOKE_DEFAULT"
        layout.operator(DAMPSIM_OT_retime.bl_idname, text="Scale…", icon="TIME")
        frame, scale = scene.frame_current, kept_seconds_scale(obj, scene)
        text = translate(f"To Rest at Frame {frame}")
        layout.operator(DAMPSIM_OT_rest_by_frame.bl_idname, text=text, icon="FCURVE").frame = frame
        row = layout.row()
        row.enabled = not is_time_scale(obj, scale)
        text = f"Keep Seconds (Scale {format_number(scale, 4)})"
        row.operator(DAMPSIM_OT_retime.bl_idname, text=translate(text), icon="PREVIEW_RANGE").keeps_seconds = True
        row = layout.row()
        row.enabled = not is_time_scale(obj, 1.0)
        row.operator(DAMPSIM_OT_retime.bl_idname, text="Own Speed", icon="LOOP_BACK").scale = 1.0


def draw_retiming(layout: UILayout, context: Context, obj: bpy.types.Object) -> None:
    """Draw the menu for the timing of a bake, with its scale."""
    scale = time_scale(obj)
    text = "Retime" if scale is None or is_time_scale(obj, 1.0) else f"Retime (Scale {format_number(scale, 4)})"
    layout.menu(DAMPSIM_MT_retime.__name__, text=translate(text), icon="TIME")


def draw_blends(layout: UILayout, context: Context, obj: bpy.types.Object) -> None:
    """Draw the buttons that land, fade and rest a bake at the current frame."""
    frame = context.scene.frame_current
    column = layout.column(align=True)
    land = column.operator(DAMPSIM_OT_blend.bl_idname, text=translate(f"Land on Pose at Frame {frame}"), icon="IMPORT")
    if stored_weights(obj):
        column.operator(DAMPSIM_OT_remove_blends.bl_idname, icon="X")
    row = column.row(align=True)
    fade_in = row.operator(DAMPSIM_OT_blend.bl_idname, text="Fade In", icon="IPO_EASE_IN")
    fade_out = row.operator(DAMPSIM_OT_blend.bl_idname, text="Fade Out", icon="IPO_EASE_OUT")
    land.kind, fade_in.kind, fade_out.kind = "LAND", "FADE_IN", "FADE_OUT"
    text = f"Rest by Frame {frame}"
    column.operator(DAMPSIM_OT_rest_by_frame.bl_idname, text=text, icon="FCURVE").frame = frame
