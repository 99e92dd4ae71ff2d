"""Where the points of links are drawn: on the evaluated meshes, so that they go along with what is shown of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy
import numpy as np
from mathutils import Vector
from mathutils.kdtree import KDTree

from ...core.arrays import Array, Index
from ...core.geometry.affine import transformed
from ..blender.sampler import positions
from ..scene.anchors import gone, has_bone, standing


@dataclass(frozen=True)
class Shown:
    """Of one link. here: (k, 3) in world space.  ends: (2k, 3) those and the other object's, in turn."""

    here: Array
    ends: Array
    rigid: bool


# Which vertices carry a link's points: by the object's number, the link's, and whose vertices; with what they were
# found for.
_carried: dict[tuple[int, int, bool], tuple[bytes, Index, Array]] = {}


def shown(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Iterator[Shown]:
    """The links of an object that lead somewhere."""
    if not obj.dampsim.show_links:
        return
    for number, link in enumerate(obj.dampsim.links):
        if gone(link) or not len(link.points) or (link.bone and not has_bone(link.other, link.bone)):
            continue
        own, far = (np.empty(3 * len(link.points), dtype=np.float32) for _ in range(2))
        link.points.foreach_get("place", own)
        link.points.foreach_get("there", far)
        here = _moved((obj.session_uid, number, True), obj, "", own, view_layer)
        there = _moved((obj.session_uid, number, False), link.other, link.bone, far, view_layer)
        yield Shown(here, np.stack([here, there], axis=1).reshape(-1, 3), bool(link.rigid))


def _moved(
    key: tuple[int, int, bool], obj: bpy.types.Object, bone: str, flat: Array, view_layer: bpy.types.ViewLayer
) -> Array:
    """Points (k, 3) of the object's or bone's space, as far along as the nearest vertices of a mesh went."""
    points = flat.reshape(-1, 3).astype(float)
    matrix = standing(view_layer, obj, bone)
    if obj.type != "MESH" or not len(obj.data.vertices):
        return transformed(matrix, points)
    mark = flat.tobytes() + repr((obj.session_uid, len(obj.data.vertices))).encode()
    if key not in _carried or _carried[key][0] != mark:
        rest = positions(obj.data).astype(float)
        near = _nearest(points, rest)
        _carried[key] = (mark, near, points - rest[near])
    _, near, offsets = _carried[key]
    vertices = obj.evaluated_get(view_layer.depsgraph).data.vertices
    # What adds vertices puts the old ones first.
    there = np.array([vertices[k].co if k < len(vertices) else obj.data.vertices[k].co for k in near.tolist()])
    return transformed(matrix, there + offsets)


def _nearest(points: Array, vertices: Array) -> Index:
    tree = KDTree(len(vertices))
    for number, vertex in enumerate(vertices.tolist()):
        tree.insert(vertex, number)
    tree.balance()
    return np.array([tree.find(Vector(point))[1] for point in points.tolist()], dtype=np.int64)


def forget() -> None:
    _carried.clear()
