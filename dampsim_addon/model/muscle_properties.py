"""Blender properties of muscles, sensors and walks."""

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

from ...core import MuscleOverride, SensorType
from ..blender.sampler import frame_rate
from .parameter_properties import make_overridable


def _on_delay_changed(muscle: PropertyGroup, context: bpy.types.Context) -> None:
    """Store the frame rate to which the delay in frames refers."""
    muscle.fps = frame_rate(context.scene)


class DAMPSIM_PG_weight(PropertyGroup):
    """Weight of a sensor for a muscle."""

    weight: FloatProperty(
        name="Weight", description="Add this to the muscle's total while the sensor reads 1", soft_min=-2.0,
        soft_max=2.0, options=set(),
    )  # fmt: skip


class DAMPSIM_PG_muscle(PropertyGroup):
    """Edges that a controller switches. weights: one for each of the object's sensors, in their order."""

    attribute: StringProperty(name="Edges", description="Choose the mesh attribute that marks the edges", options=set())
    length: FloatProperty(
        name="Length", description="Set the rest length while on, as a percentage of the rest length while off",
        default=70.0, min=1.0, soft_min=20.0, soft_max=200.0, max=1000.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    stiffness: FloatProperty(
        name="Stiffness", description="Set the stiffness while off, as a percentage of the stiffness of its edges",
        default=100.0, min=0.01, soft_max=200.0, max=10000.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    stiffness_on: FloatProperty(
        name="Stiffness On", description="Set the stiffness while on, as a percentage of the stiffness of its edges",
        default=100.0, min=0.01, soft_max=200.0, max=10000.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    damping: FloatProperty(
        name="Damping", description="Set how slowly its length changes while off: the time for about two thirds "
        "of a change",
        min=0.0, soft_max=1.0, max=100.0, precision=3, subtype="TIME_ABSOLUTE", unit="TIME_ABSOLUTE", options=set(),
    )  # fmt: skip
    damping_on: FloatProperty(
        name="Damping On", description="Set how slowly its length changes while on: the time for about two thirds "
        "of a change",
        min=0.0, soft_max=1.0, max=100.0, precision=3, subtype="TIME_ABSOLUTE", unit="TIME_ABSOLUTE",
        options=set(),
    )  # fmt: skip
    threshold: FloatProperty(
        name="Threshold",
        description="Switch the muscle on while the weights of all sensors that read 1 add up to more than this",
        default=1.0, soft_min=-2.0, soft_max=4.0, options=set(),
    )  # fmt: skip
    delay: IntProperty(
        name="Delay",
        description="Switch only after more than this many frames in a row above (on) or below (off) the threshold",
        min=0, soft_max=24, max=1000, update=_on_delay_changed, options=set(),
    )  # fmt: skip
    fps: FloatProperty(options={"HIDDEN"})
    force: EnumProperty(
        name="Override",
        description="Let the sensors switch the muscle, or keep it on or off regardless of them. This can be keyframed",
        items=[
            (MuscleOverride.AUTO, "Auto", "Let its sensors switch it", "AUTO", 0),
            (MuscleOverride.OFF, "Off", "Keep it off and ignore its sensors", "RADIOBUT_OFF", 1),
            (MuscleOverride.ON, "On", "Keep it on and ignore its sensors", "RADIOBUT_ON", 2),
        ],
    )
    weights: CollectionProperty(type=DAMPSIM_PG_weight)


class DAMPSIM_PG_sensor(PropertyGroup):
    """Sensor of a controller."""

    sense: EnumProperty(
        name="Sensor Type",
        description="Choose the quantity that the sensor measures",
        items=[
            (SensorType.LENGTH, "Length", "Read 1 while the total length of its edges is within the limits", 0),
            (SensorType.CONTACT, "Contact", "Read 1 while a vertex of its group touches something", 1),
            (
                SensorType.DISTANCE, "Distance",
                "Read 1 while the distance from the centre of its group to an object is in range", 2,
            ),
        ],
        options=set(),
    )  # fmt: skip
    attribute: StringProperty(name="Edges", description="Choose the mesh attribute that marks the edges", options=set())
    vertex_group: StringProperty(
        name="Group", description="Choose the vertex group that the sensor observes", options=set()
    )
    target: PointerProperty(type=Object, name="Target", description="Measure the distance to the origin of this object")
    low: FloatProperty(
        name="Min Length", description="Read 0 below this length, as a percentage of the rest length", default=90.0,
        min=0.0, soft_max=200.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    high: FloatProperty(
        name="Max Length", description="Read 0 above this length, as a percentage of the rest length", default=1000.0,
        min=0.0, soft_max=200.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    near: FloatProperty(
        name="Min Distance", description="Read 0 below this distance", min=0.0, unit="LENGTH", options=set()
    )
    far: FloatProperty(
        name="Max Distance",
        description="Read 0 above this distance",
        default=1.0,
        min=0.0,
        unit="LENGTH",
        options=set(),
    )


class DAMPSIM_PG_walk(PropertyGroup):
    """Walk found by a search. Its name states the distance."""

    way: FloatProperty(name="Distance", description="Show the distance walked", unit="LENGTH", options={"HIDDEN"})
    numbers: StringProperty(options={"HIDDEN"})
    shown: BoolProperty(name="Show", description="Draw this walk with Show as Ghosts", default=True, options=set())


class MuscleProperties:
    """Muscles, sensors and found walks of a simulated object."""

    muscles: CollectionProperty(type=DAMPSIM_PG_muscle)
    active_muscle: IntProperty(options={"HIDDEN"})
    sensors: CollectionProperty(type=DAMPSIM_PG_sensor)
    active_sensor: IntProperty(options={"HIDDEN"})
    walks: CollectionProperty(type=DAMPSIM_PG_walk)
    active_walk: IntProperty(options={"HIDDEN"})
    # Result of the last search in words, until one of its walks is used.
    walk_said: StringProperty(options={"HIDDEN"})
    walk_seed: IntProperty(
        name="Seed", description="Set the random seed; other seeds find other walks", min=0, options=set()
    )
    walk_seconds: FloatProperty(
        name="Seconds", description="Simulate each candidate walk for this many seconds", default=6.0, min=1.0,
        soft_max=20.0, max=120.0, options=set(),
    )  # fmt: skip


CLASSES = (DAMPSIM_PG_weight, DAMPSIM_PG_muscle, DAMPSIM_PG_sensor, DAMPSIM_PG_walk)
make_overridable(*CLASSES)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
