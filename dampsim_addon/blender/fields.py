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
    return _is_field(obj.field) or _has_particle_fields(obj)


def _is_field(field: bpy.types.FieldSettings | None) -> bool:
    return field is not None and field.type != "NONE"


def _has_particle_fields(obj: bpy.types.Object) -> bool:
    particles = [system.settings for system in obj.particle_systems]
    return any(_is_field(field) for one in particles for field in (one.force_field_1, one.force_field_2))


def unsupported_feature(other: bpy.types.Object) -> str:
    """Return the feature of a force field that acts in Blender but is not supported, in words; '' if there is none."""
    if other.hide_viewport:
        return ""
    field = other.field
    if _is_field(field) and field.apply_to_location:
        if field.type in _UNSUPPORTED_TYPES:
            return f"the type {_UNSUPPORTED_TYPES[field.type]}"
        if field.type in ForceFieldType.__members__ and field.shape in _UNSUPPORTED_SHAPES:
            return f"the shape {_UNSUPPORTED_SHAPES[field.shape]}"
        if field.type in ForceFieldType.__members__ and field.use_absorption:
            return "absorption"
    return "force fields of its particles" if _has_particle_fields(other) else ""


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
    if other.hide_viewport or settings is None or not settings.apply_to_location:
        return None
    if settings.type not in ForceFieldType.__members__ or settings.shape not in ForceFieldShape.__members__:
        return None
    matrix = np.array(evaluated.matrix_world, dtype=float)
    length = float(np.linalg.norm(matrix[:3, 2]))
    if not length > _MIN_AXIS_LENGTH:
        return None
    least, most = settings.use_min_distance, settings.use_max_distance
    falloff, second_falloff = _fade(settings, "falloff_power", "distance", least, most), Falloff()
    if settings.falloff_type in ("CONE", "TUBE"):
        least, most = settings.use_radial_min, settings.use_radial_max
        second_falloff = _fade(settings, "radial_falloff", "radial", least, most)
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
        falloff=falloff,
        second_falloff=second_falloff,
        side=ForceFieldSide[settings.z_direction],
    )


def _fade(settings: bpy.types.FieldSettings, power: str, distance: str, has_min: bool, has_max: bool) -> Falloff:
    least = getattr(settings, f"{distance}_min") if has_min else None
    return Falloff(getattr(settings, power), least, getattr(settings, f"{distance}_max") if has_max else None)
