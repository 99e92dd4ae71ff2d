"""The floor that is one click: an infinite plane under what is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import bpy
import numpy as np

from ...core.arrays import Array
from ..blender.sampler import GroupSampler
from .colliders import known, note

NAME = "Floor"
# Its half width, in parts of the size of what lies on it.
_WIDE = 3.0
# What floats higher above the grid than so many of its sizes is not about to fall onto that.
_HIGH = 10.0
# What stands nearer to the grid than this part of its size stands on it.
_NEAR = 0.01
# Contact Distance as it is by default, in parts of the size.
_GAP = 0.005


def existing(scene: bpy.types.Scene) -> bpy.types.Object | None:
    """A floor that a scene has already."""
    found = [obj for obj in known() if obj.dampsim_collider.plane and scene.objects.get(obj.name) == obj]
    return found[0] if found else None


def under(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Mapping[bpy.types.Object, bool]) -> Array:
    """Where a floor is to lie under some objects, and its half width (4,): visits the first frame.

    What is held, or stands on the grid, lies on it; what is about to fall falls onto the grid, or by its own height
    where that is no way down.
    objects: with whether they are about to fall.
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
            # Where it begins to give way, it begins as it was modelled.
            low -= gap
        heights.append(low)
    points = np.concatenate(surfaces)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return np.array([middle[0], middle[1], min(heights), _WIDE * float(np.linalg.norm(np.ptp(points, axis=0)))])


def made(collection: bpy.types.Collection, place: Array, also: Sequence[bpy.types.Collection] = ()) -> bpy.types.Object:
    """A new floor. place: see under().  also: further collections that it has to be in."""
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
