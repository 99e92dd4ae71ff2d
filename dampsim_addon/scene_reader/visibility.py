"""Objects that Blender evaluates, so that their motion can be read."""

from __future__ import annotations

import bpy

from ..blender.animation import driver_targets, drivers_of
from ..blender.dependencies import References
from ..model.objects import is_simulated


def is_in_viewports(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> bool:
    """Return whether an object is enabled in viewports, where Blender evaluates it. The eye icon has no effect."""
    is_in_layer = layer.objects.get(obj.name) == obj
    return is_in_layer and not obj.hide_viewport and any(not one.hide_viewport for one in obj.users_collection)


def is_evaluated_for_others(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> bool:
    """Return whether Blender evaluates an object even while it is disabled, because an enabled one depends on it.

    Blender does not evaluate the targets of an object's own links and sensors for that object.
    """
    enabled = [one for one in layer.objects if one != obj and is_in_viewports(one, layer)]
    simulated = [one for one in enabled if is_simulated(one)]
    roots: list[bpy.types.ID] = [one for one in enabled if one not in simulated]
    for one in simulated:
        roots += _motion_references(one)
    return obj in References().reachable(roots)


def _motion_references(obj: bpy.types.Object) -> list[bpy.types.ID]:
    """Return the datablocks that move an object: parent, targets of constraints, modifiers and drivers."""
    pointers = [obj, *obj.constraints, *obj.modifiers]
    found = [
        getattr(owner, prop.identifier)
        for owner in pointers
        for prop in owner.bl_rna.properties
        if prop.type == "POINTER" and prop.identifier not in ("original", "dampsim", "dampsim_collider")
    ]
    found += [target.id for curve in drivers_of(obj) for target in driver_targets(curve.driver)]
    return [one for one in found if isinstance(one, bpy.types.ID)]
