"""Conversion of Blender's force fields to those of the core."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np

from ...core.fields.field import Fade, Field, Kind, Outside, Shape, Side, Within
from .animation import animated_paths
from .sampler import gravity

# Types that act on bodies in Blender and are not supported. Types that are in neither list act only on particles.
_UNFOLLOWED = {"TEXTURE": "Texture", "FLUID_FLOW": "Fluid Flow"}
_SHAPES = {"SURFACE": "Surface", "POINTS": "Every Point"}
# Shorter axes have no direction.
_NO_WAY = 1e-9


def has_field(obj: bpy.types.Object) -> bool:
    """Return whether an object is a force field, or has particles that are force fields."""
    field = obj.field
    return (field is not None and field.type != "NONE") or (len(obj.particle_systems) > 0 and _borne(obj))


def _borne(obj: bpy.types.Object) -> bool:
    """Return whether particles of an object are force fields."""
    fields = [
        field
        for system in obj.particle_systems
        for field in (system.settings.force_field_1, system.settings.force_field_2)
    ]
    return any(field is not None and field.type != "NONE" for field in fields)


def unfollowed(other: bpy.types.Object) -> str:
    """Return the feature of a force field that acts in Blender but is not supported, in words; '' if there is none."""
    if other.hide_viewport:
        return ""
    field = other.field
    if field is not None and field.type != "NONE" and field.apply_to_location:
        if field.type in _UNFOLLOWED:
            return f"the type {_UNFOLLOWED[field.type]}"
        if field.type in Kind.__members__ and field.shape in _SHAPES:
            return f"the shape {_SHAPES[field.shape]}"
        if field.type in Kind.__members__ and field.use_absorption:
            return "absorption"
    return "force fields of its particles" if len(other.particle_systems) > 0 and _borne(other) else ""


def gravity_moves(scene: bpy.types.Scene) -> bool:
    """Return whether keyframes or drivers animate a scene's gravity."""
    return any(path in ("gravity", "use_gravity") for path in animated_paths(scene))


def outside_now(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, others: Sequence[bpy.types.Object]) -> Outside:
    """Return gravity (m/s^2) and the force fields of some objects at the current frame."""
    fields = (_now(other, view_layer) for other in others)
    return Outside(np.array(gravity(scene)), tuple(field for field in fields if field is not None))


def _now(other: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Field | None:
    """Return an object's force field at the current frame; None where it does not act on bodies."""
    evaluated = other.evaluated_get(view_layer.depsgraph)
    one = evaluated.field
    if other.hide_viewport or one is None or one.type not in Kind.__members__ or not one.apply_to_location:
        return None
    if one.shape not in Shape.__members__:
        return None
    matrix = np.array(evaluated.matrix_world, dtype=float)
    length = float(np.linalg.norm(matrix[:3, 2]))
    if not length > _NO_WAY:
        return None
    cone = one.falloff_type == "CONE"
    return Field(
        kind=Kind[one.type],
        shape=Shape[one.shape],
        place=matrix[:3, 3],
        axis=matrix[:3, 2] / length,
        strength=one.strength,
        # Blender stores Harmonic's damping and Drag's quadratic coefficient in the same field.
        damping=one.harmonic_damping,
        flow=one.flow,
        size=one.size,
        rest_length=one.rest_length,
        gravitation=one.use_gravity_falloff,
        noise=max(one.noise, 0.0),
        seed=one.seed,
        fixed_pattern=one.use_global_coords,
        within=Within[one.falloff_type],
        fade=_fade(one, "falloff_power", "distance_min", "distance_max", one.use_min_distance, one.use_max_distance),
        across=_fade(one, "radial_falloff", "radial_min", "radial_max", one.use_radial_min, one.use_radial_max)
        if cone or one.falloff_type == "TUBE"
        else Fade(),
        side=Side[one.z_direction],
    )


def _fade(one: bpy.types.FieldSettings, power: str, least: str, most: str, has_least: bool, has_most: bool) -> Fade:
    return Fade(
        getattr(one, power), getattr(one, least) if has_least else None, getattr(one, most) if has_most else None
    )
