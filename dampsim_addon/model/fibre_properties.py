"""Blender properties of a solid's fibres."""

from __future__ import annotations

from bpy.props import StringProperty


class FibreProperties:
    """Fibre properties of a simulated object that are not core parameters: location and direction."""

    fibre_group: StringProperty(
        name="Fibre Group",
        description="Contract the flesh of this group along its fibres, more strongly at higher weights",
    )
    direction_group: StringProperty(
        name="Direction Group",
        description="Align the fibres with the gradient of this group: paint weight 0 at one end and 1 at the other",
    )
