"""Panel of gravity and force fields."""

from __future__ import annotations

from bpy.types import Context, Panel

from ..scene.force_fields import reaching
from ..scene.groups import named
from ..scene.objects import chosen, working
from .layout import Child, dial, field, meant, wrapped


class DAMPSIM_PT_fields(Child, Panel):
    bl_label = "Gravity and Force Fields"
    bl_idname = "DAMPSIM_PT_fields"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        column = layout.column()
        column.enabled = not working(context)
        for parameter in meant(obj.dampsim, "fields"):
            dial(column, obj.dampsim, parameter)
        field(column, obj.dampsim, "field_collection", "Effector Collection", context)
        others = [other for other in reaching(obj, context.view_layer) if not other.hide_viewport]
        text = f"Affected by {named(others)}" if others else "No force field of the scene affects it"
        wrapped(layout, text, "FORCE_FORCE" if others else "NONE", context)
