"""Bake panel."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ....core.base.wording import format_bytes, format_count, format_small
from ...blender.modifiers import can_change_topology, deform_stack, simulated_topology_modifiers
from ...jobs.bake import fallback_message
from ...model.cache_status import known_status
from ...model.groups import group_of, groups_of
from ...model.objects import active_simulated, is_job_running, selected_simulated, simulated_in_scene
from ...status.bake_changes import changes_since_bake
from ...status.shot_messages import format_length
from ...targets import TARGETS, find_target
from ..common.layout import ChildPanel, draw_property, draw_wrapped
from ..objects.operators import DAMPSIM_OT_clear
from .issue_list import draw_issues
from .operators import DAMPSIM_OT_bake, DAMPSIM_OT_export


class DAMPSIM_PT_bake(ChildPanel, Panel):
    bl_label = "Bake"
    bl_idname = "DAMPSIM_PT_bake"

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj, scene = active_simulated(context), context.scene
        group = obj.dampsim
        target = find_target(group.target) or TARGETS[0]
        column = layout.column()
        column.enabled = not is_job_running(context)
        draw_property(column, group, "target", "Bake To", context)
        if not target.exact:
            draw_property(column, group, "bound_by", "Error Unit", context)
            draw_property(
                column, group, "bound_percent" if group.bound_by == "PERCENT" else "bound_length", "Max Error", context
            )
        frames = column.column(align=True)
        draw_property(frames, scene, "frame_start", "Start", context)
        draw_property(frames, scene, "frame_end", "End", context)
        total = scene.frame_end - scene.frame_start + 1
        count, is_exact = baked_vertex_count(obj, context.view_layer)
        cost = target.cost(count, max(total, 0))
        qualifier = "" if target.exact and is_exact else "At most "
        draw_wrapped(column, f"{qualifier}{bake_size_text(cost.keys, cost.size / 1e6)}", "NONE", context)
        draw_issues(layout, context)
        if is_job_running(context):
            progress = context.window_manager.dampsim_progress
            layout.progress(factor=progress.factor, text=progress.text)
            draw_wrapped(layout, f"ESC {progress.ended_by_esc}", "INFO", context)
            return
        _draw_buttons(layout, context, min(known_status(obj).frame_count, total), total)
        baked_target = find_target(group.baked)
        if group.baked:
            changes = changes_since_bake(obj, scene)
            layout.label(
                text=f"Baked: {baked_target.label if baked_target else group.baked}",
                icon="ERROR" if changes else "CHECKMARK",
            )
            if changes:
                draw_wrapped(layout, f"Out of date: {'; '.join(changes)}", "BLANK1", context)
                layout.operator(DAMPSIM_OT_bake.bl_idname, text="Bake Again", icon="FILE_REFRESH")
            size = bake_size_text(group.baked_keys, group.baked_size)
            error = f"largest error {format_small(group.baked_part)}% ({format_length(group.baked_error, scene)})"
            draw_wrapped(layout, f"{size}, {error}, {group.baked_seconds:.1f} s", "BLANK1", context)
            draw_wrapped(layout, fallback_message(group.baked_helped), "INFO", context)
            for line in group.baked_touched.splitlines():
                draw_wrapped(layout, line, "INFO", context)
            layout.operator(DAMPSIM_OT_export.bl_idname, icon="EXPORT")
            draw_wrapped(layout, f"Error after export: {group.exported}" if group.exported else "", "BLANK1", context)


def _draw_buttons(layout: UILayout, context: Context, frames_done: int, frame_count: int) -> None:
    scene = context.scene
    row = layout.row()
    row.scale_y = 1.4
    # A bake always covers all objects of a simulation group.
    members = len(group_of(active_simulated(context)).members)
    text = f"Bake {members} Objects" if members > 1 else DAMPSIM_OT_bake.bl_label
    row.operator(DAMPSIM_OT_bake.bl_idname, text=text, icon="RENDER_ANIMATION")
    row = layout.row(align=True)
    resume_row = row.row(align=True)
    # Resume also finishes a bake that was stopped after its last frame, while writing the result.
    resume_row.enabled = frames_done > 0 and (frames_done < frame_count or not active_simulated(context).dampsim.baked)
    resume_row.operator(DAMPSIM_OT_bake.bl_idname, text="Resume", icon="PLAY").resume = True
    text = "Clear All" if members > 1 else DAMPSIM_OT_clear.bl_label
    row.operator(DAMPSIM_OT_clear.bl_idname, text=text, icon="TRASH")
    if frames_done:
        row = layout.row()
        row.enabled = scene.frame_start < scene.frame_current <= scene.frame_start + frames_done
        rebake = row.operator(
            DAMPSIM_OT_bake.bl_idname, text=f"Re-bake from Frame {scene.frame_current}", icon="FILE_REFRESH"
        )
        rebake.rebake, rebake.frame = True, scene.frame_current
    if 0 < frames_done < frame_count:
        draw_wrapped(layout, f"{frames_done} of {frame_count} frames are simulated", "TIME", context)
    # Buttons count simulation groups, because each group is baked once.
    all_groups, selected_groups = groups_of(simulated_in_scene(scene)), groups_of(selected_simulated(context))
    if len(all_groups) > 1:
        row = layout.row(align=True)
        one = row.row(align=True)
        one.enabled = len(selected_groups) > 0
        one.operator(DAMPSIM_OT_bake.bl_idname, text=f"Bake Selected ({len(selected_groups)})").which = "SELECTED"
        row.operator(DAMPSIM_OT_bake.bl_idname, text=f"Bake All ({len(all_groups)})").which = "ALL"


def baked_vertex_count(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> tuple[int, bool]:
    """Return the largest possible number of baked vertices, and whether it is exact. Evaluate nothing."""
    if not simulated_topology_modifiers(obj):
        return len(obj.data.vertices), True
    generated_after = any(
        can_change_topology(m) and m.show_viewport for m in obj.modifiers if m not in deform_stack(obj)
    )
    return len(obj.evaluated_get(view_layer.depsgraph).data.vertices), not generated_after


def bake_size_text(keys: int, size: float) -> str:
    """Return the size of a bake as text.

    keys: number of shape keys; 0 for a file.  size: MB.
    """
    size_label = format_bytes(1e6 * size)
    return f"{format_count(keys, 'shape key')}, {size_label}" if keys else f"{size_label} file"
