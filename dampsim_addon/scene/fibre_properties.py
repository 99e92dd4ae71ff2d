"""Blender properties of a solid's fibres, beside its dials."""

from __future__ import annotations

from bpy.props import StringProperty


class HasFibres:
    """Where fibres are in a simulated object, and along what they lie, beside the parameters."""

    fibre_group: StringProperty(
        name="Fibre Group",
        description="The flesh of this group contracts along its fibres: the stronger, the nearer its weight is to 1",
    )
    direction_group: StringProperty(
        name="Direction Group",
        description="Fibres lie from where this group's weight is 0 to where it is 1; which end is which is all one",
    )
