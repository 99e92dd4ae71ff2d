"""Floor added by one click: an infinite plane under the simulated objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import bpy
import numpy as np

from ...core import Array
from ..blender.sampler import GroupSampler
from ..model.colliders import add_collider, all_colliders

FLOOR_NAME = "Floor"
# Half width of the displayed plane, relative to the size of the objects on it.
_RELATIVE_HALF_WIDTH = 3.0
# Objects higher above the grid than this, relative to their size, do not fall onto the grid.
_MAX_RELATIVE_DROP = 10.0
# Objects nearer to the grid than this, relative to their size, stand on it.
_STANDING_TOLERANCE = 0.01
# Default Contact Distance, relative to the size.
_DEFAULT_CONTACT_DISTANCE = 0.005


def existing_floor(scene: bpy.types.Scene) -> bpy.types.Object | None:
    """Return an infinite-plane collider of the scene, if there is one."""
    found = [obj for obj in all_colliders() if obj.dampsim_collider.plane and scene.objects.get(obj.name) == obj]
    return found[0] if found else None


def floor_placement(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Mapping[bpy.types.Object, bool]
) -> Array:
    """Return the centre of a floor under some objects and its half width (4,). Visits the first frame.

    Pinned objects, and those that stand on the grid, lie on the floor. Falling objects fall onto the grid. If the grid
    is not below or too far below, they fall by their own height.
    objects: with whether each is free to fall.
    """
    with GroupSampler(scene, view_layer, list(objects)) as sampler:
        surfaces = [member.world_positions_at(float(scene.frame_start)) for member in sampler.members]
    heights = []
    for (obj, is_falling), surface in zip(objects.items(), surfaces, strict=True):
        size = float(np.linalg.norm(np.ptp(surface, axis=0)))
        low, gap = float(surface[:, 2].min()), obj.dampsim.contact_distance or _DEFAULT_CONTACT_DISTANCE * size
        if is_falling and low > _STANDING_TOLERANCE * size:
            low = 0.0 if low < _MAX_RELATIVE_DROP * size else low - float(np.ptp(surface[:, 2]))
        elif is_falling and low < -_STANDING_TOLERANCE * size:
            low -= float(np.ptp(surface[:, 2]))
        else:
            # A gap of the contact distance keeps the contact force zero at the start.
            low -= gap
        heights.append(low)
    points = np.concatenate(surfaces)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return np.array(
        [middle[0], middle[1], min(heights), _RELATIVE_HALF_WIDTH * float(np.linalg.norm(np.ptp(points, axis=0)))]
    )


def create_floor(
    collection: bpy.types.Collection, place: Array, extra_collections: Sequence[bpy.types.Collection] = ()
) -> bpy.types.Object:
    """Create a floor. place: see floor_placement().  extra_collections: further collections to link it to."""
    half = float(place[3])
    mesh = bpy.data.meshes.new(FLOOR_NAME)
    corners = [(-half, -half, 0.0), (half, -half, 0.0), (half, half, 0.0), (-half, half, 0.0)]
    mesh.from_pydata(corners, [], [(0, 1, 2, 3)])
    floor = bpy.data.objects.new(FLOOR_NAME, mesh)
    floor.location = place[:3]
    for one in dict.fromkeys([collection, *extra_collections]):
        one.objects.link(floor)
    floor.dampsim_collider.plane = floor.dampsim_collider.is_collider = True
    add_collider(floor)
    return floor
