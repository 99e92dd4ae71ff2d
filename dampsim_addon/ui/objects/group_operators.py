"""Operators that join and leave simulation groups."""

from __future__ import annotations

from collections.abc import Iterable

import bpy
from bpy.types import Context, Operator

from ... import live
from ...model.cache_status import refresh_status
from ...model.groups import Group, group_of, join_group, leave_group
from ...model.objects import active_simulated, chosen_simulated, filter_simulated, is_job_running, selected_simulated
from ...model.registry import reuse_last_scan
from ...translations import report
from ..common.operators import ChosenObjectsOperator, EditOperator, is_met


def simulate_together(objects: Iterable[bpy.types.Object], collide: bool = False) -> Group:
    """Join objects in one simulation group, and drop the live frames of their former groups.

    collide: also enable Other Bodies.
    """
    members = list(objects)
    for obj in members:
        _drop_live_frames(group_of(obj))
    group = join_group(members)
    for obj in members if collide else ():
        obj.dampsim.touch_together = True
    _refresh_cache_status(group)
    return group


def simulate_separately(obj: bpy.types.Object) -> None:
    """Remove an object from its simulation group, and drop the group's live frames."""
    group = group_of(obj)
    _drop_live_frames(group)
    leave_group(obj)
    for member in group.members:
        if not member.dampsim.together:
            # The last member has nothing left to collide with.
            member.dampsim.touch_together = False
    _refresh_cache_status(group)


def in_different_groups(objects: Iterable[bpy.types.Object]) -> bool:
    """Return whether objects belong to more than one simulation group."""
    simulated_objects = filter_simulated(objects)
    return len(simulated_objects) > 1 and not set(simulated_objects) <= set(group_of(simulated_objects[0]).members)


def _drop_live_frames(group: Group) -> None:
    for obj in group.members:
        live.drop_session(obj)


def _refresh_cache_status(group: Group) -> None:
    """Refresh the cache status of a group's objects, whose frames have a new location."""
    for obj in group.members:
        refresh_status(obj)


class DAMPSIM_OT_together(EditOperator, Operator):
    """Simulate the selected objects together: they collide with each other, can be linked, and share one bake"""

    bl_label = "Simulate Together"

    @classmethod
    def poll(cls, context: Context) -> bool:
        if is_job_running(context):
            return False
        with reuse_last_scan():
            objects = selected_simulated(context)
            return is_met(cls, len(objects) > 1, "Select two or more simulated objects") and is_met(
                cls, in_different_groups(objects), "The selected objects are already simulated together"
            )

    def edit(self, context: Context) -> None:
        group = simulate_together(selected_simulated(context), collide=True)
        report(self, {"INFO"}, f"Simulated together: {group.name}")


class DAMPSIM_OT_alone(ChosenObjectsOperator, Operator):
    """Simulate the selected objects separately. Links are kept; to bake them, simulate the objects together again"""

    bl_label = "Simulate Separately"

    @classmethod
    def poll(cls, context: Context) -> bool:
        can_separate = any(obj.dampsim.together for obj in chosen_simulated(context))
        return super().poll(context) and is_met(cls, can_separate, "The object is already simulated separately")

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        if obj.dampsim.together:
            simulate_separately(obj)


class DAMPSIM_OT_select_group(EditOperator, Operator):
    """Select all objects that are simulated with the active one"""

    bl_label = "Select Group"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and bool(obj.dampsim.together) and obj.mode == "OBJECT"

    def edit(self, context: Context) -> None:
        members = group_of(active_simulated(context)).members
        visible_members = [obj for obj in members if obj.visible_get(view_layer=context.view_layer)]
        for obj in visible_members:
            obj.select_set(True, view_layer=context.view_layer)
        hidden = len(members) - len(visible_members)
        text = f"Selected objects: {len(visible_members)}"
        report(self, {"INFO"}, f"{text}; hidden objects: {hidden}" if hidden else text)
