"""Where objects are at rest, in world space at the first frame, and where two of them are near each other."""

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
    """vertices: (v, 3) in world space; of what is no mesh, its origin.  matrix: (4, 4) to world space, of the bone's
    space if there is one.

    bare: whether links can hold it at its vertices only, as they hold springs.
    """

    obj: bpy.types.Object
    vertices: Array
    matrix: Array
    nearest: Nearest
    bare: bool = False
    bone: str = ""

    @property
    def size(self) -> float:
        """Diagonal of the bounding box."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))


def rest_shape(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, bone: str = ""
) -> RestShape:
    """Visits the first frame; the current one is as before afterwards."""
    if obj.type != "MESH":
        # Of what has no vertices of its own, the origin is all that counts.
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
    """The nearest place on the faces, or among the vertices where there are none; and how far it is."""
    if faces:
        tree = BVHTree.FromPolygons(vertices.tolist(), faces)

        def on_faces(point: Vector) -> tuple[Array, float]:
            place, _, _, distance = tree.find_nearest(point)
            # Only an empty tree finds nothing.
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
    """Where to hold a vertex of the shape and a place of the other: halfway, but springs where they have a vertex.

    Else there would be a tiny stiff rod from there to the vertex, which no solver likes.
    """
    if shape.bare or other.bare:
        return vertex if shape.bare else place
    return np.asarray(0.5 * (vertex + place))


def near_vertices(shape: RestShape, other: RestShape, reach: float) -> Array:
    """Where to hold (k, 3) the shape's vertices that are within reach of the other shape, see _between."""
    found = []
    low, high = other.vertices.min(axis=0) - reach, other.vertices.max(axis=0) + reach
    inside = ((shape.vertices >= low) & (shape.vertices <= high)).all(axis=1)
    for vertex in shape.vertices[inside].tolist():
        place, distance = other.nearest(Vector(vertex))
        if distance <= reach:
            found.append(_between(shape, other, np.array(vertex), place))
    return np.array(found).reshape(-1, 3)


def meeting(shape: RestShape, other: RestShape) -> Array:
    """Where to hold (3,) two shapes at a vertex of either that is nearest to the other, see _between."""
    _, vertex, place, own = _closest(shape, other)
    ends = (shape, other) if own else (other, shape)
    return _between(*ends, np.array(vertex), np.array(place))


def gap(shape: RestShape, other: RestShape) -> float:
    """How far apart two shapes are, at a vertex of either that is nearest to the other."""
    return _closest(shape, other)[0]


def _closest(shape: RestShape, other: RestShape) -> tuple[float, list[float], list[float], bool]:
    """The distance, a vertex of the one and the place on the other, and whether the vertex is the first shape's."""
    found = []
    for one, two in ((shape, other), (other, shape)):
        for vertex in one.vertices.tolist():
            place, distance = two.nearest(Vector(vertex))
            found.append((distance, vertex, place.tolist(), one is shape))
    return min(found)
