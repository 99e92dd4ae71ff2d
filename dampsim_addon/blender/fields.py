"""Conversion of Blender's force fields to those of the core."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np

from ...core import ExternalForces, Falloff, FalloffType, ForceField, ForceFieldShape, ForceFieldSide, ForceFieldType
from .animation import animated_paths
from .sampler import gravity

# Types that act on bodies in Blender and are not supported. Types that are in neither list act only on particles.
_UNSUPPORTED_TYPES = {"TEXTURE": "Texture", "FLUID_FLOW": "Fluid Flow"}
_UNSUPPORTED_SHAPES = {"SURFACE": "Surface", "POINTS": "Every Point"}
# Shorter axes have no direction.
_MIN_AXIS_LENGTH = 1e-9


def has_field(obj: bpy.types.Object) -> bool:
    """Return whether an object is a force field, or has particles that are force fields."""
    field = obj.field
    return (field is not None and field.type != "NONE") or (len(obj.particle_systems) > 0 and _has_particle_fields(obj))


def _has_particle_fields(obj: bpy.types.Object) -> bool:
    """Return whether particles of an object are force fields."""
    fields = [
        field
        for system in obj.particle_systems
        for field in (system.settings.force_field_1, system.settings.force_field_2)
    ]
    return any(field is not None and field.type != "NONE" for field in fields)


def unsupported_feature(other: bpy.types.Object) -> str:
    """Return the feature of a force field that acts in Blender but is not supported, in words; '' if there is none."""
    if other.hide_viewport:
        return ""
    field = other.field
    if field is not None and field.type != "NONE" and field.apply_to_location:
        if field.type in _UNSUPPORTED_TYPES:
            return f"the type {_UNSUPPORTED_TYPES[field.type]}"
        if field.type in ForceFieldType.__members__ and field.shape in _UNSUPPORTED_SHAPES:
            return f"the shape {_UNSUPPORTED_SHAPES[field.shape]}"
        if field.type in ForceFieldType.__members__ and field.use_absorption:
            return "absorption"
    return "force fields of its particles" if len(other.particle_systems) > 0 and _has_particle_fields(other) else ""


def is_gravity_animated(scene: bpy.types.Scene) -> bool:
    """Return whether keyframes or drivers animate a scene's gravity."""
    return any(path in ("gravity", "use_gravity") for path in animated_paths(scene))


def read_external_forces(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, field_objects: Sequence[bpy.types.Object]
) -> ExternalForces:
    """Return gravity (m/s^2) and the force fields of some objects at the current frame."""
    fields = (_read_field(other, view_layer) for other in field_objects)
    return ExternalForces(np.array(gravity(scene)), tuple(field for field in fields if field is not None))


def _read_field(other: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> ForceField | None:
    """Return an object's force field at the current frame; None where it does not act on bodies."""
    evaluated = other.evaluated_get(view_layer.depsgraph)
    settings = evaluated.field
    if (
        other.hide_viewport
        or settings is None
        or settings.type not in ForceFieldType.__members__
        or not settings.apply_to_location
    ):
        return None
    if settings.shape not in ForceFieldShape.__members__:
        return None
    matrix = np.array(evaluated.matrix_world, dtype=float)
    length = float(np.linalg.norm(matrix[:3, 2]))
    if not length > _MIN_AXIS_LENGTH:
        return None
    cone = settings.falloff_type == "CONE"
    return ForceField(
        kind=ForceFieldType[settings.type],
        shape=ForceFieldShape[settings.shape],
        location=matrix[:3, 3],
        axis=matrix[:3, 2] / length,
        strength=settings.strength,
        # Blender stores Harmonic's damping and Drag's quadratic coefficient in the same field.
        damping=settings.harmonic_damping,
        flow=settings.flow,
        size=settings.size,
        rest_length=settings.rest_length,
        gravitation=settings.use_gravity_falloff,
        noise=max(settings.noise, 0.0),
        seed=settings.seed,
        fixed_pattern=settings.use_global_coords,
        falloff_type=FalloffType[settings.falloff_type],
        falloff=_fade(
            settings,
            "falloff_power",
            "distance_min",
            "distance_max",
            settings.use_min_distance,
            settings.use_max_distance,
        ),
        second_falloff=_fade(
            settings, "radial_falloff", "radial_min", "radial_max", settings.use_radial_min, settings.use_radial_max
        )
        if cone or settings.falloff_type == "TUBE"
        else Falloff(),
        side=ForceFieldSide[settings.z_direction],
    )


def _fade(
    settings: bpy.types.FieldSettings, power: str, min_name: str, max_name: str, has_min: bool, has_max: bool
) -> Falloff:
    return Falloff(
        getattr(settings, power),
        getattr(settings, min_name) if has_min else None,
        getattr(settings, max_name) if has_max else None,
    )
