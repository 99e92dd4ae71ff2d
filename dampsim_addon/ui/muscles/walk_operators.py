"""Operators that search for walks (gaits), and the list of the found ones."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
from bpy.types import Context, Operator, UILayout, UIList

from ....core.gait.gait_search import WalkSearch
from ...compare.ghosts import selected_walks, simulate_walks
from ...jobs.walk import apply_walk, is_compatible_walk, search_walks
from ...model.objects import active_simulated, is_job_running
from ...status.results import ghosts_of, remove_ghosts
from ...translations import report, translate
from ...work.steps import Step
from ..common.chosen_objects import ActiveObjectJob
from ..common.layout import draw_wrapped, labelled_column


class DAMPSIM_OT_find_walk(ActiveObjectJob, Operator):
    """Search for sensor weights, thresholds and delays that make the object walk: random ones first, then variations of
    the best. Simulate the walks found at bake quality and list them"""

    bl_idname = "dampsim.find_walk"
    bl_label = "Find a Walk"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is None or not len(obj.dampsim.muscles) or not len(obj.dampsim.sensors):
            cls.poll_message_set(translate, "Add muscles, and sensors that switch them")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step, None, object]:
        obj = active_simulated(context)
        search = WalkSearch(seed=obj.dampsim.walk_seed, seconds=obj.dampsim.walk_seconds)
        return search_walks(context.scene, context.view_layer, obj, search)

    def completion_messages(self, context: Context) -> tuple[str, str]:
        obj = active_simulated(context)
        walks = obj.dampsim.walks if obj else ()
        if not len(walks):
            return "no walk was found", "search stopped; nothing was changed"
        message = f"the best walk: {walks[0].name}. Choose one under Muscles and press Use"
        return message, "search stopped; nothing was changed"


class DAMPSIM_OT_use_walk(Operator):
    """Apply the weights, thresholds and delays of the walk selected in the list to the muscles"""

    bl_idname = "dampsim.use_walk"
    bl_label = "Use"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and 0 <= obj.dampsim.active_walk < len(obj.dampsim.walks) and not is_job_running(context)

    def execute(self, context: Context) -> set[str]:
        obj = active_simulated(context)
        walk = obj.dampsim.walks[obj.dampsim.active_walk]
        if not is_compatible_walk(obj, walk):
            report(self, {"ERROR"}, f"{obj.name}: its muscles or sensors have changed. Press Find a Walk again.")
            return {"CANCELLED"}
        apply_walk(obj, walk)
        remove_ghosts(obj)
        return {"FINISHED"}


class DAMPSIM_OT_show_walks(ActiveObjectJob, Operator):
    """Simulate the walks with the eye on at bake quality, and draw them next to the object, each in its own lane. They
    play with the animation. Use applies the selected walk and removes the ghosts"""

    bl_idname = "dampsim.show_walks"
    bl_label = "Show as Ghosts"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is not None and not selected_walks(obj):
            cls.poll_message_set(translate, "Turn on the eye of a walk in the list first")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        obj = active_simulated(context)
        return simulate_walks(context.scene, context.view_layer, obj, selected_walks(obj))

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "ghosts are ready. Play the animation, then use a walk", "stopped; nothing was changed"


class DAMPSIM_OT_hide_walks(Operator):
    """Remove the ghosts and keep the list"""

    bl_idname = "dampsim.hide_walks"
    bl_label = "Hide Ghosts"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and ghosts_of(obj) is not None and not is_job_running(context)

    def execute(self, context: Context) -> set[str]:
        remove_ghosts(active_simulated(context))
        return {"FINISHED"}


class DAMPSIM_UL_walks(UIList):
    def draw_item(
        self, context: Context, layout: UILayout, data: Any, item: Any, icon: int, active_data: Any,
        active_name: str, index: int,
    ) -> None:  # fmt: skip
        layout.label(text=f"{index + 1}: {item.name}", translate=False)
        layout.prop(item, "shown", text="", emboss=False, icon="HIDE_OFF" if item.shown else "HIDE_ON")


def draw_walks(context: Context, layout: UILayout, group: bpy.types.PropertyGroup) -> None:
    """Draw the settings of the search, its button and the found walks."""
    # In a row, the second property would have no label.
    column = labelled_column(layout.column(align=True), context)
    column.prop(group, "walk_seed")
    column.prop(group, "walk_seconds")
    layout.operator(DAMPSIM_OT_find_walk.bl_idname, icon="VIEWZOOM")
    if not len(group.walks):
        draw_wrapped(layout, group.walk_said, "INFO", context)
    else:
        layout.template_list(DAMPSIM_UL_walks.__name__, "", group, "walks", group, "active_walk", rows=2)
        row = layout.row(align=True)
        row.operator(DAMPSIM_OT_show_walks.bl_idname, icon="GHOST_ENABLED")
        row.operator(DAMPSIM_OT_hide_walks.bl_idname, text="", icon="X")
        layout.operator(DAMPSIM_OT_use_walk.bl_idname, icon="CHECKMARK")
