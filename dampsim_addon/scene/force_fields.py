"""Which force fields reach which simulated objects, in files of any size: see registry."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ..blender.animation import animated_paths
from ..blender.fields import has_field, unfollowed
from ..blender.handlers import unwatch, watch
from .asked import Asked

# What is set of a field, and by which names it may be keyframed.
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
_asked = Asked(has_field)


def known() -> list[bpy.types.Object]:
    """All objects of the file that are force fields, or bear particles that are."""
    return _asked.now()


def reaching(obj: bpy.types.Object, where: bpy.types.Scene | bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """The force fields of a scene or view layer that may act on a simulated object.

    Those of the collection that it names, if it names one, and never its own.
    """
    limit = obj.dampsim.field_collection
    return [
        other
        for other in known()
        if other != obj
        and where.objects.get(other.name) == other
        and any(not collection.hide_viewport for collection in other.users_collection)
        and (limit is None or limit.all_objects.get(other.name) == other)
    ]


def unfollowed_here(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """What of the force fields that reach an object is not followed, in words; '' where all is."""
    if not obj.dampsim.field_weight > 0.0:
        return ""
    found = [(other.name, what) for other in reaching(obj, scene) if (what := unfollowed(other))]
    return ", ".join(f"{what} of {name}" for name, what in found)


def settings_of_fields(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    """The force fields that reach an object, and what is set of each and not keyframed; made without evaluating."""
    others = [other for other in reaching(obj, scene) if not other.hide_viewport]
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
        # What moves it otherwise is not known here.
        place, turn = np.array(other.matrix_world)[:3, 3], np.array(other.matrix_world)[:3, 2]
        found += [f"{what} {np.round(part, _DIGITS) + 0.0}" for what, part in (("at", place), ("along", turn))]
    return ", ".join(found)


@persistent
def forget(*_: object) -> None:
    """Look again when somebody asks."""
    _asked.forget()


@persistent
def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Note an object that has become a field."""
    _asked.after_update(depsgraph)


# Before, so that no object that is no more is held; and after, as others may have asked in between.
_HANDLERS = {
    **dict.fromkeys(("load_pre", "load_post", "undo_pre", "undo_post", "redo_pre", "redo_post"), forget),
    "blend_import_post": forget,
    "depsgraph_update_post": after_update,
}


def register() -> None:
    watch(_HANDLERS)


def unregister() -> None:
    unwatch(_HANDLERS)
    forget()
