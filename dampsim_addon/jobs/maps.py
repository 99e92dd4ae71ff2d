"""Maps of simulated objects for materials, with their colliders."""

from __future__ import annotations

import bpy

from ..blender.hair_tree import HairCollider
from ..blender.maps import attach_maps, contact_range_of
from ..model.colliders import active_colliders
from ..model.objects import check_editable

# Part of the largest dimension of an object at which its contact map falls to 0, unless the user chooses a distance.
_CONTACT_PART = 0.02


def update_maps(view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, contact_range: float = 0.0) -> None:
    """Add maps to an object, or update their colliders.

    contact_range: distance at which the contact map falls to 0, m; 0 for that of the last time, or for a part of the
    object's size.
    Raises SceneError for a linked object.
    """
    check_editable(obj)
    colliders = [HairCollider(one, is_plane=one.dampsim_collider.plane) for one in active_colliders(obj, view_layer)]
    chosen = contact_range or contact_range_of(obj)
    distance = chosen or _CONTACT_PART * max(obj.dimensions[:]) or _CONTACT_PART
    # The nodes measure in the space of the object.
    scale = max(map(abs, obj.matrix_world.to_scale()[:])) or 1.0
    attach_maps(obj, colliders, distance / scale, chosen)
