"""Overlay of links: their points follow the displayed meshes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy
import numpy as np
from mathutils import Vector
from mathutils.kdtree import KDTree

from ....core import Array, Index
from ....core.geometry.mesh.rigid_motion import transform_points
from ... import live
from ...blender.modifiers import DEFORMING, has_deform_modifier, simulated_topology_modifiers
from ...blender.sampler import mesh_positions
from ...model.links import anchor_matrix, has_bone, is_target_deleted
from ...session import SessionState
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

# Modifiers that keep the mesh's own vertices first, in their order.
_ORDER_PRESERVING = DEFORMING | {
    "EDGE_SPLIT",
    "MULTIRES",
    "NORMAL_EDIT",
    "SOLIDIFY",
    "SUBSURF",
    "TRIANGULATE",
    "WEIGHTED_NORMAL",
}

_RIGID_COLOR: drawing.Color = (1.0, 0.4, 0.15, 1.0)
_ELASTIC_COLOR: drawing.Color = (0.5, 0.8, 1.0, 1.0)
# Diameter of points in pixels, larger for the active link. A dark outline separates them from Blender's selection
# outline.
_POINT_SIZE, _ACTIVE_POINT_SIZE, _OUTLINE_WIDTH = 5.0, 8.0, 1.5
_OUTLINE_COLOR: drawing.Color = (0.05, 0.05, 0.05, 0.8)


@dataclass(frozen=True)
class LinkOverlay:
    """Link as drawn, in world space.

    points: (k, 3) on the object.  segments: (2k, 3), each of them followed by its partner on the target.
    ties: (2k, 3), lines from the target's points to its centre, for targets without a surface (empties and bones);
    (0, 3) for other targets.
    """

    points: Array
    segments: Array
    ties: Array
    is_rigid: bool
    is_active: bool


class _Bindings(SessionState, dict[tuple[int, int, bool], tuple[bytes, Index, Array]]):
    """Inputs as bytes, nearest vertices and offsets of a link's points.

    Key: session UID of the object, index of the link, and whether the points are the object's own.
    """


def link_overlays(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Iterator[LinkOverlay]:
    """Yield the overlay data of an object's links that have a target."""
    for number, link in enumerate(obj.dampsim.links):
        if is_target_deleted(link) or not len(link.points) or (link.bone and not has_bone(link.other, link.bone)):
            continue
        own_points, target_points = (np.empty(3 * len(link.points), dtype=np.float32) for _ in range(2))
        link.points.foreach_get("place", own_points)
        link.points.foreach_get("there", target_points)
        own_positions = _displayed_points((obj.session_uid, number, True), obj, "", own_points, view_layer)
        target_positions = _displayed_points(
            (obj.session_uid, number, False), link.other, link.bone, target_points, view_layer
        )
        # An end whose displayed position is unknown is drawn at the other end.
        own_positions, target_positions = (
            target_positions if own_positions is None else own_positions,
            own_positions if target_positions is None else target_positions,
        )
        if own_positions is None or target_positions is None:
            continue
        ties = np.zeros((0, 3))
        if link.other.type != "MESH":
            centre = _anchor_centre(link.other, link.bone, view_layer)
            ties = np.stack([target_positions, np.broadcast_to(centre, target_positions.shape)], axis=1).reshape(-1, 3)
        segments = np.stack([own_positions, target_positions], axis=1).reshape(-1, 3)
        yield LinkOverlay(own_positions, segments, ties, bool(link.rigid), number == obj.dampsim.active_link)


def _anchor_centre(obj: bpy.types.Object, bone: str, view_layer: bpy.types.ViewLayer) -> Array:
    """Return the centre (3,) of a bone, or the origin of an object, in world space."""
    length = obj.pose.bones[bone].length if bone else 0.0
    return np.asarray(transform_points(anchor_matrix(view_layer, obj, bone), np.array([[0.0, 0.5 * length, 0.0]]))[0])


def _displayed_points(
    key: tuple[int, int, bool], obj: bpy.types.Object, bone: str, flat: Array, view_layer: bpy.types.ViewLayer
) -> Array | None:
    """Return the displayed world positions (k, 3) of points, which follow the nearest vertices of a mesh.

    flat: (3k,) in the space of the object or bone. Returns None where the displayed positions are unknown.
    """
    points = flat.reshape(-1, 3).astype(float)
    matrix = anchor_matrix(view_layer, obj, bone)
    if obj.type != "MESH" or not len(obj.data.vertices):
        return transform_points(matrix, points)
    session, is_generated = live.find_session(obj), bool(simulated_topology_modifiers(obj))
    live_vertices = live.displayed_vertices(obj, bpy.context.scene)
    rest_vertices = session.rest_vertices.get(obj.session_uid) if session and is_generated else None
    if is_generated and (rest_vertices is None or live_vertices is None or len(rest_vertices) != len(live_vertices)):
        # Only live frames give the positions of generated vertices.
        return transform_points(matrix, points)
    count = len(obj.data.vertices) if rest_vertices is None else len(rest_vertices)
    inputs = flat.tobytes() + repr((obj.session_uid, count, is_generated)).encode()
    bindings = _Bindings.current()
    if key not in bindings or bindings[key][0] != inputs:
        rest = mesh_positions(obj.data).astype(float) if rest_vertices is None else rest_vertices
        nearest = _nearest_vertices(points, rest)
        bindings[key] = (inputs, nearest, points - rest[nearest])
    _, nearest, offsets = bindings[key]
    vertices = (
        live_vertices[nearest].astype(float)
        if is_generated and live_vertices is not None
        else _displayed_vertices(obj, nearest, view_layer)
    )
    return None if vertices is None else transform_points(matrix, vertices + offsets)


def _displayed_vertices(obj: bpy.types.Object, indices: Index, view_layer: bpy.types.ViewLayer) -> Array | None:
    """Return the displayed positions (k, 3) of some mesh vertices (k,), in object space; None if unknown."""
    if all(modifier.type in _ORDER_PRESERVING for modifier in obj.modifiers if modifier.show_viewport):
        vertices = obj.evaluated_get(view_layer.depsgraph).data.vertices
        if len(vertices) >= len(obj.data.vertices):
            return np.array([vertices[k].co for k in indices.tolist()])
    # Skin, Bevel and others renumber the vertices. Live frames still have the mesh's own ones.
    live_vertices = live.displayed_vertices(obj, bpy.context.scene)
    if live_vertices is not None:
        return live_vertices[indices].astype(float)
    if has_deform_modifier(obj):
        return None
    return _shape_key_mix(obj, indices)


def _shape_key_mix(obj: bpy.types.Object, indices: Index) -> Array | None:
    """Return some mesh vertices (k, 3) as mixed from the shape keys; None if the mix cannot be computed."""
    keys, index_list = obj.data.shape_keys, indices.tolist()
    if keys is None:
        return np.array([obj.data.vertices[k].co for k in index_list])
    if not keys.use_relative or obj.show_only_shape_key or any(key.vertex_group for key in keys.key_blocks):
        return None
    mixed = np.array([keys.reference_key.points[k].co for k in index_list])
    for key in keys.key_blocks:
        if not key.mute and key.value and key != keys.reference_key:
            mixed += key.value * np.array([key.points[k].co - key.relative_key.points[k].co for k in index_list])
    return mixed


def _nearest_vertices(points: Array, vertices: Array) -> Index:
    tree = KDTree(len(vertices))
    for number, vertex in enumerate(vertices.tolist()):
        tree.insert(vertex, number)
    tree.balance()
    return np.array([tree.find(Vector(point))[1] for point in points.tolist()], dtype=np.int64)


class LinkOption(OverlayOption):
    property_name, label, default = "show_links", "Links", True
    description = "Draw the points of links, and lines to their targets: orange for rigid links, blue for soft ones"

    def is_available(self, obj: bpy.types.Object) -> bool:
        return len(obj.dampsim.links) > 0

    def draw(self, context: bpy.types.Context, obj: bpy.types.Object, view: BodyView | None) -> None:
        drawing.set_depth_test(False)
        for link in link_overlays(obj, context.view_layer):
            color = _RIGID_COLOR if link.is_rigid else _ELASTIC_COLOR
            size = _ACTIVE_POINT_SIZE if link.is_active and obj == context.object else _POINT_SIZE
            drawing.draw_points(link.points, _OUTLINE_COLOR, size + 2.0 * _OUTLINE_WIDTH)
            drawing.draw_points(link.points, color, size)
            drawing.draw_segments(link.segments, color, 2.0)
            drawing.draw_segments(link.ties, (*color[:3], 0.5))
