"""Geometry Nodes tree by which strands of hair turn as their guides do, keep their lengths and slide out of colliders.

A guide's segment has the unit direction a at rest and b now. The smallest rotation from a to b takes a strand's segment
d to c d + w x d + (w . d) w/(1 + c), with w = a x b and c = a . b. A strand takes the weighted mean over its guides,
scaled back to the length of d. Its points are the running sum of its segments from the root.

From the root outwards, a segment that ends in a collider turns about its start, in the plane of its direction and the
outward normal, until it ends on the surface. All of this is evaluated by Blender, without Python.

See docs/decisions/0059-turn-strands-with-their-guides-in-geometry-nodes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy

from .node_builder import NodeBuilder

# Attributes of the tree's own: the turned segments, the number of a point in its strand, and whether the point that
# moves is in a collider.
_SEGMENT, _NUMBER, _INSIDE = ".dampsim_segment", ".dampsim_number", ".dampsim_inside"
# Smallest divisor 1 + c: guides that turn by more than 169 degrees are under-rotated.
_MIN_DIVISOR = 0.02
# Part of the groom that is added to turned segments, so that a strand without guides keeps its direction.
_GROOM_PART = 1e-6
# Rounds in which a segment turns out of a collider. One is enough where the surface is flat between its points.
_ROUNDS = 5
# Fixed direction, as a fraction of a segment, by which one that enters a surface at a right angle is bent aside.
_SIDE = (0.6e-4, -0.5e-4, 0.62e-4)
# Size (m) of the square that stands for an infinite plane, limited by single precision.
_PLANE_SIZE = 200.0
# Smallest half extent (m) of a collider's bounds, and a factor on the bounds that covers rounding in single precision.
_THIN, _ROUND_UP = 1e-6, 1.0001
# Distance (m) that counts as far from any collider.
_FAR = 1e6


@dataclass(frozen=True)
class HairCollider:
    """Collider of hair. sign: -1.0 if the normals of its mesh point inwards, else 1.0.  is_plane: infinite plane."""

    obj: bpy.types.Object
    sign: float = 1.0
    is_plane: bool = False


@dataclass(frozen=True)
class FollowedGuide:
    """Names of the attributes of hair points: the guide's point where their segment ends, and the guide's weight."""

    point: str
    weight: str


@dataclass(frozen=True)
class HairTree:
    """Contents of the tree.

    wire: mesh object of the guides.  rest: name of its attribute of rest positions.  guides: that strands follow.
    colliders: that strands stay out of.  clearance: distance from them, m.  segments: largest number of a strand.
    """

    wire: bpy.types.Object
    rest: str
    guides: Sequence[FollowedGuide]
    colliders: Sequence[HairCollider]
    clearance: float
    segments: int

    def build(self, tree: Any) -> None:
        """Replace the nodes of a tree. The sockets of its interface are kept."""
        nodes = NodeBuilder(tree)
        root, segment = self._turned_segments(nodes)
        inputs = {"Value": segment, "Group ID": nodes.curve.outputs["Curve Index"]}
        total = nodes.field("GeometryNodeAccumulateField", inputs, "Leading", data_type="FLOAT_VECTOR", domain="POINT")
        place, geometry = nodes.vector("ADD", root, total), nodes.start.outputs[0]
        if self.colliders:
            # The segments must be read before the points move.
            geometry = nodes.store(geometry, _SEGMENT, "FLOAT_VECTOR", segment)
            geometry = nodes.store(geometry, _NUMBER, "INT", nodes.curve.outputs["Index in Curve"])
        geometry = nodes.set_position(geometry, place)
        if self.colliders:
            geometry = self._slide(nodes, geometry)
            for name in (_SEGMENT, _NUMBER, _INSIDE):
                geometry = nodes.field("GeometryNodeRemoveAttribute", {"Name": name, "Geometry": geometry})
        nodes.link(geometry, nodes.end.inputs[0])

    def _turned_segments(self, nodes: NodeBuilder) -> tuple[Any, Any]:
        """Return the position of a point's root, and the turned segment that ends at the point, zero at the root."""
        wire = nodes.object_info(self.wire).outputs["Geometry"]
        rest = nodes.attribute(self.rest, "FLOAT_VECTOR")
        groom = nodes.vector("SUBTRACT", nodes.position, nodes.at_index(nodes.previous, nodes.position))
        groom = nodes.scale(groom, nodes.math("GREATER_THAN", nodes.curve.outputs["Index in Curve"], 0.5))
        total, moved = nodes.scale(groom, _GROOM_PART), None
        for guide in self.guides:
            weight, point = nodes.attribute(guide.weight, "FLOAT"), nodes.attribute(guide.point, "INT")
            before = nodes.math("MAXIMUM", nodes.math("SUBTRACT", point, 1.0), 0.0)
            old, new = (nodes.sample(wire, field, point) for field in (rest, nodes.position))
            old_start, new_start = (nodes.sample(wire, field, before) for field in (rest, nodes.position))
            a = nodes.vector("NORMALIZE", nodes.vector("SUBTRACT", old, old_start))
            b = nodes.vector("NORMALIZE", nodes.vector("SUBTRACT", new, new_start))
            w, c = nodes.vector("CROSS_PRODUCT", a, b), nodes.vector("DOT_PRODUCT", a, b)
            divisor = nodes.math("MAXIMUM", nodes.math("ADD", c, 1.0), _MIN_DIVISOR)
            along = nodes.scale(w, nodes.math("DIVIDE", nodes.vector("DOT_PRODUCT", w, groom), divisor))
            turned = nodes.vector("ADD", nodes.scale(groom, c), nodes.vector("CROSS_PRODUCT", w, groom))
            total = nodes.vector("ADD", total, nodes.scale(nodes.vector("ADD", turned, along), weight))
            # Guides that are not pinned at their roots carry the roots along.
            own = nodes.scale(nodes.vector("SUBTRACT", new, old), weight)
            moved = own if moved is None else nodes.vector("ADD", moved, own)
        segment = nodes.scale(nodes.vector("NORMALIZE", total), nodes.vector("LENGTH", groom))
        place = nodes.position if moved is None else nodes.vector("ADD", nodes.position, moved)
        of_curve = {"Curve Index": nodes.curve.outputs["Curve Index"]}
        first = nodes.field("GeometryNodePointsOfCurve", of_curve, "Point Index")
        return nodes.at_index(first, place), segment

    def _slide(self, nodes: NodeBuilder, geometry: Any) -> Any:
        """Return the geometry with all strands out of the colliders."""
        begin, finish = nodes.add("GeometryNodeRepeatInput"), nodes.add("GeometryNodeRepeatOutput")
        begin.pair_with_output(finish)
        nodes.fill(begin, {"Iterations": self.segments, "Geometry": geometry})
        number = nodes.math("ADD", begin.outputs["Iteration"], 1.0)
        indices = {"A": nodes.attribute(_NUMBER, "INT"), "B": number}
        is_point = nodes.field("FunctionNodeCompare", indices, data_type="INT", operation="EQUAL")
        start = nodes.at_index(nodes.previous, nodes.position)
        distance, outward = self._nearest_surface(nodes, nodes.position)
        segment = nodes.attribute(_SEGMENT, "FLOAT_VECTOR")
        inside, is_inside = nodes.math("LESS_THAN", distance, self.clearance), nodes.attribute(_INSIDE, "BOOLEAN")
        moved = nodes.set_position(begin.outputs["Geometry"], nodes.vector("ADD", start, segment), is_point)
        moved = nodes.store(moved, _INSIDE, "BOOLEAN", False)
        moved = nodes.store(moved, _INSIDE, "BOOLEAN", self._may_touch(nodes, nodes.position), is_point)
        moved = nodes.store(moved, _INSIDE, "BOOLEAN", inside, is_inside)
        length = nodes.vector("LENGTH", segment)
        now = nodes.vector("SUBTRACT", nodes.position, start)
        now = nodes.vector("ADD", now, nodes.scale(nodes.constant(_SIDE), length))
        along = nodes.vector("DOT_PRODUCT", now, outward)
        height = nodes.math("ADD", along, nodes.math("SUBTRACT", self.clearance, distance))
        height = nodes.math("MAXIMUM", nodes.math("MINIMUM", height, length), nodes.math("MULTIPLY", length, -1.0))
        tangent = nodes.vector("NORMALIZE", nodes.vector("SUBTRACT", now, nodes.scale(outward, along)))
        squares = nodes.math("SUBTRACT", nodes.math("MULTIPLY", length, length), nodes.math("MULTIPLY", height, height))
        width = nodes.math("SQRT", nodes.math("MAXIMUM", squares, 0.0))
        turned = nodes.vector("ADD", nodes.scale(outward, height), nodes.scale(tangent, width))
        target = nodes.vector("ADD", start, turned)
        for _ in range(_ROUNDS):
            moved = nodes.set_position(moved, target, is_inside)
        # A segment that is still inside, in a crease, stands up along the normal of its start.
        moved = nodes.store(moved, _INSIDE, "BOOLEAN", nodes.math("LESS_THAN", distance, 0.0), is_inside)
        _, outward_at_start = self._nearest_surface(nodes, start)
        upright = nodes.vector("ADD", start, nodes.scale(outward_at_start, length))
        moved = nodes.set_position(moved, upright, is_inside)
        nodes.link(moved, finish.inputs["Geometry"])
        return finish.outputs["Geometry"]

    def _may_touch(self, nodes: NodeBuilder, place: Any) -> Any:
        """Return whether a place is so near to the bounding boxes and ellipsoids that it may be inside a collider.

        The search for the nearest surface takes most of the time of strands, and few of them touch anything.
        """
        found = None
        for one in self.colliders:
            own = nodes.number(1.0) if one.is_plane else _is_near_bounds(nodes, one, place, self.clearance)
            found = own if found is None else nodes.math("MAXIMUM", found, own)
        return found

    def _nearest_surface(self, nodes: NodeBuilder, place: Any) -> tuple[Any, Any]:
        """Return the signed distance of a place from the colliders, negative inside, and its gradient."""
        distance, outward = None, None
        for one in self.colliders:
            own_distance, own_outward = _signed_distance(nodes, one, place)
            if distance is None:
                distance, outward = own_distance, own_outward
                continue
            is_nearer = nodes.math("LESS_THAN", own_distance, distance)
            choice = {"Switch": is_nearer, "False": outward, "True": own_outward}
            outward = nodes.field("GeometryNodeSwitch", choice, input_type="VECTOR")
            distance = nodes.math("MINIMUM", distance, own_distance)
        return distance, outward


def collider_mesh(nodes: NodeBuilder, collider: HairCollider) -> Any:
    """Return the mesh of a collider, in the space of the object with the tree."""
    info = nodes.object_info(collider.obj).outputs
    if collider.is_plane:
        sizes = {"Size X": _PLANE_SIZE, "Size Y": _PLANE_SIZE, "Vertices X": 2, "Vertices Y": 2}
        square = nodes.field("GeometryNodeMeshGrid", sizes, "Mesh")
        placement = {"Geometry": square, "Translation": info["Location"], "Rotation": info["Rotation"]}
        return nodes.field("GeometryNodeTransform", placement)
    return nodes.field("GeometryNodeRealizeInstances", {"Geometry": info["Geometry"]})


def _is_near_bounds(nodes: NodeBuilder, collider: HairCollider, place: Any, clearance: float) -> Any:
    """Return whether a place is within the clearance of a collider's bounding box, and of an ellipsoid around it.

    The ellipsoid has the box's proportions.
    """
    mesh = collider_mesh(nodes, collider)
    box = nodes.fill(nodes.add("GeometryNodeBoundBox"), {"Geometry": mesh})
    low, high = box.outputs["Min"], box.outputs["Max"]
    middle = nodes.scale(nodes.vector("ADD", low, high), 0.5)
    # A flat mesh has an extent of zero.
    half = nodes.vector("MAXIMUM", nodes.scale(nodes.vector("SUBTRACT", high, low), 0.5), nodes.constant((_THIN,) * 3))

    def relative(point: Any) -> Any:
        return nodes.vector("DIVIDE", nodes.vector("SUBTRACT", point, middle), half)

    margin = nodes.vector("DIVIDE", nodes.constant((clearance,) * 3), half)
    offset = relative(place)
    beyond = nodes.largest_component(nodes.vector("SUBTRACT", nodes.vector("ABSOLUTE", offset), margin))
    is_in_box = nodes.math("LESS_THAN", beyond, _ROUND_UP)
    radius = nodes.largest(mesh, nodes.vector("LENGTH", relative(nodes.position)))
    reach = nodes.math("ADD", radius, nodes.largest_component(margin))
    limit = nodes.math("MULTIPLY", reach, _ROUND_UP)
    return nodes.math("MULTIPLY", is_in_box, nodes.math("LESS_THAN", nodes.vector("LENGTH", offset), limit))


def _signed_distance(nodes: NodeBuilder, collider: HairCollider, place: Any) -> tuple[Any, Any]:
    """Return the signed distance of a place from a collider, and its gradient.

    The sign comes from the angle-weighted normals of the vertices, which are right at vertices and edges.
    """
    mesh = collider_mesh(nodes, collider)
    at_vertices = nodes.on_domain(nodes.field("GeometryNodeInputNormal"), "POINT", "FLOAT_VECTOR")
    nearest, is_valid = nodes.nearest(mesh, nodes.position, place)
    # On the surface itself, the search ends several times sooner.
    normal, _ = nodes.nearest(mesh, at_vertices, nearest)
    away = nodes.vector("SUBTRACT", place, nearest)
    normal = nodes.scale(normal, collider.sign)
    if not collider.is_plane:
        # Blender keeps the order of the corners of mirrored faces, so that their normals point inwards.
        transform = nodes.object_info(collider.obj).outputs["Transform"]
        normal = nodes.scale(normal, nodes.math("SIGN", nodes.field("FunctionNodeMatrixDeterminant", (transform,))))
    sign = nodes.math("SIGN", nodes.vector("DOT_PRODUCT", away, normal))
    # On the surface itself only the normal tells the direction.
    outward = nodes.vector("NORMALIZE", nodes.vector("ADD", nodes.scale(away, sign), nodes.scale(normal, 1e-6)))
    distance = nodes.math("MULTIPLY", sign, nodes.vector("LENGTH", away))
    far = nodes.math("MULTIPLY", nodes.math("SUBTRACT", 1.0, is_valid), _FAR)
    return nodes.math("ADD", distance, far), outward
