"""Blender properties of what touches: beside a simulated object's dials, and with colliders."""

from __future__ import annotations

from typing import get_type_hints

import bpy
from bpy.props import BoolProperty, PointerProperty, StringProperty
from bpy.types import Collection, Object, PropertyGroup

from ...core.scene.parameters import COLLIDER_PARAMETERS
from . import colliders
from .parameter_properties import property_of


def _marked(group: PropertyGroup, context: object) -> None:
    colliders.note(group.id_data)


class HasContact:
    """What a simulated object has to say of contact, beside the parameters."""

    collider_collection: PointerProperty(
        type=Collection,
        name="Collider Collection",
        description="It stops only at colliders of this collection; at those of the whole scene if empty",
    )
    friction_group: StringProperty(
        name="Friction Group",
        description="Where this group's weight is below 1, it has that part of the friction",
    )
    front_group: StringProperty(
        name="Front Group",
        description="Where this group is painted more is the front; it slides more easily towards there than back",
    )


class DampSimCollider(PropertyGroup):
    """What an object is to those that stop at it. The parameters of COLLIDER_PARAMETERS are added below."""

    is_collider: BoolProperty(
        name="Collider",
        description="What DampSim simulates stops at this object",
        options=set(),
        update=_marked,
    )
    plane: BoolProperty(
        name="Infinite Plane",
        description="Things stop at a plane without end through its origin, above which is where its Z axis points",
        options=set(),
    )


for _name, _parameter in COLLIDER_PARAMETERS.items():
    DampSimCollider.__annotations__[_name] = property_of(_parameter)

# Else what is dialled on a library override would be lost when the file is opened again.
for _name, _deferred in get_type_hints(DampSimCollider).items():
    _deferred.keywords["override"] = {"LIBRARY_OVERRIDABLE"}
    DampSimCollider.__annotations__[_name] = _deferred


def register() -> None:
    bpy.utils.register_class(DampSimCollider)
    Object.dampsim_collider = PointerProperty(type=DampSimCollider, override={"LIBRARY_OVERRIDABLE"})


def unregister() -> None:
    del Object.dampsim_collider
    bpy.utils.unregister_class(DampSimCollider)
