"""Blender properties of links: where they hold, and how."""

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

from ...core.geometry.affine import transformed
from .anchors import has_bone, standing


def _led_elsewhere(link: PropertyGroup, context: object) -> None:
    """Draw the points there from now on; at the first frame, that is where they are simulated."""
    obj, other, layer = link.id_data, link.other, bpy.context.view_layer
    found = other is not None and layer is not None and (not link.bone or has_bone(other, link.bone))
    way = np.linalg.inv(standing(layer, other, link.bone)) @ standing(layer, obj, "") if found else np.eye(4)
    for point in link.points:
        point.there = transformed(way, np.array([point.place], dtype=float))[0]


def _not_itself(link: PropertyGroup, other: Object) -> bool:
    return bool(other != link.id_data)


class DampSimPoint(PropertyGroup):
    """Where a link holds."""

    place: FloatVectorProperty(name="Place", description="In the object's space, where it is at rest", size=3)
    there: FloatVectorProperty(
        name="There", description="The same in the other object's or bone's space; drawn, not simulated", size=3
    )


class DampSimLink(PropertyGroup):
    """What holds the object to another one."""

    other: PointerProperty(
        type=Object,
        name="To",
        description="What it is linked to: an object that is simulated with it, or any other one",
        poll=_not_itself,
        update=_led_elsewhere,
    )
    bone: StringProperty(
        name="Bone", description="The bone of an armature; empty for the object itself", update=_led_elsewhere
    )
    rigid: BoolProperty(
        name="Rigid", description="Hold the points together without giving way", default=True, options=set()
    )
    stiffness: FloatProperty(
        name="Stiffness",
        description="How strongly each point of a soft link is held, in newtons per metre",
        default=1000.0,
        min=0.001,
        soft_max=1e6,
        options=set(),
    )
    points: CollectionProperty(type=DampSimPoint)
