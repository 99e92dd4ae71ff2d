"""Conversion of an object's muscles and sensors to a core controller."""

from __future__ import annotations

import math

import bpy
import numpy as np

from ...core.arrays import Index
from ...core.bodies.registry import kind
from ...core.errors import SceneError
from ...core.scene.muscles import FORCES, Controller, Force, Muscle, Sense, Sensor, Watched
from ..blender.animation import animated_paths
from ..blender.edge_attributes import marked
from ..blender.sampler import frame_rate
from ..blender.vertex_groups import weights

# Prefix of the attributes that mark edges of muscles and sensors.
MARK = "dampsim_"


def has_muscles(obj: bpy.types.Object) -> bool:
    """Return whether an object has muscles and its kind supports them."""
    group = obj.dampsim
    return kind(group.kind).switched and len(group.muscles) > 0


def targets(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the objects to which an object's sensors measure distances."""
    if not has_muscles(obj):
        return []
    sensors = obj.dampsim.sensors
    return list(dict.fromkeys(one.target for one in sensors if one.sense == Sense.DISTANCE and one.target is not None))


def weight_of(muscle: bpy.types.PropertyGroup, place: int) -> float:
    """Return a muscle's weight for the sensor with an index; 0 where it has none."""
    return float(muscle.weights[place].weight) if place < len(muscle.weights) else 0.0


def controller_of(
    obj: bpy.types.Object, mesh: bpy.types.Mesh, scene: bpy.types.Scene, layer: bpy.types.ViewLayer
) -> Controller | None:
    """Return the controller of an object; None where it has no muscles. mesh: the simulated mesh at rest.

    Raises SceneError where a target is not in the scene.
    """
    if not has_muscles(obj):
        return None
    group, seen = obj.dampsim, targets(obj)
    for target in seen:
        if target.name not in layer.objects:
            raise SceneError(
                f"{obj.name}: object {target.name}, the target of a sensor, is not in the scene. Choose another target."
            )
    muscles = tuple(
        Muscle(
            one.name,
            marked(mesh, one.attribute),
            _round(0.01 * one.length),
            _round(0.01 * one.stiffness),
            _round(0.01 * one.stiffness_on),
            _round(one.damping),
            _round(one.damping_on),
            _round(one.threshold),
            one.delay,
            tuple(_round(weight_of(one, k)) for k in range(len(group.sensors))),
            _round(one.fps) or frame_rate(scene),
        )
        for one in group.muscles
    )
    return Controller(muscles, tuple(_sensor(obj, mesh, one, seen) for one in group.sensors))


def _sensor(
    obj: bpy.types.Object, mesh: bpy.types.Mesh, one: bpy.types.PropertyGroup, seen: list[bpy.types.Object]
) -> Sensor:
    if one.sense == Sense.LENGTH:
        low, high = _round(0.01 * one.low), _round(0.01 * one.high)
        return Sensor(one.name, Sense.LENGTH, low, high, edges=marked(mesh, one.attribute))
    felt = _vertices(obj, mesh, one)
    if one.sense == Sense.CONTACT:
        return Sensor(one.name, Sense.CONTACT, high=math.inf, vertices=felt)
    place = seen.index(one.target) if one.target is not None else -1
    return Sensor(one.name, Sense.DISTANCE, _round(one.near), _round(one.far), vertices=felt, target=place)


def _vertices(obj: bpy.types.Object, mesh: bpy.types.Mesh, one: bpy.types.PropertyGroup) -> Index:
    if one.vertex_group not in obj.vertex_groups:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(weights(obj, [one.vertex_group], mesh)[0] > 0.0)


def _round(value: float) -> float:
    """Round a property to the number that the user typed, since properties have single precision."""
    return float(f"{value:.6g}")


def dials_of(one: bpy.types.PropertyGroup) -> list[object]:
    """Return the settings of a muscle or sensor, except for Force."""
    plain = [p.identifier for p in one.bl_rna.properties if p.type in ("INT", "FLOAT", "ENUM", "STRING")]
    return [getattr(one, name) for name in plain if name != "force"]


def machine_of(obj: bpy.types.Object) -> tuple[object, ...]:
    """Return the settings of an object's muscles and sensors that are not animated."""
    if not has_muscles(obj):
        return ()
    group, keyed = obj.dampsim, set(animated_paths(obj))
    found: list[object] = []
    for place, one in enumerate(group.muscles):
        forced = None if f"dampsim.muscles[{place}].force" in keyed else one.force
        found.append((*dials_of(one), forced, *(weight.weight for weight in one.weights)))
    return (*found, *((*dials_of(one), one.target) for one in group.sensors))


def watched(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> Watched:
    """Return the animated inputs of the controller at the current frame: Force and target positions."""
    forced = np.array([FORCES.index(Force(one.force)) for one in obj.dampsim.muscles])
    places = [one.evaluated_get(layer.depsgraph).matrix_world.translation for one in targets(obj)]
    return Watched(forced, np.array(places, dtype=float).reshape(-1, 3))
