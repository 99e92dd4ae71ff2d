"""Bake panel."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ....core.base.wording import format_bytes, format_count, format_small
from ...blender.bone_bakes import rig_of
from ...blender.modifiers import can_change_topology, deform_stack, simulated_topology_modifiers
from ...blender.vertex_groups import MAX_EXPORTED_BONES
from ...model.cache_status import known_status
from ...model.groups import group_of, last_frame, preview_range
from ...model.objects import active_simulated, chosen_simulated, is_job_running
from ...status.bake_changes import changes_since_bake
from ...status.next_bake import BakeAction, bake_label, next_bake
from ...status.shot_messages import format_length
from ...targets import TARGETS, Storage, find_target
from ...targets.bake_tracks import bake_strips, has_base_track
from ...targets.bones import INFLUENCE_REMARK, Bones
from ...targets.existing_bones import ExistingBones, chosen_bones
from ...targets.influence import has_influence, influence_problem
from ...translations import translate
from ..common.layout import ChildPanel, draw_property, draw_wrapped, enabled_column
from ..export.operators import EXPORT_CHECKS, DAMPSIM_OT_export
from ..objects.operators import DAMPSIM_OT_clear
from .checks import CHECKS
from .influence_operators import DAMPSIM_OT_key_influence, draw_blends, draw_retiming
from .issue_list import draw_issues
from .operators import (
    DAMPSIM_MT_bake,
    DAMPSIM_OT_bake,
    DAMPSIM_OT_use_preview_range,
    DAMPSIM_OT_use_selected_bones,
    draw_maps,
)

# Properties and labels of compressed bakes, by target.
_ROWS: dict[str, tuple[tuple[str, str], ...]] = {
    Bones.name: (
        ("max_bones", "Max Bones"), ("bone_influences", "Influences"), ("keeps_rig_posable", "Keep Rig Posable"),
    ),
    ExistingBones.name: (("chain_channels", "Channels"),),
}  # fmt: skip


class DAMPSIM_PT_bake(ChildPanel, Panel):
    bl_label = "Bake"
    bl_options = set[str]()

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj, scene = active_simulated(context), context.scene
        group = obj.dampsim
        target = find_target(group.target) or TARGETS[0]()
        column = enabled_column(layout, context)
        draw_property(column, group, "target", "Bake To", context)
        if not target.exact:
            draw_property(column, group, "bound_by", "Error Unit", context)
            percent = "bone_bound_percent" if group.bakes_to_bones else "bound_percent"
            bound = percent if group.bound_by == "PERCENT" else "bound_length"
            draw_property(column, group, bound, "Max Error", context)
            for name, label in _ROWS.get(target.name, (("max_keys", "Max Keys"),)):
                draw_property(column, group, name, label, context)
            if target.name == ExistingBones.name:
                _draw_chain(column, obj, context)
        frames = column.column(align=True)
        draw_property(frames, scene, "frame_start", "Start", context)
        draw_property(frames, scene, "frame_end", "End", context)
        _draw_preview_range(column, obj, context)
        is_range = next_bake(group_of(obj), scene).action is BakeAction.RANGE
        last = scene.frame_end if is_range else last_frame(group_of(obj), scene)
        total = last - scene.frame_start + 1
        count, is_exact = baked_vertex_count(obj, context.view_layer)
        keys = max(total, 0)
        cost = target.cost(count, keys if target.exact else min(keys, group.max_keys or keys))
        qualifier = "" if target.exact and is_exact else "At most "
        size = bake_size_text(cost.keys, cost.size / 1e6)
        if target.name == Bones.name:
            qualifier, size = "At most ", format_count(group.max_bones, "new bone")
        elif target.name == ExistingBones.name:
            qualifier, size = "", format_count(len(chosen_bones(obj)), "bone")
        draw_wrapped(column, f"{qualifier}{size}", "NONE", context)
        if target.name == Bones.name and int(group.bone_influences) > MAX_EXPORTED_BONES and group.baked != target.name:
            # A bake repeats this in its remarks.
            draw_wrapped(column, INFLUENCE_REMARK, "INFO", context)
        if is_job_running(context):
            # A bake mutes shape keys and modifiers meanwhile, and nothing can be fixed.
            progress = context.window_manager.dampsim_progress
            layout.progress(factor=progress.factor, text=translate(progress.text))
            draw_wrapped(layout, f"ESC {progress.ended_by_esc}", "INFO", context)
            return
        draw_issues(layout, context, CHECKS)
        _draw_buttons(layout, context, min(known_status(obj).frame_count, total), total)
        baked_target = find_target(group.baked)
        if group.baked:
            changes = changes_since_bake(obj, scene)
            layout.label(
                text=translate(f"Baked: {baked_target.label if baked_target else group.baked}"),
                icon="ERROR" if changes else "CHECKMARK",
            )
            if changes:
                draw_wrapped(layout, f"Out of date: {'; '.join(changes)}", "BLANK1", context)
            noun = "bone" if baked_target is not None and baked_target.storage is Storage.BONES else "shape key"
            size = bake_size_text(group.baked_keys, group.baked_size, noun)
            error = f"largest error {format_small(group.baked_part)}% ({format_length(group.baked_error, scene)})"
            draw_wrapped(layout, f"{size}, {error}, {group.baked_seconds:.1f} s", "BLANK1", context)
            draw_wrapped(layout, group.baked_guards, "INFO", context)
            for line in group.baked_touched.splitlines():
                draw_wrapped(layout, line[:1].upper() + line[1:], "INFO", context)
            _draw_influence(layout, obj, context)
            draw_retiming(layout, context, obj)
            if baked_target is not None and baked_target.can_export_to_gltf:
                draw_issues(layout, context, EXPORT_CHECKS)
            text = translate(DAMPSIM_OT_export.bl_label) + "…"
            layout.operator(DAMPSIM_OT_export.bl_idname, text=text, icon="EXPORT")
            draw_wrapped(layout, f"Error after export: {group.exported}" if group.exported else "", "BLANK1", context)
        draw_maps(layout, context, obj)


def _draw_chain(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    rig = rig_of(obj)
    if rig is None or rig.type != "ARMATURE":
        return
    search = (rig.data, "collections_all")
    draw_property(layout, obj.dampsim, "chain_collection", "Bones", context, search=search)
    layout.operator(DAMPSIM_OT_use_selected_bones.bl_idname, icon="BONE_DATA")


def _draw_preview_range(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    scene = context.scene
    upcoming, last = next_bake(group_of(obj), scene), last_frame(group_of(obj), scene)
    if preview_range(scene) is None:
        return
    if upcoming.action is BakeAction.RANGE:
        draw_property(layout, obj.dampsim, "range_blend", "Blend", context)
        text = f"Bakes the preview range again, frames {upcoming.first} to {upcoming.last}, and keeps the other frames"
        draw_wrapped(layout, text, "INFO", context)
        return
    reason = "up to the end of the preview range" if last != scene.frame_end else "as a loop needs its whole cycle"
    draw_wrapped(layout, f"Bakes frames {scene.frame_start} to {last}, {reason}", "INFO", context)
    layout.operator(DAMPSIM_OT_use_preview_range.bl_idname, icon="PREVIEW_RANGE")


def _draw_influence(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    if not has_influence(obj):
        return
    problem = influence_problem(obj, [float(context.scene.frame_current)])
    row = layout.row(align=True)
    row.enabled = not problem
    draw_property(row, obj.dampsim, "influence", "Influence", context)
    row.operator(DAMPSIM_OT_key_influence.bl_idname, text="", icon="KEY_HLT")
    if problem:
        draw_wrapped(layout, f"{obj.name}: {problem}", "LOCKED", context)
    draw_blends(layout, context, obj)
    keys = obj.data.shape_keys
    if keys is not None and bake_strips(keys.animation_data) and not has_base_track(keys.animation_data):
        draw_wrapped(layout, "Influence and muting show wrong shapes until the next bake adds a base track", "ERROR",
            context)  # fmt: skip


def _draw_buttons(layout: UILayout, context: Context, frames_done: int, frame_count: int) -> None:
    obj, scene = active_simulated(context), context.scene
    objects, upcoming = chosen_simulated(context), next_bake(group_of(obj), scene)
    if upcoming.changes and not obj.dampsim.baked:
        text = f"The simulated frames are out of date: {'; '.join(upcoming.changes)}"
        draw_wrapped(layout, text, "ERROR", context)
    row = layout.row(align=True)
    row.scale_y = 1.4
    icon = "PLAY" if upcoming.action is BakeAction.RESUME else "RENDER_ANIMATION"
    button = row.operator(DAMPSIM_OT_bake.bl_idname, text=translate(bake_label(objects, scene)), icon=icon)
    if len(objects) > 1:
        button.which = "SELECTED"
    row.menu(DAMPSIM_MT_bake.__name__, text="", icon="DOWNARROW_HLT")
    # A bake always covers all objects of a simulation group.
    text = "Clear All" if len(group_of(obj).members) > 1 else DAMPSIM_OT_clear.bl_label
    layout.operator(DAMPSIM_OT_clear.bl_idname, text=translate(text), icon="TRASH")
    if 0 < frames_done < frame_count:
        draw_wrapped(layout, f"{frames_done} of {frame_count} frames are simulated", "TIME", context)


def baked_vertex_count(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> tuple[int, bool]:
    """Return the largest possible number of baked vertices, and whether it is exact. Evaluate nothing."""
    if not simulated_topology_modifiers(obj):
        return len(obj.data.vertices), True
    generated_after = any(
        can_change_topology(m) and m.show_viewport for m in obj.modifiers if m not in deform_stack(obj)
    )
    return len(obj.evaluated_get(view_layer.depsgraph).data.vertices), not generated_after


def bake_size_text(keys: int, size: float, noun: str = "shape key") -> str:
    """Return the size of a bake as text.

    keys: number of shape keys or bones; 0 for a file.  size: MB.  noun: their name.
    """
    size_label = format_bytes(1e6 * size)
    return f"{format_count(keys, noun)}, {size_label}" if keys else f"{size_label} file"
