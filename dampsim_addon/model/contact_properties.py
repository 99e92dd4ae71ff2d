"""Blender properties for contact, of simulated objects and of colliders."""

from __future__ import annotations

from typing import get_type_hints

import bpy
from bpy.props import BoolProperty, PointerProperty, StringProperty
from bpy.types import Collection, Object, PropertyGroup

from ...core import COLLIDER_PARAMETERS
from . import colliders
from .parameter_properties import blender_property


def _on_collider_changed(group: PropertyGroup, context: object) -> None:
    colliders.add_collider(group.id_data)


class ContactProperties:
    """Contact properties of a simulated object that are not core parameters."""

    collider_collection: PointerProperty(
        type=Collection,
        name="Collider Collection",
        description="Collide only with colliders in this collection. If empty, collide with all colliders in the scene",
    )
    friction_group: StringProperty(
        name="Friction Group",
        description="Multiply the friction by the weight in this group",
    )
    front_group: StringProperty(
        name="Front Group",
        description="Let the object slide more easily towards higher weights in this group than towards lower ones",
    )


class DAMPSIM_PG_collider(PropertyGroup):
    """Properties of a collider. The parameters of COLLIDER_PARAMETERS are added below."""

    is_collider: BoolProperty(
        name="Collider",
        description="Let simulated objects collide with this object",
        options=set(),
        update=_on_collider_changed,
    )
    plane: BoolProperty(
        name="Infinite Plane",
        description="Collide with an infinite plane through the origin of this object, on the side of its Z axis",
        options=set(),
    )
    roughness_group: StringProperty(
        name="Roughness Group",
        description="Multiply the roughness by the weights of this vertex group. Vertices outside it count as ice",
        options=set(),
    )


for _name, _parameter in COLLIDER_PARAMETERS.items():
    DAMPSIM_PG_collider.__annotations__[_name] = blender_property(_parameter)

# Without this, values set on a library override are lost when the file is opened again.
for _name, _deferred in get_type_hints(DAMPSIM_PG_collider).items():
    _deferred.keywords["override"] = {"LIBRARY_OVERRIDABLE"}
    DAMPSIM_PG_collider.__annotations__[_name] = _deferred


def register() -> None:
    bpy.utils.register_class(DAMPSIM_PG_collider)
    Object.dampsim_collider = PointerProperty(type=DAMPSIM_PG_collider, override={"LIBRARY_OVERRIDABLE"})


def unregister() -> None:
    del Object.dampsim_collider
    bpy.utils.unregister_class(DAMPSIM_PG_collider)
