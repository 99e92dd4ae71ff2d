"""Hair curves: some strands, the guides, are simulated as ropes, and all strands follow them."""

from __future__ import annotations

import bpy
from bpy.props import IntProperty
from bpy.types import Context, Operator

from ....core import SceneError
from ....core.base.wording import format_count
from ...blender.hair import DEFAULT_RADIUS, GuideWires, Strands, attach_hair, hair_modifier
from ...model.objects import can_start_job
from ...translations import report
from ..common.chosen_objects import EditOperator, make_only_selected
from .add_operators import create_wire, enable_simulation

# Largest number of guides with at most 1/6 s per frame, and a few seconds of preparation.
MAX_FAST_GUIDES = 100


def has_guides(hair: bpy.types.Object) -> bool:
    """Return whether hair already follows guides."""
    return hair_modifier(hair) is not None


def guides_report(wire: str, hair: str, count: int) -> tuple[set[str], str]:
    """Return the report type and message for a number of guides."""
    message = f"{wire}: simulating {format_count(count, 'guide')}, which {hair} follows"
    if count <= MAX_FAST_GUIDES:
        return {"INFO"}, message
    message += f". More than {MAX_FAST_GUIDES} guides are slow to prepare and to play. Undo and choose fewer Guides"
    return {"WARNING"}, message


class DAMPSIM_OT_hair(EditOperator, Operator):
    """Simulate some strands as ropes that are pinned at their roots. All other strands follow them"""

    bl_label = "Simulate as Hair"

    guides: IntProperty(  # type: ignore[valid-type]
        name="Guides",
        default=16,
        min=1,
        soft_max=MAX_FAST_GUIDES,
        description="Set the number of strands to simulate. The other strands follow them",
    )

    @classmethod
    def poll(cls, context: Context) -> bool:
        hair = context.object
        is_local_hair = hair is not None and hair.type == "CURVES" and hair.library is None and context.mode == "OBJECT"
        return is_local_hair and can_start_job(cls, context)

    def edit(self, context: Context) -> None:
        hair = context.object
        if has_guides(hair):
            modifier = hair_modifier(hair)
            raise SceneError(f"{hair.name}: it already follows guides. Remove the modifier {modifier.name} first.")
        strands = Strands.from_curves(hair.data)
        guides = strands.select_guides(self.guides)
        if not len(guides):
            raise SceneError(f"{hair.name}: no strand has two or more points. Add some hair first.")
        wires = GuideWires.from_strands(strands, guides)
        wire = create_wire(hair, "Guides", wires.points, wires.edges, wires.pinned.tolist())
        attach_hair(hair, wire, strands, wires)
        make_only_selected(context, wire)
        context.view_layer.update()
        enable_simulation(wire, context.scene)
        wire.dampsim.thickness = 2000.0 * (strands.radius or DEFAULT_RADIUS)
        report(self, *guides_report(wire.name, hair.name, len(guides)))
