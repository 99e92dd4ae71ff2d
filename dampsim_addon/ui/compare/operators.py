"""Operators that compare variants of the settings side by side."""

from __future__ import annotations

from collections.abc import Generator

from bpy.props import IntProperty
from bpy.types import Context, Operator

from ...compare.ghosts import GHOST_LETTERS, MAX_GHOSTS, simulate_ghosts, variant_values
from ...model.objects import active_simulated
from ...status.results import remove_ghosts
from ...translations import report, translate
from ...work.steps import Step
from ..common.chosen_objects import ActiveObjectJob


class DAMPSIM_OT_ghost_add(Operator):
    """Store the current settings as a ghost, to compare them side by side"""

    bl_idname = "dampsim.ghost_add"
    bl_label = "Add Ghost"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is not None and len(obj.dampsim.variants) >= MAX_GHOSTS:
            cls.poll_message_set(translate, f"The limit of {MAX_GHOSTS} ghosts is reached")
            return False
        return obj is not None

    def execute(self, context: Context) -> set[str]:
        group = active_simulated(context).dampsim
        variant = group.variants.add()
        for name, value in variant_values(group).items():
            setattr(variant, name, value)
        return {"FINISHED"}


class _GhostOperator:
    number: IntProperty(name="Ghost", min=0, max=MAX_GHOSTS - 1, options={"SKIP_SAVE"})

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and len(obj.dampsim.variants) > 0


class DAMPSIM_OT_ghost_remove(_GhostOperator, Operator):
    """Remove this ghost from the comparison"""

    bl_idname = "dampsim.ghost_remove"
    bl_label = "Remove Ghost"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        obj = active_simulated(context)
        obj.dampsim.variants.remove(self.number)
        remove_ghosts(obj)
        return {"FINISHED"}


class DAMPSIM_OT_ghost_pick(_GhostOperator, Operator):
    """Apply the settings of this ghost to the object and remove all ghosts"""

    bl_idname = "dampsim.ghost_pick"
    bl_label = "Use"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        obj = active_simulated(context)
        if self.number >= len(obj.dampsim.variants):
            report(
                self,
                {"ERROR"},
                f"{obj.name}: there is no ghost {GHOST_LETTERS[self.number]}. Choose one from the list.",
            )
            return {"CANCELLED"}
        for name, value in variant_values(obj.dampsim.variants[self.number]).items():
            setattr(obj.dampsim, name, value)
        obj.dampsim.variants.clear()
        remove_ghosts(obj)
        return {"FINISHED"}


class DAMPSIM_OT_compare(ActiveObjectJob, Operator):
    """Simulate all ghosts and draw them next to the object. They play with the animation"""

    bl_idname = "dampsim.compare"
    bl_label = "Compare"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is not None and not obj.dampsim.variants:
            cls.poll_message_set(translate, "Add a ghost first")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        return simulate_ghosts(context.scene, context.view_layer, active_simulated(context))

    def completion_messages(self, context: Context) -> tuple[str, str]:
        return "ghosts are ready. Play the animation, then use one of them", "comparison stopped; nothing was changed"
