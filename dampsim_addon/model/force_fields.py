"""Force fields of the file, and the selection of those that act on a simulated object."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np

from ...core import DampingBy
from ...core.base.wording import format_number
from ...core.fields.air import AIR_FIELDS, beaufort_name, speed_of
from ..blender.animation import animated_paths
from ..blender.fields import has_field, unsupported_feature
from ..blender.movers import has_object
from .object_index import ObjectIndex

# Settings of a field, with the property names by which they may be animated.
_SETTINGS = {
    **{name: (name,) for name in (
        "shape", "falloff_type", "z_direction", "flow", "size", "rest_length", "noise", "seed", "falloff_power",
        "use_min_distance", "distance_min", "use_max_distance", "distance_max", "radial_falloff", "use_radial_min",
        "radial_min", "use_radial_max", "radial_max", "use_gravity_falloff", "use_global_coords", "apply_to_location",
    )},
    "strength": ("strength", "linear_drag"),
    "harmonic_damping": ("harmonic_damping", "quadratic_drag", "inflow"),
}  # fmt: skip
_DIGITS = 4
# Types of fields that move the air around cloth.
_AIR_FIELDS = {kind.name for kind in AIR_FIELDS}


class ForceFieldIndex(ObjectIndex):
    """Index of the force fields."""

    is_match = staticmethod(has_field)


def all_force_fields() -> list[bpy.types.Object]:
    """Return all objects of the file that are force fields, or have particles that are force fields."""
    return ForceFieldIndex.current().objects()


def fields_acting_on(obj: bpy.types.Object, scope: bpy.types.Scene | bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """Return the force fields of a scene or view layer that may act on a simulated object.

    An effector collection limits them. An object's own field never acts on it.
    """
    limit = obj.dampsim.field_collection
    return [
        other
        for other in all_force_fields()
        if other != obj
        and has_object(scope.objects, other)
        and any(not collection.hide_viewport for collection in other.users_collection)
        and (limit is None or has_object(limit.all_objects, other))
    ]


def unsupported_features(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Return the unsupported features of the force fields that act on an object, in words; '' if there are none."""
    if not obj.dampsim.field_weight > 0.0:
        return ""
    found = [(other.name, what) for other in fields_acting_on(obj, scene) if (what := unsupported_feature(other))]
    return ", ".join(f"{what} of {name}" for name, what in found)


def wind_texts(obj: bpy.types.Object, others: Sequence[bpy.types.Object]) -> list[str]:
    """Return the speed of the air in the middle of each field that moves the air around a cloth, in words."""
    settings = obj.dampsim
    if settings.kind != "CLOTH" or not settings.air > 0.0 or settings.damping_by not in (
        DampingBy.DIALS, DampingBy.FIRST_MODE,
    ):  # fmt: skip
        return []
    found = []
    for other in others:
        if other.field is not None and other.field.type in _AIR_FIELDS:
            speed = float(speed_of(settings.field_weight * other.field.strength))
            words = f", {beaufort_name(speed)}" if other.field.type == "WIND" else " to and fro"
            found.append(f"{other.name}: {format_number(abs(speed), 2)} m/s{words}")
    return found


def force_field_settings(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    """Return the force fields that act on an object and their settings that are not animated, without evaluation."""
    others = [other for other in fields_acting_on(obj, scene) if not other.hide_viewport]
    return {
        "Force Fields of the Scene": ", ".join(other.name for other in others),
        **{f"Force Field {other.name}": _settings(other) for other in others},
    }


def _settings(other: bpy.types.Object) -> str:
    field, keyed = other.field, animated_paths(other)
    if field is None:
        return ""
    found = [str(field.type).replace("_", " ").title()]
    for name, aliases in _SETTINGS.items():
        value = getattr(field, name)
        if any(f"field.{alias}" in keyed for alias in aliases):
            continue
        text = f"{value:.6g}" if isinstance(value, float) else "" if value is True else str(value).lower()
        if value:
            found.append(f"{field.bl_rna.properties[name].name.lower()} {text}".strip())
    if not keyed and other.parent is None and not len(other.constraints):
        # Motion by animation, parents or constraints would need evaluation.
        place, turn = np.array(other.matrix_world)[:3, 3], np.array(other.matrix_world)[:3, 2]
        found += [f"{what} {np.round(part, _DIGITS) + 0.0}" for what, part in (("at", place), ("along", turn))]
    return ", ".join(found)
