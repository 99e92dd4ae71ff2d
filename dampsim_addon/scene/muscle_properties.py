"""Blender properties of muscles and sensors, beside a simulated object's dials."""

from __future__ import annotations

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

from ...core.scene.muscles import Force, Sense
from ..blender.sampler import frame_rate


def _delay_dialled(muscle: PropertyGroup, context: bpy.types.Context) -> None:
    """It is meant in frames of the scene as it is now."""
    muscle.fps = frame_rate(context.scene)


class DampSimWeight(PropertyGroup):
    """What a sensor says to a muscle."""

    weight: FloatProperty(
        name="Weight", description="What this sensor adds to the muscle's sum while it reads 1", soft_min=-2.0,
        soft_max=2.0, options=set(),
    )  # fmt: skip


class DampSimMuscle(PropertyGroup):
    """Edges that a machine switches. Its weights are of the object's sensors, in their order."""

    attribute: StringProperty(name="Edges", description="Attribute of the mesh that marks its edges", options=set())
    length: FloatProperty(
        name="Length", description="How long it is at rest while on, in percent of its length while off", default=70.0,
        min=1.0, soft_min=20.0, soft_max=200.0, max=1000.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    stiffness: FloatProperty(
        name="Stiffness", description="While off, in percent of what its edges have without it", default=100.0,
        min=0.01, soft_max=200.0, max=10000.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    stiffness_on: FloatProperty(
        name="Stiffness On", description="While on, in percent of what its edges have without it", default=100.0,
        min=0.01, soft_max=200.0, max=10000.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    damping: FloatProperty(
        name="Damping", description="Seconds in which a damper beside it, while off, lets it come two thirds "
        "of its way",
        min=0.0, soft_max=1.0, max=100.0, precision=3, subtype="TIME_ABSOLUTE", unit="TIME_ABSOLUTE", options=set(),
    )  # fmt: skip
    damping_on: FloatProperty(
        name="Damping On", description="Seconds in which a damper beside it, while on, lets it come two thirds of its "
        "way", min=0.0, soft_max=1.0, max=100.0, precision=3, subtype="TIME_ABSOLUTE", unit="TIME_ABSOLUTE",
        options=set(),
    )  # fmt: skip
    threshold: FloatProperty(
        name="Threshold", description="It wants to be on where the weights of the sensors that read 1 add up to more",
        default=1.0, soft_min=-2.0, soft_max=4.0, options=set(),
    )  # fmt: skip
    delay: IntProperty(
        name="Delay", description="Frames for which it has to want so before it switches", min=0, soft_max=24,
        max=1000, update=_delay_dialled, options=set(),
    )  # fmt: skip
    fps: FloatProperty(options={"HIDDEN"})
    force: EnumProperty(
        name="Force",
        description="Whether its sensors switch it, or this does; it can be keyframed",
        items=[
            (Force.AUTO, "Auto", "Its sensors switch it", "AUTO", 0),
            (Force.OFF, "Off", "It is off, whatever its sensors say", "RADIOBUT_OFF", 1),
            (Force.ON, "On", "It is on, whatever its sensors say", "RADIOBUT_ON", 2),
        ],
    )
    weights: CollectionProperty(type=DampSimWeight)


class DampSimSensor(PropertyGroup):
    """What a machine looks at."""

    sense: EnumProperty(
        name="Sense",
        description="What it looks at",
        items=[
            (Sense.LENGTH, "Length", "It reads 1 while its edges are as long as its limits say"),
            (Sense.CONTACT, "Contact", "It reads 1 while a vertex of its group touches something"),
            (Sense.DISTANCE, "Distance", "It reads 1 while its group's middle is as far from an object as is said"),
        ],
        options=set(),
    )  # fmt: skip
    attribute: StringProperty(name="Edges", description="Attribute of the mesh that marks its edges", options=set())
    vertex_group: StringProperty(name="Group", description="Vertices that it feels with", options=set())
    target: PointerProperty(type=Object, name="Target", description="The object whose origin it looks at")
    low: FloatProperty(
        name="Low", description="It reads 0 while they are shorter, in percent of their length at rest", default=90.0,
        min=0.0, soft_max=200.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    high: FloatProperty(
        name="High", description="It reads 0 while they are longer, in percent of their length at rest", default=1000.0,
        min=0.0, soft_max=200.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    near: FloatProperty(name="From", description="It reads 0 nearer than this", min=0.0, unit="LENGTH", options=set())
    far: FloatProperty(
        name="To", description="It reads 0 farther than this", default=1.0, min=0.0, unit="LENGTH", options=set()
    )


class DampSimWalk(PropertyGroup):
    """A walk that was found: its name says how far it came."""

    way: FloatProperty(name="Way", description="How far it came", unit="LENGTH", options={"HIDDEN"})
    numbers: StringProperty(options={"HIDDEN"})
    shown: BoolProperty(
        name="Show", description="Whether it is one of those that Show as Ghosts draws", default=True, options=set()
    )


class HasMuscles:
    """What of a simulated object a machine switches."""

    muscles: CollectionProperty(type=DampSimMuscle)
    active_muscle: IntProperty(options={"HIDDEN"})
    sensors: CollectionProperty(type=DampSimSensor)
    active_sensor: IntProperty(options={"HIDDEN"})
    walks: CollectionProperty(type=DampSimWalk)
    active_walk: IntProperty(options={"HIDDEN"})
    # What the last search came to, until one of its walks is used.
    walk_said: StringProperty(options={"HIDDEN"})
    walk_seed: IntProperty(name="Seed", description="Another seed finds other walks", min=0, options=set())
    walk_seconds: FloatProperty(
        name="Seconds", description="For how long each of them walks, while they are looked for", default=6.0, min=1.0,
        soft_max=20.0, max=120.0, options=set(),
    )  # fmt: skip


CLASSES = (DampSimWeight, DampSimMuscle, DampSimSensor, DampSimWalk)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
