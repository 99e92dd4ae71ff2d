"""What the panel says of objects that an earlier DampSim saved."""

from __future__ import annotations

import bpy
from bpy.types import Context, Operator, UILayout

from ...core.scene.parameters import DampingBy
from ..scene.earlier_law import go_back, is_kept, told
from ..scene.objects import chosen, free
from .layout import wrapped


class _OfTold:
    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and bool(told(obj)) and free(cls, context)


class DAMPSIM_OT_earlier_law(_OfTold, Operator):
    """Let it move by the law that it was made with, with its Settle of then; so does all that is simulated with it"""

    bl_idname = "dampsim.earlier_law"
    bl_label = "Use the Earlier Law"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        go_back(told(chosen(context)))
        return {"FINISHED"}


class DAMPSIM_OT_dismiss_law(_OfTold, Operator):
    """Say no more of it"""

    bl_idname = "dampsim.dismiss_law"
    bl_label = "Dismiss"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        for obj in told(chosen(context)):
            obj.dampsim.law_told = False
        return {"FINISHED"}


def draw(layout: UILayout, context: Context) -> None:
    obj = chosen(context)
    group = obj.dampsim
    # Somebody may have chosen another damping since.
    if not group.law_told or (is_kept(obj) and group.damping_by != DampingBy.FIRST_MODE):
        return
    box = layout.box().column(align=True)
    row = box.row()
    wrapped(row.column(), _text(obj), "INFO", context, beside=2.0)
    row.operator(DAMPSIM_OT_dismiss_law.bl_idname, text="", icon="X", emboss=False)
    if not is_kept(obj) and group.damping_by == DampingBy.DIALS:
        box.operator(DAMPSIM_OT_earlier_law.bl_idname, icon="LOOP_BACK")


def _text(obj: bpy.types.Object) -> str:
    group = obj.dampsim
    if is_kept(obj):
        return (
            "Made with the earlier law, and still moved by it: its Settle is driven or keyed in another file, "
            "and was not taken over"
        )
    before = group.law_settle
    return (
        f"Made with the earlier law; its Settle was taken over: {before:.4g} is now {before * group.law_factor:.4g}, "
        "which counts from where the animation stops. How far it is thrown goes with Settle now, not with Stiffness: "
        "Follow-through may want another value"
    )


CLASSES = (DAMPSIM_OT_earlier_law, DAMPSIM_OT_dismiss_law)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
