"""The buttons."""

from __future__ import annotations

import time
from collections.abc import Generator

import bpy
import numpy as np
from bpy.props import BoolProperty
from bpy.types import Context, Event, Operator

from ..core.errors import DampSimError
from . import job

# Between two redraws a bake works for about this long, s.
_SLICE = 0.1
_TIMER = 0.01
# Events that only turn the view.
_LOOKING = {"MIDDLEMOUSE", "MOUSEMOVE", "WHEELUPMOUSE", "WHEELDOWNMOUSE", "TRACKPADPAN", "TRACKPADZOOM", "MOUSEROTATE"}
# A new object's Young's modulus in parts of the pressure at the foot of a column of its height: sags by a few percent.
_FIRM = 30.0


def chosen(context: Context) -> bpy.types.Object | None:
    """The active object if DampSim simulates it."""
    obj = context.object
    return obj if obj is not None and obj.type == "MESH" and obj.dampsim.enabled else None


def baking(context: Context) -> bool:
    return bool(context.window_manager.dampsim_progress.object_name)


class DAMPSIM_OT_add(Operator):
    """Simulate the selected meshes as solid bodies"""

    bl_idname = "dampsim.add"
    bl_label = "Add"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not any(obj.type == "MESH" and not obj.dampsim.enabled for obj in context.selected_objects):
            cls.poll_message_set("Select a mesh that DampSim does not simulate yet")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        for obj in context.selected_objects:
            if obj.type != "MESH" or obj.dampsim.enabled:
                continue
            group = obj.dampsim
            group.enabled = True
            if not group.pin_group and len(obj.vertex_groups) and obj.vertex_groups.active is not None:
                named = [g.name for g in obj.vertex_groups if g.name.lower() in ("pin", "pins", "goal")]
                group.pin_group = named[0] if named else ""
            height = max(*obj.dimensions)
            if height > 0.0:
                pressure = group.density * np.linalg.norm(context.scene.gravity) * height / 1000.0
                if pressure > 0.0:
                    group.stiffness = float(f"{_FIRM * pressure:.2g}")
        return {"FINISHED"}


class DAMPSIM_OT_remove(Operator):
    """Take the object out of DampSim; its bake is cleared first"""

    bl_idname = "dampsim.remove"
    bl_label = "Remove"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None and not baking(context)

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        try:
            job.clear(obj)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        obj.dampsim.enabled = False
        return {"FINISHED"}


class DAMPSIM_OT_clear(Operator):
    """Remove the bake and its cached frames; the object is as it was before"""

    bl_idname = "dampsim.clear"
    bl_label = "Clear"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or baking(context):
            return False
        if not obj.dampsim.baked and not job.frames_done(obj):
            cls.poll_message_set("There is no bake to clear")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        try:
            job.clear(chosen(context))
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


class DAMPSIM_OT_measure(Operator):
    """Find out how far the object hangs under its own weight, without baking"""

    bl_idname = "dampsim.measure"
    bl_label = "Measure Sag"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None and not baking(context)

    def execute(self, context: Context) -> set[str]:
        try:
            job.measure(context.scene, context.view_layer, chosen(context))
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        group = chosen(context).dampsim
        self.report({"INFO"}, f"Hangs {group.measured_sag:.3g}% of its size at {group.measured_young:.4g} kPa")
        return {"FINISHED"}


class DAMPSIM_OT_bake(Operator):
    """Simulate the frame range and turn it into shape keys or a point cache. ESC stops and keeps the frames done"""

    bl_idname = "dampsim.bake"
    bl_label = "Bake"
    # Not REGISTER: a redo panel would bake again at each touch.
    bl_options = {"UNDO"}

    resume: BoolProperty(name="Resume", description="Go on after the last simulated frame", options={"SKIP_SAVE"})

    _steps: Generator[job.Step]
    _timer: bpy.types.Timer
    _began: float
    _first: int

    @classmethod
    def poll(cls, context: Context) -> bool:
        if chosen(context) is None:
            cls.poll_message_set("Select an object that DampSim simulates")
            return False
        if baking(context):
            cls.poll_message_set("A bake is running; press ESC to stop it")
            return False
        return True

    def _start(self, context: Context) -> None:
        self._steps = job.run(context.scene, context.view_layer, chosen(context), restart=not self.resume)
        self._began = time.monotonic()
        self._first = -1

    def execute(self, context: Context) -> set[str]:
        """Without a window: all at once."""
        self._start(context)
        try:
            for _ in self._steps:
                pass
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}

    def invoke(self, context: Context, event: Event) -> set[str]:
        if context.screen.is_animation_playing:
            bpy.ops.screen.animation_cancel(restore_frame=False)
        self._start(context)
        progress = context.window_manager.dampsim_progress
        progress.object_name = chosen(context).name
        progress.factor, progress.text = 0.0, "Preparing"
        self._timer = context.window_manager.event_timer_add(_TIMER, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type == "ESC" and event.value == "PRESS":
            return self._end(context, stopped=True)
        if event.type != "TIMER":
            # Nothing of the scene may change while it is being read, but the view may be turned.
            return {"PASS_THROUGH"} if event.type in _LOOKING else {"RUNNING_MODAL"}
        until = time.monotonic() + _SLICE
        try:
            for step in self._steps:
                self._show(context, step)
                if time.monotonic() >= until:
                    break
            else:
                return self._end(context, stopped=False)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            self._end(context, stopped=True, say=False)
            return {"CANCELLED"}
        except Exception:
            self._end(context, stopped=True, say=False)
            raise
        return {"RUNNING_MODAL"}

    def cancel(self, context: Context) -> None:
        self._end(context, stopped=True)

    def _show(self, context: Context, step: job.Step) -> None:
        progress = context.window_manager.dampsim_progress
        progress.factor = step.done / step.total
        progress.text = f"{step.text} {step.done} / {step.total}"
        if step.text == "Simulating":
            if self._first < 0:
                self._first, self._began = step.done, time.monotonic()
            elif step.done > self._first:
                pace = (time.monotonic() - self._began) / (step.done - self._first)
                progress.text += f", {time_left(pace * (step.total - step.done))} left"
        context.workspace.status_text_set(f"DampSim: {progress.text}    ESC: stop and keep what is done")
        redraw(context)

    def _end(self, context: Context, stopped: bool, say: bool = True) -> set[str]:
        # Closing the generator gives the scene back as it was.
        self._steps.close()
        name = context.window_manager.dampsim_progress.object_name
        context.window_manager.event_timer_remove(self._timer)
        context.window_manager.dampsim_progress.object_name = ""
        context.workspace.status_text_set(None)
        redraw(context)
        if stopped:
            if say:
                self.report({"INFO"}, f"{name}: bake stopped; Resume goes on after the last frame")
            return {"CANCELLED"}
        self.report({"INFO"}, f"{name}: baked")
        return {"FINISHED"}


def time_left(seconds: float) -> str:
    whole = int(np.ceil(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def redraw(context: Context) -> None:
    for window in context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


CLASSES = (DAMPSIM_OT_add, DAMPSIM_OT_remove, DAMPSIM_OT_clear, DAMPSIM_OT_measure, DAMPSIM_OT_bake)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)


def unregister() -> None:
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
