"""Operator that opens a sample scene."""

from __future__ import annotations

from functools import partial

import bpy
from bpy.props import EnumProperty
from bpy.types import Context, Event, Operator

from ....core import SceneError
from ...blender.operator_calls import call_operator
from ...blender.samples import SAMPLES, sample_path
from ...model.objects import can_start_job
from ...translations import report


class DAMPSIM_OT_open_sample(Operator):
    """Open a copy of a sample as a new, unsaved file. Blender asks first whether to save your changes"""

    bl_idname = "dampsim.open_sample"
    bl_label = "Open Sample"

    sample: EnumProperty(name="Sample", items=[(name, title, "") for name, title in SAMPLES.items()])

    @classmethod
    def poll(cls, context: Context) -> bool:
        return can_start_job(cls, context)

    def invoke(self, context: Context, event: Event) -> set[str]:
        return self._open("INVOKE_DEFAULT")

    def execute(self, context: Context) -> set[str]:
        return self._open("EXEC_DEFAULT")

    def _open(self, call: str) -> set[str]:
        """Open it as a start-up file, so that nothing is saved or cached in the folder of the add-on."""
        # After the file is read, this operator no longer exists.
        failure, path = f"Sample {SAMPLES[self.sample]} cannot be opened", sample_path(self.sample)
        try:
            call_operator(
                partial(bpy.ops.wm.read_homefile, call),
                failure,
                "install DampSim again",
                filepath=str(path),
                load_ui=False,
            )
        except SceneError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


register, unregister = bpy.utils.register_classes_factory((DAMPSIM_OT_open_sample,))
