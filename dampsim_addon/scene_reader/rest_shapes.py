"""Rest shapes of objects in world space at the first frame, and distances and link points between two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from mathutils.kdtree import KDTree

from ...core import Array, kind_by_name
from ..blender.sampler import Sampler, read_array
from ..model.links import anchor_matrix
from ..model.objects import is_simulated
from ..model.properties import read_settings

Nearest = Callable[[Vector], tuple[Array, float]]


@dataclass(frozen=True)
class RestShape:
    """Rest shape of an object or bone.

    vertices: (v, 3) in world space; the origin for other types than meshes.
    matrix: (4, 4) from the object's or bone's space to world space.  nearest: finds the nearest point and its distance.
    vertices_only: whether links can only hold vertices, as for springs.
    """

    obj: bpy.types.Object
    vertices: Array
    matrix: Array
    nearest: Nearest
    vertices_only: bool = False
    bone: str = ""

    @property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))


def read_rest_shape(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, bone: str = ""
) -> RestShape:
    """Return the rest shape of an object or bone. Visits the first frame and restores the current one."""
    if obj.type != "MESH":
        # Other types than meshes are represented by their origin.
        current_frame = (scene.frame_current, scene.frame_subframe)
        scene.frame_set(scene.frame_start)
        matrix = anchor_matrix(view_layer, obj, bone)
        scene.frame_set(current_frame[0], subframe=current_frame[1])
        vertices = matrix[None, :3, 3]
        return RestShape(obj, vertices, matrix, _nearest_point_search(vertices, []), bone=bone)
    with Sampler(scene, view_layer, obj) as sampler:
        vertices_only = is_simulated(obj) and "tets" not in kind_by_name(obj.dampsim.kind).sections(read_settings(obj))
        with sampler.rest_pose() as (vertices, rest):
            faces = [] if vertices_only else _faces(rest.data)
        matrix = sampler.matrix()
    return RestShape(obj, vertices, matrix, _nearest_point_search(vertices, faces), vertices_only)


def _faces(mesh: bpy.types.Mesh) -> list[list[int]]:
    corners = read_array(mesh.loops, "vertex_index", np.int32)
    starts = read_array(mesh.polygons, "loop_start", np.int32)
    return [face.tolist() for face in np.split(corners, starts[1:])] if len(starts) else []


def _nearest_point_search(vertices: Array, faces: list[list[int]]) -> Nearest:
    """Return a function for the nearest point on the faces, or of the vertices without faces, and its distance."""
    find: Any = BVHTree.FromPolygons(vertices.tolist(), faces).find_nearest if faces else vertex_tree(vertices).find

    def nearest(point: Vector) -> tuple[Array, float]:
        place, *_, distance = find(point)
        return np.array(place, dtype=float), distance

    return nearest


def vertex_tree(vertices: Array) -> KDTree:
    """Return a tree to search vertices (v, 3)."""
    tree = KDTree(len(vertices))
    for number, vertex in enumerate(vertices.tolist()):
        tree.insert(vertex, number)
    tree.balance()
    return tree


def _link_position(shape: RestShape, other: RestShape, vertex: Array, place: Array) -> Array:
    """Return the link point for a vertex of a shape and a point of the other: halfway, or at the vertex of springs.

    Otherwise a short stiff rod would connect point and vertex, which makes the system ill-conditioned.
    """
    if shape.vertices_only or other.vertices_only:
        return vertex if shape.vertices_only else place
    return np.asarray(0.5 * (vertex + place))


def nearby_link_points(shape: RestShape, other: RestShape, reach: float) -> Array:
    """Return the link points (k, 3) of the shape's vertices that are within reach of the other shape."""
    found = []
    low, high = other.vertices.min(axis=0) - reach, other.vertices.max(axis=0) + reach
    inside = ((shape.vertices >= low) & (shape.vertices <= high)).all(axis=1)
    for vertex in shape.vertices[inside].tolist():
        place, distance = other.nearest(Vector(vertex))
        if distance <= reach:
            found.append(_link_position(shape, other, np.array(vertex), place))
    return np.array(found).reshape(-1, 3)


def closest_link_point(shape: RestShape, other: RestShape) -> Array:
    """Return the link point (3,) of two shapes at the vertex of either one that is nearest to the other."""
    _, vertex, place, is_own_vertex = _closest_pair(shape, other)
    ends = (shape, other) if is_own_vertex else (other, shape)
    return _link_position(*ends, np.array(vertex), np.array(place))


def distance_between(shape: RestShape, other: RestShape) -> float:
    """Return the distance of two shapes at the vertex of either one that is nearest to the other."""
    return _closest_pair(shape, other)[0]


def _closest_pair(shape: RestShape, other: RestShape) -> tuple[float, list[float], list[float], bool]:
    """Return the distance, the vertex of one shape, the point on the other, and whether the first has the vertex."""
    found = []
    for one, two in ((shape, other), (other, shape)):
        for vertex in one.vertices.tolist():
            place, distance = two.nearest(Vector(vertex))
            found.append((distance, vertex, place.tolist(), one is shape))
    return min(found)
