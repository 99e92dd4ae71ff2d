"""Conversion of an object's muscles and sensors to a core controller."""

from __future__ import annotations

import math

import bpy
import numpy as np

from ...core import (
    Array,
    Controller,
    Muscle,
    MuscleOverride,
    SceneError,
    Sensor,
    SensorInputs,
    SensorType,
    Struts,
    kind_by_name,
)
from ...core.base.wording import closest_name
from ...core.bodies.springs import SpringsKind
from ...core.scene.muscles import MUSCLE_OVERRIDES
from ..blender.animation import animated_paths
from ..blender.sampler import frame_rate
from ..blender.vertex_groups import edge_values, marked_edges, read_weights

# Prefix of the attributes that mark edges of muscles and sensors.
ATTRIBUTE_PREFIX = "dampsim_"


def has_muscles(obj: bpy.types.Object) -> bool:
    """Return whether an object has muscles and its kind supports them."""
    group = obj.dampsim
    return kind_by_name(group.kind).supports_muscles and len(group.muscles) > 0


def has_edge_springs(obj: bpy.types.Object) -> bool:
    """Return whether the springs of an object, or the segments of its rope, are edges of its mesh."""
    group = obj.dampsim
    in_volume = group.kind == SpringsKind.name and group.struts == Struts.VOLUME
    return kind_by_name(group.kind).supports_muscles and not in_volume


def damper_attribute(obj: bpy.types.Object) -> str:
    """Return the edge attribute of an object's dampers; '' for none, or where its springs are not edges of its mesh."""
    return str(obj.dampsim.damper_attribute) if has_edge_springs(obj) else ""


def damper_attributes(obj: bpy.types.Object) -> list[str]:
    """Return the names of the mesh's attributes that can hold dampers."""
    return [one.name for one in obj.data.attributes if one.domain == "EDGE" and one.data_type == "FLOAT"]


def read_dampers(obj: bpy.types.Object, mesh: bpy.types.Mesh) -> Array | None:
    """Return the dampers (e,) of an object's edges, N s/m; None without dampers. mesh: the simulated mesh at rest.

    Raises SceneError where the attribute is missing, or has a value that is negative or not finite.
    """
    name = damper_attribute(obj)
    if not name:
        return None
    found = edge_values(mesh, name)
    if found is None and name in damper_attributes(obj):
        raise SceneError(
            f"{obj.name}: a modifier removes Damper Attribute '{name}'. Apply the modifier, or choose another "
            "attribute."
        )
    if found is None:
        closest = closest_name(name, damper_attributes(obj))
        hint = f"Did you mean '{closest}'?" if closest else "Choose a float attribute of the edges."
        raise SceneError(f"{obj.name}: Damper Attribute '{name}' is missing. {hint}")
    if not np.isfinite(found).all():
        raise SceneError(
            f"{obj.name}: Damper Attribute '{name}' has a value that is not a finite number. Set values of at least "
            "0 N s/m."
        )
    if (found < 0.0).any():
        raise SceneError(f"{obj.name}: Damper Attribute '{name}' has a negative value. Set values of at least 0 N s/m.")
    return found


def sensor_targets(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the objects to which an object's sensors measure distances."""
    if not has_muscles(obj):
        return []
    sensors = obj.dampsim.sensors
    return list(
        dict.fromkeys(one.target for one in sensors if one.sense == SensorType.DISTANCE and one.target is not None)
    )


def build_controller(
    obj: bpy.types.Object, rest: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer
) -> Controller | None:
    """Return the controller of an object; None where it has no muscles. rest: see Sampler.rest_pose().

    Raises SceneError where a target is not in the scene.
    """
    if not has_muscles(obj):
        return None
    group, target_objects = obj.dampsim, sensor_targets(obj)
    for target in target_objects:
        if target.name not in layer.objects:
            raise SceneError(
                f"{obj.name}: object {target.name}, the target of a sensor, is not in the scene. Choose another target."
            )
    muscles = tuple(
        Muscle(
            one.name,
            marked_edges(rest.data, one.attribute),
            _round_single(0.01 * one.length),
            _round_single(0.01 * one.stiffness),
            _round_single(0.01 * one.stiffness_on),
            _round_single(one.damping),
            _round_single(one.damping_on),
            _round_single(one.threshold),
            one.delay,
            tuple(
                # The last sensors may have no weight yet.
                _round_single(one.weights[place].weight) if place < len(one.weights) else 0.0
                for place in range(len(group.sensors))
            ),
            _round_single(one.fps) or frame_rate(scene),
        )
        for one in group.muscles
    )
    return Controller(muscles, tuple(_build_sensor(obj, rest, one, target_objects) for one in group.sensors))


def _build_sensor(
    obj: bpy.types.Object, rest: bpy.types.Object, one: bpy.types.PropertyGroup, target_objects: list[bpy.types.Object]
) -> Sensor:
    if one.sense == SensorType.LENGTH:
        low, high = _round_single(0.01 * one.low), _round_single(0.01 * one.high)
        return Sensor(one.name, SensorType.LENGTH, low, high, edges=marked_edges(rest.data, one.attribute))
    vertices = np.zeros(0, dtype=np.int64)
    if one.vertex_group in obj.vertex_groups:
        vertices = np.flatnonzero(read_weights(rest, [one.vertex_group])[0] > 0.0)
    if one.sense == SensorType.CONTACT:
        return Sensor(one.name, SensorType.CONTACT, high=math.inf, vertices=vertices)
    target_index = target_objects.index(one.target) if one.target is not None else -1
    near, far = _round_single(one.near), _round_single(one.far)
    return Sensor(one.name, SensorType.DISTANCE, near, far, vertices=vertices, target=target_index)


def _round_single(value: float) -> float:
    """Round a property to the number that the user typed, since properties have single precision."""
    return float(f"{value:.6g}")


def muscle_settings(one: bpy.types.PropertyGroup) -> list[object]:
    """Return the settings of a muscle or sensor, except for Force."""
    plain = [p.identifier for p in one.bl_rna.properties if p.type in ("INT", "FLOAT", "ENUM", "STRING")]
    return [getattr(one, name) for name in plain if name != "force"]


def controller_settings(obj: bpy.types.Object) -> tuple[object, ...]:
    """Return the settings of an object's muscles and sensors that are not animated."""
    if not has_muscles(obj):
        return ()
    group, keyed = obj.dampsim, set(animated_paths(obj))
    found: list[object] = []
    for index, one in enumerate(group.muscles):
        forced = None if f"dampsim.muscles[{index}].force" in keyed else one.force
        found.append((*muscle_settings(one), forced, *(weight.weight for weight in one.weights)))
    return (*found, *((*muscle_settings(one), one.target) for one in group.sensors))


def read_controller_inputs(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> SensorInputs:
    """Return the animated inputs of the controller at the current frame: Force and target positions."""
    forced = np.array([MUSCLE_OVERRIDES.index(MuscleOverride(one.force)) for one in obj.dampsim.muscles])
    places = [one.evaluated_get(layer.depsgraph).matrix_world.translation for one in sensor_targets(obj)]
    return SensorInputs(forced, np.array(places, dtype=float).reshape(-1, 3))
