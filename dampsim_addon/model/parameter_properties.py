"""Blender properties made from the core's parameters: of contact, of colliders and of the parts of an object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_type_hints

import bpy
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Object, PropertyGroup

from ...core import COLLIDER_PARAMETERS, PARAMETERS, Parameter
from ...core.scene.part import KEYABLE_PART_DIALS
from ..translations import CONTEXT
from . import colliders


def blender_property(parameter: Parameter, can_animate: bool = True) -> Any:
    """Return the Blender property of a parameter. can_animate: whether an animatable parameter can be keyframed."""
    common = {"name": parameter.label, "description": parameter.description, "default": parameter.default}
    common["translation_context"] = CONTEXT
    if not parameter.animatable or not can_animate:
        common["options"] = set()
    if parameter.choices:
        return EnumProperty(items=enum_items(parameter.choices), **common)
    if isinstance(parameter.default, bool):
        return BoolProperty(**common)
    limits = {
        "min": parameter.min,
        "max": parameter.max,
        "soft_min": parameter.soft_min or parameter.min,
        "soft_max": parameter.soft_max or parameter.max,
    }
    if isinstance(parameter.default, int):
        return IntProperty(**common, **{key: int(value) for key, value in limits.items()})
    formats: dict[str, dict[str, Any]] = {"%": {"subtype": "PERCENTAGE", "precision": 1}, "frames": {"precision": 1}}
    return FloatProperty(**common, **limits, **formats.get(parameter.unit, {}))


def enum_items(entries: Iterable[Any]) -> list[tuple[str, str, str, int]]:
    """Return the items of an EnumProperty for the choices of a parameter, or for the entries of a registry.

    .blend files store the number of an entry, so each has an explicit one.
    """
    return [(entry.name, entry.label, entry.description, entry.number) for entry in entries]


def _on_collider_changed(group: PropertyGroup, context: object) -> None:
    colliders.add_collider(group.id_data)


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


def make_overridable(*classes: type[PropertyGroup]) -> None:
    """Let library overrides keep the values and list items of properties. The classes must not be registered yet.

    Without this, they are lost when the file is opened again, or items cannot be added.
    """
    for cls in classes:
        for name, deferred in get_type_hints(cls).items():
            insertion = {"USE_INSERTION"} if deferred.function is CollectionProperty else set()
            deferred.keywords["override"] = {"LIBRARY_OVERRIDABLE"} | insertion
            cls.__annotations__[name] = deferred


def tag_for_update(group: PropertyGroup, context: object) -> None:
    """Tag the object for an update, since Blender sends none for these properties."""
    group.id_data.update_tag()


class DAMPSIM_PG_part(PropertyGroup):
    """Part of an object. The dials of KEYABLE_PART_DIALS are added below."""

    vertex_group: StringProperty(
        name="Vertex Group",
        description="Choose the vertex group of this part. Weights of 0.6 or more belong to it, and weights of 0.4 or "
        "less do not",
        options=set(),
        update=tag_for_update,
    )
    own_sag: BoolProperty(
        name="Own Sag",
        description="Choose how far this part sags. Its weight is set for that, and its stiffness stays",
        options=set(),
        update=tag_for_update,
    )


for _name in KEYABLE_PART_DIALS:
    DAMPSIM_PG_part.__annotations__[_name] = blender_property(PARAMETERS[_name])


CLASSES = (DAMPSIM_PG_collider, DAMPSIM_PG_part)
make_overridable(*CLASSES)


def register() -> None:
    for one in CLASSES:
        bpy.utils.register_class(one)
    Object.dampsim_collider = PointerProperty(type=DAMPSIM_PG_collider, override={"LIBRARY_OVERRIDABLE"})


def unregister() -> None:
    del Object.dampsim_collider
    for one in reversed(CLASSES):
        bpy.utils.unregister_class(one)
