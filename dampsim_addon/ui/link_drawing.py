"""Overlay data of links: their points follow the displayed meshes."""

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

# Modifiers that keep the mesh's own vertices first, in their order.
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
    """Link as drawn, in world space.

    points: (k, 3) on the object.  segments: (2k, 3), each of them followed by its partner on the target.
    ties: (2k, 3), lines from the target's points to its centre, for targets without a surface (empties and bones);
    (0, 3) for other targets.
    """

    here: Array
    ends: Array
    ties: Array
    rigid: bool
    chosen: bool


# Nearest vertices and offsets of a link's points. Key: session UID of the object, index of the link, and whether the
# points are the object's own. The first value identifies the inputs.
_carried: dict[tuple[int, int, bool], tuple[bytes, Index, Array]] = {}


def shown(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Iterator[Shown]:
    """Yield the overlay data of an object's links that have a target."""
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
        # An end whose displayed position is unknown is drawn at the other end.
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
    """Return the centre (3,) of a bone, or the origin of an object, in world space."""
    length = obj.pose.bones[bone].length if bone else 0.0
    return np.asarray(transformed(standing(view_layer, obj, bone), np.array([[0.0, 0.5 * length, 0.0]]))[0])


def _moved(
    key: tuple[int, int, bool], obj: bpy.types.Object, bone: str, flat: Array, view_layer: bpy.types.ViewLayer
) -> Array | None:
    """Return the displayed world positions (k, 3) of points, which follow the nearest vertices of a mesh.

    flat: (3k,) in the space of the object or bone. Returns None where the displayed positions are unknown.
    """
    points = flat.reshape(-1, 3).astype(float)
    matrix = standing(view_layer, obj, bone)
    if obj.type != "MESH" or not len(obj.data.vertices):
        return transformed(matrix, points)
    session, made = live.find(obj), bool(simulated_makers(obj))
    playing = live.displayed(obj, bpy.context.scene)
    at_rest = session.rests.get(obj.session_uid) if session and made else None
    if made and (at_rest is None or playing is None or len(at_rest) != len(playing)):
        # Only live frames give the positions of generated vertices.
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
    """Return the displayed positions (k, 3) of some mesh vertices (k,), in object space; None if unknown."""
    if all(modifier.type in _IN_FRONT for modifier in obj.modifiers if modifier.show_viewport):
        vertices = obj.evaluated_get(view_layer.depsgraph).data.vertices
        if len(vertices) >= len(obj.data.vertices):
            return np.array([vertices[k].co for k in numbers.tolist()])
    # Skin, Bevel and others renumber the vertices. Live frames still have the mesh's own ones.
    playing = live.displayed(obj, bpy.context.scene)
    if playing is not None:
        return playing[numbers].astype(float)
    if any(modifier.type in DEFORMING for modifier in obj.modifiers if modifier.show_viewport):
        return None
    return _mixed(obj, numbers)


def _mixed(obj: bpy.types.Object, numbers: Index) -> Array | None:
    """Return some mesh vertices (k, 3) as mixed from the shape keys; None if the mix cannot be computed."""
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
