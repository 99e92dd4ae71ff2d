"""Operators that key the influence of bakes."""

from __future__ import annotations

import bpy
from bpy.types import Context, Operator

from ...model.objects import can_start_job, selected_simulated
from ...targets.influence import has_influence, key_influence


class DAMPSIM_OT_key_influence(Operator):
    """Insert a keyframe of Influence at the current frame, for all selected bakes"""

    bl_idname = "dampsim.key_influence"
    bl_label = "Key Influence"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return can_start_job(cls, context) and any(has_influence(obj) for obj in selected_simulated(context))

    def execute(self, context: Context) -> set[str]:
        frame = float(context.scene.frame_current)
        for obj in selected_simulated(context):
            key_influence(obj, [(frame, obj.dampsim.influence)])
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_key_influence,)
register, unregister = bpy.utils.register_classes_factory(CLASSES)
