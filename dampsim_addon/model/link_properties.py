"""Blender properties of links: target, points and stiffness."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    FloatProperty,
    FloatVectorProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Object, PropertyGroup

from ...core.geometry.mesh.affine import transform_points
from .links import anchor_matrix, has_bone


def _on_target_changed(link: PropertyGroup, context: object) -> None:
    """Update the points' positions in the target's space, which are only drawn; the simulation uses the first frame."""
    obj, other, layer = link.id_data, link.other, bpy.context.view_layer
    has_target = other is not None and layer is not None and (not link.bone or has_bone(other, link.bone))
    to_target = (
        np.linalg.inv(anchor_matrix(layer, other, link.bone)) @ anchor_matrix(layer, obj, "")
        if has_target
        else np.eye(4)
    )
    for point in link.points:
        point.there = transform_points(to_target, np.array([point.place], dtype=float))[0]


def _is_other_object(link: PropertyGroup, other: Object) -> bool:
    return bool(other != link.id_data)


class DampSimPoint(PropertyGroup):
    """Point of a link."""

    place: FloatVectorProperty(
        name="Place", description="Set the position of the point in the object's space, at rest", size=3
    )
    there: FloatVectorProperty(
        name="There",
        description="Set the position of the point in the space of the linked object or bone, for drawing only",
        size=3,
    )


class DampSimLink(PropertyGroup):
    """Link from the object to another one."""

    other: PointerProperty(
        type=Object,
        name="To",
        description="Choose the object to link to. It is simulated together with this one, or not simulated at all",
        poll=_is_other_object,
        update=_on_target_changed,
    )
    bone: StringProperty(
        name="Bone",
        description="Choose a bone of the armature to link to. Leave empty to link to the object itself",
        update=_on_target_changed,
    )
    rigid: BoolProperty(
        name="Rigid", description="Hold the points together without any give", default=True, options=set()
    )
    stiffness: FloatProperty(
        name="Stiffness",
        description="Set the stiffness of each point of a soft link, in newtons per metre",
        default=1000.0,
        min=0.001,
        soft_max=1e6,
        options=set(),
    )
    points: CollectionProperty(type=DampSimPoint)
