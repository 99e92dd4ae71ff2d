"""Blender properties of the parts of an object, which have dials of their own."""

from __future__ import annotations

import bpy
from bpy.props import BoolProperty, CollectionProperty, IntProperty, StringProperty
from bpy.types import PropertyGroup

from ...core import PARAMETERS
from ...core.scene.part import KEYABLE_PART_DIALS
from .parameter_properties import blender_property


def _tag_for_update(part: PropertyGroup, context: object) -> None:
    """Tag the object for an update, since Blender sends none for these properties."""
    part.id_data.update_tag()


class DAMPSIM_PG_part(PropertyGroup):
    """Part of an object. The dials of KEYABLE_PART_DIALS are added below."""

    vertex_group: StringProperty(
        name="Vertex Group",
        description="Choose the vertex group of this part. Weights of 0.6 or more belong to it, and weights of 0.4 or "
        "less do not",
        options=set(),
        update=_tag_for_update,
    )
    own_sag: BoolProperty(
        name="Own Sag",
        description="Choose how far this part sags. Its weight is set for that, and its stiffness stays",
        options=set(),
        update=_tag_for_update,
    )


for _name in KEYABLE_PART_DIALS:
    DAMPSIM_PG_part.__annotations__[_name] = blender_property(PARAMETERS[_name])


class PartProperties:
    """Parts of a simulated object."""

    parts: CollectionProperty(type=DAMPSIM_PG_part)
    active_part: IntProperty(options={"HIDDEN"})


CLASSES = (DAMPSIM_PG_part,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
