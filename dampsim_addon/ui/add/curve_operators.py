"""Ropes for curves: a wire mesh along the centre line is simulated, and the curve follows its bake."""

from __future__ import annotations

import bpy
from bpy.types import Context, Operator

from ...blender.curve_points import centre_line
from ...model.objects import all_simulated, can_start_job
from ...translations import report
from ..contact.overlap_reports import report_with_overlaps
from .add_operators import enable_simulation


def rope_of_curve(curve: bpy.types.Object) -> bpy.types.Object | None:
    """Return the rope that a curve already follows, or None."""
    return next((obj for obj in all_simulated() if obj.dampsim.curve == curve), None)


class DAMPSIM_OT_curve_rope(Operator):
    """Simulate the centre line as a rope, pinned at the first point of each open spline. The curve follows the bake"""

    bl_idname = "dampsim.curve_rope"
    bl_label = "Simulate as a Rope"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        curve = context.object
        is_local_curve = (
            curve is not None and curve.type == "CURVE" and curve.library is None and context.mode == "OBJECT"
        )
        return is_local_curve and can_start_job(cls, context)

    def execute(self, context: Context) -> set[str]:
        curve = context.object
        if rope_of_curve(curve) is not None:
            report(
                self, {"ERROR"}, f"{curve.name}: it already follows {rope_of_curve(curve).name}. Simulate that object."
            )
            return {"CANCELLED"}
        line = centre_line(curve.data)
        if not len(line.edges):
            report(self, {"ERROR"}, f"{curve.name}: the curve has no length. Give it two or more points.")
            return {"CANCELLED"}
        mesh = bpy.data.meshes.new(f"{curve.name} Rope")
        mesh.from_pydata(line.points.tolist(), line.edges.tolist(), [])
        rope = bpy.data.objects.new(mesh.name, mesh)
        for collection in curve.users_collection:
            collection.objects.link(rope)
        rope.parent, rope.hide_render, rope.display_type = curve, True, "WIRE"
        if line.open_starts:
            rope.vertex_groups.new(name="Pin").add(line.open_starts, 1.0, "REPLACE")
        for other in context.selected_objects:
            other.select_set(False)
        rope.select_set(True)
        context.view_layer.objects.active = rope
        context.view_layer.update()
        rope.dampsim.curve = curve
        text = enable_simulation(rope, context.scene)
        if curve.data.bevel_depth > 0.0:
            rope.dampsim.thickness = 2000.0 * curve.data.bevel_depth
        report_with_overlaps(self, context, f"{rope.name}: {text}; {curve.name} follows its bake", [rope])
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_curve_rope,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
