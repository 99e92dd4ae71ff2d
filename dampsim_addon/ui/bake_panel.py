"""Bake panel."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ..blender.modifiers import base, makes, simulated_makers
from ..jobs.bake import retried
from ..scene.groups import group_of, groups_of
from ..scene.objects import chosen, selected, simulated_in, working
from ..scene.on_disk import known
from ..scene.outdated import changed
from ..scene.touched import length, small
from ..targets import TARGETS, find
from .bake_operators import DAMPSIM_OT_bake, DAMPSIM_OT_export
from .doctor import DAMPSIM_OT_mend, findings
from .layout import BOX, Child, field, wrapped
from .operators import DAMPSIM_OT_clear


class DAMPSIM_PT_bake(Child, Panel):
    bl_label = "Bake"
    bl_idname = "DAMPSIM_PT_bake"

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj, scene = chosen(context), context.scene
        group = obj.dampsim
        kind = find(group.target) or TARGETS[0]
        column = layout.column()
        column.enabled = not working(context)
        field(column, group, "target", "Bake To", context)
        if not kind.exact:
            field(column, group, "bound_by", "Error Unit", context)
            field(
                column, group, "bound_percent" if group.bound_by == "PERCENT" else "bound_length", "Max Error", context
            )
        frames = column.column(align=True)
        field(frames, scene, "frame_start", "Start", context)
        field(frames, scene, "frame_end", "End", context)
        total = scene.frame_end - scene.frame_start + 1
        count, exactly = vertices(obj, context.view_layer)
        cost = kind.cost(count, max(total, 0))
        most = "" if kind.exact and exactly else "At most "
        wrapped(column, f"{most}{amount(cost.keys, cost.size / 1e6)}", "NONE", context)
        for name, finding in findings(obj, scene).items():
            box = layout.box().column(align=True)
            wrapped(box, finding.text, "ERROR", context, BOX)
            for number, way in enumerate(finding.ways):
                mend = box.operator(DAMPSIM_OT_mend.bl_idname, text=way.button, icon="TOOL_SETTINGS")
                mend.check, mend.way = name, number
        if working(context):
            progress = context.window_manager.dampsim_progress
            layout.progress(factor=progress.factor, text=progress.text)
            wrapped(layout, f"ESC {progress.ended_by_esc}", "INFO", context)
            return
        _buttons(layout, context, min(known(obj).frames, total), total)
        made_by = find(group.baked)
        if group.baked:
            differing = changed(obj, scene)
            layout.label(
                text=f"Baked: {made_by.label if made_by else group.baked}", icon="ERROR" if differing else "CHECKMARK"
            )
            if differing:
                wrapped(layout, f"Out of date: {'; '.join(differing)}", "BLANK1", context)
                layout.operator(DAMPSIM_OT_bake.bl_idname, text="Bake Again", icon="FILE_REFRESH")
            size = amount(group.baked_keys, group.baked_size)
            error = f"largest error {small(group.baked_part)}% ({length(group.baked_error, scene)})"
            wrapped(layout, f"{size}, {error}, {group.baked_seconds:.1f} s", "BLANK1", context)
            wrapped(layout, retried(group.baked_helped), "INFO", context)
            for line in group.baked_touched.splitlines():
                wrapped(layout, line, "INFO", context)
            layout.operator(DAMPSIM_OT_export.bl_idname, icon="EXPORT")
            wrapped(layout, f"Error after export: {group.exported}" if group.exported else "", "BLANK1", context)


def _buttons(layout: UILayout, context: Context, done: int, total: int) -> None:
    scene = context.scene
    row = layout.row()
    row.scale_y = 1.4
    # A bake always covers all objects of a simulation group.
    members = len(group_of(chosen(context)).members)
    text = f"Bake {members} Objects" if members > 1 else DAMPSIM_OT_bake.bl_label
    row.operator(DAMPSIM_OT_bake.bl_idname, text=text, icon="RENDER_ANIMATION")
    row = layout.row(align=True)
    part = row.row(align=True)
    # Resume also finishes a bake that was stopped after its last frame, while writing the result.
    part.enabled = done > 0 and (done < total or not chosen(context).dampsim.baked)
    part.operator(DAMPSIM_OT_bake.bl_idname, text="Resume", icon="PLAY").resume = True
    text = "Clear All" if members > 1 else DAMPSIM_OT_clear.bl_label
    row.operator(DAMPSIM_OT_clear.bl_idname, text=text, icon="TRASH")
    if done:
        row = layout.row()
        row.enabled = scene.frame_start < scene.frame_current <= scene.frame_start + done
        again = row.operator(
            DAMPSIM_OT_bake.bl_idname, text=f"Re-bake from Frame {scene.frame_current}", icon="FILE_REFRESH"
        )
        again.rebake, again.frame = True, scene.frame_current
    if 0 < done < total:
        wrapped(layout, f"{done} of {total} frames are simulated", "TIME", context)
    # Buttons count simulation groups, because each group is baked once.
    everything, some = groups_of(simulated_in(scene)), groups_of(selected(context))
    if len(everything) > 1:
        row = layout.row(align=True)
        one = row.row(align=True)
        one.enabled = len(some) > 0
        one.operator(DAMPSIM_OT_bake.bl_idname, text=f"Bake Selected ({len(some)})").which = "SELECTED"
        row.operator(DAMPSIM_OT_bake.bl_idname, text=f"Bake All ({len(everything)})").which = "ALL"


def vertices(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> tuple[int, bool]:
    """Return the largest possible number of baked vertices, and whether it is exact. Evaluate nothing."""
    if not simulated_makers(obj):
        return len(obj.data.vertices), True
    behind = any(makes(m) and m.show_viewport for m in obj.modifiers if m not in base(obj))
    return len(obj.evaluated_get(view_layer.depsgraph).data.vertices), not behind


def amount(keys: int, size: float) -> str:
    """Return the size of a bake as text.

    keys: number of shape keys; 0 for a file.  size: MB.
    """
    much = f"{size:.3g} MB" if size >= 0.1 else f"{1000.0 * size:.2g} kB"
    return f"{keys} shape key{'s' if keys > 1 else ''}, {much}" if keys else f"{much} file"
