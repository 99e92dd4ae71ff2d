"""Blender properties of what is drawn over the viewport."""

from __future__ import annotations

from bpy.props import BoolProperty


class IsShown:
    """What of a simulated object is drawn over it."""

    show_rest: BoolProperty(name="Rest Shape", description="Draw the shape that it strives for", options=set())
    show_cage: BoolProperty(name="Cage", description="Draw the tetrahedra or springs that are simulated", options=set())
    show_pins: BoolProperty(
        name="Pins", description="Mark what follows the animation: exactly in red, as if by springs in yellow",
        options=set(),
    )  # fmt: skip
    show_worst: BoolProperty(
        name="Most Stretched", description="Mark the tetrahedron or spring that is stretched or squeezed most",
        options=set(),
    )  # fmt: skip
    show_contacts: BoolProperty(
        name="Contacts", description="Mark where something presses on it, and draw how hard; in red what is inside of "
        "something", options=set(),
    )  # fmt: skip
    show_flow: BoolProperty(
        name="Flow", description="Colour where it has flowed, the redder the more, and say how much", options=set()
    )
    show_fibres: BoolProperty(
        name="Fibres", description="Draw a line along the fibres of each tetrahedron that has some, red where they are "
        "shorter than modelled, blue where longer", options=set(),
    )  # fmt: skip
    show_links: BoolProperty(
        name="Links", description="Draw the points that links hold, and lines to where the others' are: rigid ones "
        "in orange, soft ones in blue", default=True, options=set(),
    )  # fmt: skip
