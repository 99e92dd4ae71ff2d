"""Where the points of links are drawn: on what is shown of the meshes, so that they go along with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy
import numpy as np
from mathutils import Vector
from mathutils.kdtree import KDTree

from ...core.arrays import Array, Index
from ...core.geometry.affine import transformed
from .. import live
from ..blender.modifiers import DEFORMING, simulated_makers
from ..blender.sampler import positions
from ..scene.anchors import gone, has_bone, standing

# Modifiers after which the mesh's own vertices still are the first ones.
_IN_FRONT = DEFORMING | {
    "EDGE_SPLIT",
    "MULTIRES",
    "NORMAL_EDIT",
    "SOLIDIFY",
    "SUBSURF",
    "TRIANGULATE",
    "WEIGHTED_NORMAL",
}


@dataclass(frozen=True)
class Shown:
    """Of one link. here: (k, 3) in world space.  ends: (2k, 3) those and the other object's, in turn.

    ties: (2k, 3) from there to the middle of what has no surface of its own, an empty or a bone; (0, 3) for others.
    """

    here: Array
    ends: Array
    ties: Array
    rigid: bool
    chosen: bool


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
        # Where nobody knows how far the one went, it is shown where the other one is.
        here, there = there if here is None else here, here if there is None else there
        if here is None or there is None:
            continue
        ties = np.zeros((0, 3))
        if link.other.type != "MESH":
            middle = _middle(link.other, link.bone, view_layer)
            ties = np.stack([there, np.broadcast_to(middle, there.shape)], axis=1).reshape(-1, 3)
        ends = np.stack([here, there], axis=1).reshape(-1, 3)
        yield Shown(here, ends, ties, bool(link.rigid), number == obj.dampsim.active_link)


def _middle(obj: bpy.types.Object, bone: str, view_layer: bpy.types.ViewLayer) -> Array:
    """(3,) in world space: of a bone halfway along it, else the origin."""
    length = obj.pose.bones[bone].length if bone else 0.0
    return np.asarray(transformed(standing(view_layer, obj, bone), np.array([[0.0, 0.5 * length, 0.0]]))[0])


def _moved(
    key: tuple[int, int, bool], obj: bpy.types.Object, bone: str, flat: Array, view_layer: bpy.types.ViewLayer
) -> Array | None:
    """Points (k, 3) of the object's or bone's space, as far along as the nearest vertices of a mesh went.

    None where that is not known.
    """
    points = flat.reshape(-1, 3).astype(float)
    matrix = standing(view_layer, obj, bone)
    if obj.type != "MESH" or not len(obj.data.vertices):
        return transformed(matrix, points)
    session, made = live.find(obj), bool(simulated_makers(obj))
    playing = live.displayed(obj, bpy.context.scene)
    at_rest = session.rests.get(obj.session_uid) if session and made else None
    if made and (at_rest is None or playing is None or len(at_rest) != len(playing)):
        # Only what plays tells where its vertices went.
        return transformed(matrix, points)
    count = len(obj.data.vertices) if at_rest is None else len(at_rest)
    mark = flat.tobytes() + repr((obj.session_uid, count, made)).encode()
    if key not in _carried or _carried[key][0] != mark:
        rest = positions(obj.data).astype(float) if at_rest is None else at_rest
        near = _nearest(points, rest)
        _carried[key] = (mark, near, points - rest[near])
    _, near, offsets = _carried[key]
    there = playing[near].astype(float) if made and playing is not None else _places(obj, near, view_layer)
    return None if there is None else transformed(matrix, there + offsets)


def _places(obj: bpy.types.Object, numbers: Index, view_layer: bpy.types.ViewLayer) -> Array | None:
    """Where some of the mesh's own vertices (k,) are shown, (k, 3) in the object's space; None if nobody knows."""
    if all(modifier.type in _IN_FRONT for modifier in obj.modifiers if modifier.show_viewport):
        vertices = obj.evaluated_get(view_layer.depsgraph).data.vertices
        if len(vertices) >= len(obj.data.vertices):
            return np.array([vertices[k].co for k in numbers.tolist()])
    # Skin, Bevel and others number the vertices anew: then it is looked up what they got.
    playing = live.displayed(obj, bpy.context.scene)
    if playing is not None:
        return playing[numbers].astype(float)
    if any(modifier.type in DEFORMING for modifier in obj.modifiers if modifier.show_viewport):
        return None
    return _mixed(obj, numbers)


def _mixed(obj: bpy.types.Object, numbers: Index) -> Array | None:
    """Vertices (k, 3) as the shape keys have them."""
    keys, chosen = obj.data.shape_keys, numbers.tolist()
    if keys is None:
        return np.array([obj.data.vertices[k].co for k in chosen])
    if not keys.use_relative or obj.show_only_shape_key or any(key.vertex_group for key in keys.key_blocks):
        return None
    mixed = np.array([keys.reference_key.points[k].co for k in chosen])
    for key in keys.key_blocks:
        if not key.mute and key.value and key != keys.reference_key:
            mixed += key.value * np.array([key.points[k].co - key.relative_key.points[k].co for k in chosen])
    return mixed


def _nearest(points: Array, vertices: Array) -> Index:
    tree = KDTree(len(vertices))
    for number, vertex in enumerate(vertices.tolist()):
        tree.insert(vertex, number)
    tree.balance()
    return np.array([tree.find(Vector(point))[1] for point in points.tolist()], dtype=np.int64)


def forget() -> None:
    _carried.clear()
