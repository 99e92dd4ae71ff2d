"""Blender properties of the viewport overlays."""

from __future__ import annotations

from bpy.props import BoolProperty


class OverlayProperties:
    """Overlay options of a simulated object."""

    show_rest: BoolProperty(name="Rest Shape", description="Draw the undeformed shape", options=set())
    show_cage: BoolProperty(name="Cage", description="Draw the simulated tetrahedra or springs", options=set())
    show_pins: BoolProperty(
        name="Pins", description="Mark pinned vertices: red where they follow the animation exactly, yellow where "
        "springs pull them",
        options=set(),
    )  # fmt: skip
    show_worst: BoolProperty(
        name="Most Stretched", description="Mark the tetrahedron or spring with the largest stretch or compression",
        options=set(),
    )  # fmt: skip
    show_contacts: BoolProperty(
        name="Contacts", description="Mark contact points and draw their forces; vertices inside another object "
        "are red", options=set(),
    )  # fmt: skip
    show_flow: BoolProperty(
        name="Flow",
        description="Colour plastic deformation, redder where it is larger, and show its amount",
        options=set(),
    )
    show_fibres: BoolProperty(
        name="Fibres", description="Draw a line along the fibres of each tetrahedron: red where they are shorter than "
        "modelled, blue where they are longer", options=set(),
    )  # fmt: skip
    show_links: BoolProperty(
        name="Links", description="Draw the points of links, and lines to their targets: orange for rigid links, blue "
        "for soft ones", default=True, options=set(),
    )  # fmt: skip
