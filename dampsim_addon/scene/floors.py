"""Floor added by one click: an infinite plane under the simulated objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import bpy
import numpy as np

from ...core.arrays import Array
from ..blender.sampler import GroupSampler
from .colliders import known, note

NAME = "Floor"
# Half width of the displayed plane, relative to the size of the objects on it.
_WIDE = 3.0
# Objects higher above the grid than this, relative to their size, do not fall onto the grid.
_HIGH = 10.0
# Objects nearer to the grid than this, relative to their size, stand on it.
_NEAR = 0.01
# Default Contact Distance, relative to the size.
_GAP = 0.005


def existing(scene: bpy.types.Scene) -> bpy.types.Object | None:
    """Return an infinite-plane collider of the scene, if there is one."""
    found = [obj for obj in known() if obj.dampsim_collider.plane and scene.objects.get(obj.name) == obj]
    return found[0] if found else None


def under(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Mapping[bpy.types.Object, bool]) -> Array:
    """Return the centre of a floor under some objects and its half width (4,). Visits the first frame.

    Pinned objects, and those that stand on the grid, lie on the floor. Falling objects fall onto the grid. If the grid
    is not below or too far below, they fall by their own height.
    objects: with whether each is free to fall.
    """
    with GroupSampler(scene, view_layer, list(objects)) as sampler:
        surfaces = [member.world(float(scene.frame_start)) for member in sampler.members]
    heights = []
    for (obj, falls), surface in zip(objects.items(), surfaces, strict=True):
        size = float(np.linalg.norm(np.ptp(surface, axis=0)))
        low, gap = float(surface[:, 2].min()), obj.dampsim.contact_distance or _GAP * size
        if falls and low > _NEAR * size:
            low = 0.0 if low < _HIGH * size else low - float(np.ptp(surface[:, 2]))
        elif falls and low < -_NEAR * size:
            low -= float(np.ptp(surface[:, 2]))
        else:
            # A gap of the contact distance keeps the contact force zero at the start.
            low -= gap
        heights.append(low)
    points = np.concatenate(surfaces)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return np.array([middle[0], middle[1], min(heights), _WIDE * float(np.linalg.norm(np.ptp(points, axis=0)))])


def made(collection: bpy.types.Collection, place: Array, also: Sequence[bpy.types.Collection] = ()) -> bpy.types.Object:
    """Create a floor. place: see floor_placement().  extra_collections: further collections to link it to."""
    half = float(place[3])
    mesh = bpy.data.meshes.new(NAME)
    corners = [(-half, -half, 0.0), (half, -half, 0.0), (half, half, 0.0), (-half, half, 0.0)]
    mesh.from_pydata(corners, [], [(0, 1, 2, 3)])
    floor = bpy.data.objects.new(NAME, mesh)
    floor.location = place[:3]
    for one in dict.fromkeys([collection, *also]):
        one.objects.link(floor)
    floor.dampsim_collider.plane = floor.dampsim_collider.is_collider = True
    note(floor)
    return floor
