"""Rest shapes of objects in world space at the first frame, and distances and link points between two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import bpy
import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from mathutils.kdtree import KDTree

from ...core.arrays import Array
from ...core.bodies.registry import kind
from ..blender.sampler import Sampler
from .anchors import standing
from .objects import is_simulated
from .properties import read_settings

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
    bare: bool = False
    bone: str = ""

    @property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))


def rest_shape(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, bone: str = ""
) -> RestShape:
    """Return the rest shape of an object or bone. Visits the first frame and restores the current one."""
    if obj.type != "MESH":
        # Other types than meshes are represented by their origin.
        shown = (scene.frame_current, scene.frame_subframe)
        scene.frame_set(scene.frame_start)
        matrix = standing(view_layer, obj, bone)
        scene.frame_set(shown[0], subframe=shown[1])
        vertices = matrix[None, :3, 3]
        return RestShape(obj, vertices, matrix, _nearest(vertices, []), bone=bone)
    with Sampler(scene, view_layer, obj) as sampler:
        bare = is_simulated(obj) and "tets" not in kind(obj.dampsim.kind).sections(read_settings(obj))
        with sampler.resting() as (vertices, mesh):
            faces = [] if bare else _faces(mesh)
        matrix = sampler.matrix()
    return RestShape(obj, vertices, matrix, _nearest(vertices, faces), bare)


def _faces(mesh: bpy.types.Mesh) -> list[list[int]]:
    corners, starts = np.empty(len(mesh.loops), dtype=np.int32), np.empty(len(mesh.polygons), dtype=np.int32)
    mesh.loops.foreach_get("vertex_index", corners)
    mesh.polygons.foreach_get("loop_start", starts)
    return [face.tolist() for face in np.split(corners, starts[1:])] if len(starts) else []


def _nearest(vertices: Array, faces: list[list[int]]) -> Nearest:
    """Return a function for the nearest point on the faces, or of the vertices without faces, and its distance."""
    if faces:
        tree = BVHTree.FromPolygons(vertices.tolist(), faces)

        def on_faces(point: Vector) -> tuple[Array, float]:
            place, _, _, distance = tree.find_nearest(point)
            # Only an empty tree returns None.
            assert place is not None
            assert distance is not None
            return np.array(place, dtype=float), distance

        return on_faces
    points = KDTree(len(vertices))
    for number, vertex in enumerate(vertices.tolist()):
        points.insert(vertex, number)
    points.balance()

    def among(point: Vector) -> tuple[Array, float]:
        place, _, distance = points.find(point)
        assert place is not None
        assert distance is not None
        return np.array(place, dtype=float), distance

    return among


def _between(shape: RestShape, other: RestShape, vertex: Array, place: Array) -> Array:
    """Return the link point for a vertex of a shape and a point of the other: halfway, or at the vertex of springs.

    Otherwise a short stiff rod would connect point and vertex, which makes the system ill-conditioned.
    """
    if shape.bare or other.bare:
        return vertex if shape.bare else place
    return np.asarray(0.5 * (vertex + place))


def near_vertices(shape: RestShape, other: RestShape, reach: float) -> Array:
    """Return the link points (k, 3) of the shape's vertices that are within reach of the other shape."""
    found = []
    low, high = other.vertices.min(axis=0) - reach, other.vertices.max(axis=0) + reach
    inside = ((shape.vertices >= low) & (shape.vertices <= high)).all(axis=1)
    for vertex in shape.vertices[inside].tolist():
        place, distance = other.nearest(Vector(vertex))
        if distance <= reach:
            found.append(_between(shape, other, np.array(vertex), place))
    return np.array(found).reshape(-1, 3)


def meeting(shape: RestShape, other: RestShape) -> Array:
    """Return the link point (3,) of two shapes at the vertex of either one that is nearest to the other."""
    _, vertex, place, own = _closest(shape, other)
    ends = (shape, other) if own else (other, shape)
    return _between(*ends, np.array(vertex), np.array(place))


def gap(shape: RestShape, other: RestShape) -> float:
    """Return the distance of two shapes at the vertex of either one that is nearest to the other."""
    return _closest(shape, other)[0]


def _closest(shape: RestShape, other: RestShape) -> tuple[float, list[float], list[float], bool]:
    """Return the distance, the vertex of one shape, the point on the other, and whether the first has the vertex."""
    found = []
    for one, two in ((shape, other), (other, shape)):
        for vertex in one.vertices.tolist():
            place, distance = two.nearest(Vector(vertex))
            found.append((distance, vertex, place.tolist(), one is shape))
    return min(found)
