"""Panel and operators that compare variants of the settings side by side."""

from __future__ import annotations

from collections.abc import Generator

from bpy.props import IntProperty
from bpy.types import Context, Operator, Panel

from ....core import SceneError, StiffnessBy
from ...compare.ghosts import GHOST_LETTERS, MAX_GHOSTS, simulate_ghosts, variant_values
from ...model.objects import active_simulated, is_job_running, remove_item
from ...status import results
from ...status.results import remove_ghosts
from ...work.steps import Step
from ..common.layout import ChildPanel
from ..common.operators import ActiveObjectJob, EditOperator, is_met


class DAMPSIM_OT_ghost_add(EditOperator, Operator):
    """Store the current settings as a ghost, to compare them side by side"""

    bl_label = "Add Ghost"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is None:
            return False
        return is_met(cls, len(obj.dampsim.variants) < MAX_GHOSTS, f"The limit of {MAX_GHOSTS} ghosts is reached")

    def edit(self, context: Context) -> None:
        group = active_simulated(context).dampsim
        variant = group.variants.add()
        for name, value in variant_values(group).items():
            setattr(variant, name, value)


class _GhostOperator(EditOperator):
    number: IntProperty(name="Ghost", min=0, max=MAX_GHOSTS - 1, options={"SKIP_SAVE"})

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and len(obj.dampsim.variants) > 0


class DAMPSIM_OT_ghost_remove(_GhostOperator, Operator):
    """Remove this ghost from the comparison"""

    bl_label = "Remove Ghost"

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        remove_item(obj, obj.dampsim.variants, self.number)
        remove_ghosts(obj)


class DAMPSIM_OT_ghost_pick(_GhostOperator, Operator):
    """Apply the settings of this ghost to the object and remove all ghosts"""

    bl_label = "Use"

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        if self.number >= len(obj.dampsim.variants):
            raise SceneError(f"{obj.name}: there is no ghost {GHOST_LETTERS[self.number]}. Choose one from the list.")
        for name, value in variant_values(obj.dampsim.variants[self.number]).items():
            setattr(obj.dampsim, name, value)
        obj.dampsim.variants.clear()
        remove_ghosts(obj)


class DAMPSIM_OT_compare(ActiveObjectJob, Operator):
    """Simulate all ghosts and draw them next to the object. They play with the animation"""

    bl_label = "Compare"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return is_met(cls, obj is None or obj.dampsim.variants, "Add a ghost first") and super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        return simulate_ghosts(context.scene, context.view_layer, active_simulated(context))

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "ghosts are ready. Play the animation, then use one of them", "comparison stopped; nothing was changed"


class DAMPSIM_PT_compare(ChildPanel, Panel):
    bl_label = "Compare"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        layout.enabled = not is_job_running(context)
        for number, variant in enumerate(obj.dampsim.variants):
            box = layout.box()
            row = box.row(align=True)
            row.label(text=GHOST_LETTERS[number])
            row.operator(DAMPSIM_OT_ghost_pick.bl_idname, icon="CHECKMARK").number = number
            row.operator(DAMPSIM_OT_ghost_remove.bl_idname, text="", icon="X").number = number
            grid = box.grid_flow(columns=2, align=True, row_major=True)
            stiffness = "sag" if variant.stiffness_by == StiffnessBy.SAG else "stiffness"
            for name in ("settle", "bounce", "follow_through", stiffness):
                grid.prop(variant, name)
        row = layout.row(align=True)
        row.operator(DAMPSIM_OT_ghost_add.bl_idname, icon="ADD")
        row.operator(DAMPSIM_OT_compare.bl_idname, icon="GHOST_ENABLED")
        ghosts = results.ghosts_of(obj)
        if ghosts is not None and ghosts.is_stale:
            layout.label(text="The ghosts are out of date. Compare again", icon="TIME")
