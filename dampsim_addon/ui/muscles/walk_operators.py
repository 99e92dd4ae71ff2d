"""Operators that search for walks (gaits), and the list of the found ones."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
from bpy.types import Context, Operator, UILayout, UIList

from ....core import SceneError
from ....core.gait.gait_search import WalkSearch
from ...compare.ghosts import selected_walks, simulate_walks
from ...jobs.walk import apply_walk, is_compatible_walk, search_walks
from ...model.objects import active_simulated, is_job_running
from ...status.results import ghosts_of, remove_ghosts
from ...work.steps import Step
from ..common.layout import ItemList, draw_wrapped, labelled_column
from ..common.operators import ActiveObjectJob, EditOperator, is_met


class DAMPSIM_OT_find_walk(ActiveObjectJob, Operator):
    """Search for sensor weights, thresholds and delays that make the object walk: random ones first, then variations of
    the best. Simulate the walks found at bake quality and list them"""

    bl_label = "Find a Walk"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        has_both = obj is not None and len(obj.dampsim.muscles) and len(obj.dampsim.sensors)
        return is_met(cls, has_both, "Add muscles, and sensors that switch them") and super().poll(context)

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


class DAMPSIM_OT_use_walk(EditOperator, Operator):
    """Apply the weights, thresholds and delays of the walk selected in the list to the muscles"""

    bl_label = "Use"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and 0 <= obj.dampsim.active_walk < len(obj.dampsim.walks) and not is_job_running(context)

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        walk = obj.dampsim.walks[obj.dampsim.active_walk]
        if not is_compatible_walk(obj, walk):
            raise SceneError(f"{obj.name}: its muscles or sensors have changed. Press Find a Walk again.")
        apply_walk(obj, walk)
        remove_ghosts(obj)


class DAMPSIM_OT_show_walks(ActiveObjectJob, Operator):
    """Simulate the walks with the eye on at bake quality, and draw them next to the object, each in its own lane. They
    play with the animation. Use applies the selected walk and removes the ghosts"""

    bl_label = "Show as Ghosts"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        has_walk = obj is None or selected_walks(obj)
        return is_met(cls, has_walk, "Turn on the eye of a walk in the list first") and super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        obj = active_simulated(context)
        return simulate_walks(context.scene, context.view_layer, obj, selected_walks(obj))

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "ghosts are ready. Play the animation, then use a walk", "stopped; nothing was changed"


class DAMPSIM_OT_hide_walks(EditOperator, Operator):
    """Remove the ghosts and keep the list"""

    bl_label = "Hide Ghosts"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and ghosts_of(obj) is not None and not is_job_running(context)

    def edit(self, context: Context) -> None:
        remove_ghosts(active_simulated(context))


class DAMPSIM_UL_walks(ItemList, UIList):
    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
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
