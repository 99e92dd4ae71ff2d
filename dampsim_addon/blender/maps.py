"""Maps of a deformed mesh as attributes of its points, for materials: a Geometry Nodes modifier, without a file.

At each corner of a face, two edges give the deformation gradient F of the face from the rest shape to the current one.
In an orthonormal basis of the face, its left Cauchy-Green tensor is b = D G^-1 D^T, with the current edges D (2, 2) as
columns and the Gram matrix G of the rest edges. A point takes the mean of b over its corners; its eigenvalues are the
squares of the principal stretches, and its eigenvectors their directions.

The rest shape is Blender's attribute rest_position, the mesh before its shape keys and modifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bpy

from .dampsim_names import MAPS_TAG, is_maps_modifier
from .hair_tree import HairCollider, collider_mesh
from .modifiers import add_cache_modifier, remove_modifier
from .node_builder import NodeBuilder

MAPS_MODIFIER = "DampSim Maps"
# Attributes of the points.
STRETCH, COMPRESSION = "dampsim_stretch", "dampsim_compression"
STRETCH_DIRECTION, COMPRESSION_DIRECTION = "dampsim_stretch_direction", "dampsim_compression_direction"
CONTACT, VELOCITY = "dampsim_contact", "dampsim_velocity"
# Distance, as a part of that from the world's origin, up to which a cached point is the same: rounding.
_SAME_PLACE = 1e-6
# Custom property: whether the object had the attribute rest_position before.
_REST_TAG = "dampsim_had_rest"
# Custom property: the chosen distance of the contact map, m.
_RANGE_TAG = "dampsim_contact_range"
# Divisor below which a face of the rest shape has no area, m^4.
_NO_AREA = 1e-24
# Fixed direction, of which the part in the plane of a face is the first axis of its basis.
_AXIS = (0.4153, 0.7071, 0.5722)


def maps_modifier(obj: bpy.types.Object) -> Any:
    """Return the modifier that makes the maps of an object, or None."""
    return next((modifier for modifier in obj.modifiers if is_maps_modifier(modifier)), None)


def contact_range_of(obj: bpy.types.Object) -> float:
    """Return the distance that the user has chosen for the contact map of an object, m; 0 if none."""
    modifier = maps_modifier(obj)
    return float(modifier.node_group.get(_RANGE_TAG, 0.0)) if modifier is not None else 0.0


def attach_maps(
    obj: bpy.types.Object, colliders: Sequence[HairCollider], contact_range: float, chosen_range: float = 0.0
) -> None:
    """Add the maps after the modifiers of an object that deform it, or update them.

    contact_range: distance from the colliders at which the contact map falls to 0, in the object's space.
    chosen_range: the same as chosen by the user, for the next update, m; 0 if not chosen.
    Raises SceneError where modifiers from a library leave no place.
    """
    modifier = maps_modifier(obj)
    tree: Any = modifier.node_group if modifier is not None else None
    if tree is None:
        tree = bpy.data.node_groups.new(MAPS_MODIFIER, "GeometryNodeTree")
        tree[MAPS_TAG] = True
        tree[_REST_TAG] = obj.add_rest_position_attribute
    tree[_RANGE_TAG] = chosen_range
    _build(tree, colliders, contact_range)
    obj.add_rest_position_attribute = True
    if modifier is None:
        # Subdivision interpolates the maps, but would smooth the shape and not its rest shape.
        modifier = add_cache_modifier(obj, MAPS_MODIFIER, "NODES")
        modifier.node_group = tree


def detach_maps(obj: bpy.types.Object) -> None:
    """Remove the maps of an object."""
    modifier = maps_modifier(obj)
    if modifier is None:
        return
    tree = modifier.node_group
    obj.add_rest_position_attribute = bool(tree.get(_REST_TAG))
    remove_modifier(obj, modifier)
    if not tree.users:
        bpy.data.node_groups.remove(tree)


def _build(tree: Any, colliders: Sequence[HairCollider], contact_range: float) -> None:
    nodes = NodeBuilder(tree)
    geometry = nodes.start.outputs[0]
    for name, kind, value in (*_strain_maps(nodes), (CONTACT, "FLOAT", _contact(nodes, colliders, contact_range))):
        geometry = nodes.store(geometry, name, kind, value)
    nodes.link(_with_velocity(nodes, geometry), nodes.end.inputs[0])


def _corner_edges(nodes: NodeBuilder, field: Any) -> tuple[Any, Any]:
    """Return the edges from a corner to the next and the previous corner of its face, of a vector field of points."""
    ends = []
    for offset in (0, 1, -1):
        corner = nodes.field("GeometryNodeOffsetCornerInFace", {"Offset": offset})
        point = nodes.field("GeometryNodeVertexOfCorner", (corner,))
        ends.append(nodes.at_index(point, field))
    return nodes.vector("SUBTRACT", ends[1], ends[0]), nodes.vector("SUBTRACT", ends[2], ends[0])


def _plane_axes(nodes: NodeBuilder, normal: Any) -> tuple[Any, Any]:
    """Return an orthonormal basis of the plane with a unit normal."""
    axis = nodes.constant(_AXIS)
    flat = nodes.vector("SUBTRACT", axis, nodes.scale(normal, nodes.vector("DOT_PRODUCT", axis, normal)))
    first = nodes.vector("NORMALIZE", flat)
    return first, nodes.vector("CROSS_PRODUCT", normal, first)


def _strain_maps(nodes: NodeBuilder) -> list[tuple[str, str, Any]]:
    """Return the name, type and field of stretch, compression and their directions."""

    def dot(one: Any, other: Any) -> Any:
        return nodes.vector("DOT_PRODUCT", one, other)

    def product(one: Any, other: Any) -> Any:
        return nodes.math("MULTIPLY", one, other)

    rest_next, rest_previous = _corner_edges(nodes, nodes.attribute("rest_position", "FLOAT_VECTOR"))
    to_next, to_previous = _corner_edges(nodes, nodes.position)
    g11, g12, g22 = dot(rest_next, rest_next), dot(rest_next, rest_previous), dot(rest_previous, rest_previous)
    area = nodes.math("SUBTRACT", product(g11, g22), product(g12, g12))
    normal = nodes.vector("NORMALIZE", nodes.vector("CROSS_PRODUCT", to_next, to_previous))
    axes = _plane_axes(nodes, normal)
    rows = [(dot(to_next, axis), dot(to_previous, axis)) for axis in axes]

    def tensor(one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
        """Return a component of D G^-1 D^T, for two rows of D, as the mean over the corners of a point."""
        (a, b), (c, d) = one, other
        mixed = product(g12, nodes.math("ADD", product(a, d), product(b, c)))
        plain = nodes.math("ADD", product(g22, product(a, c)), product(g11, product(b, d)))
        value = nodes.math("DIVIDE", nodes.math("SUBTRACT", plain, mixed), nodes.math("MAXIMUM", area, _NO_AREA))
        return nodes.on_domain(nodes.on_domain(value, "CORNER"), "POINT")

    b11, b12, b22 = tensor(rows[0], rows[0]), tensor(rows[0], rows[1]), tensor(rows[1], rows[1])
    mean = product(nodes.math("ADD", b11, b22), 0.5)
    half = product(nodes.math("SUBTRACT", b11, b22), 0.5)
    radius = nodes.math("SQRT", nodes.math("ADD", product(half, half), product(b12, b12)))
    most = nodes.math("SQRT", nodes.math("ADD", mean, radius))
    least = nodes.math("SQRT", nodes.math("MAXIMUM", nodes.math("SUBTRACT", mean, radius), 0.0))
    angle = product(nodes.math("ARCTAN2", b12, half), 0.5)
    first, second = _plane_axes(nodes, nodes.field("GeometryNodeInputNormal"))
    cosine, sine = nodes.math("COSINE", angle), nodes.math("SINE", angle)
    along = nodes.vector("ADD", nodes.scale(first, cosine), nodes.scale(second, sine))
    across = nodes.vector("SUBTRACT", nodes.scale(second, cosine), nodes.scale(first, sine))
    return [
        (STRETCH, "FLOAT", nodes.math("SUBTRACT", most, 1.0)),
        (COMPRESSION, "FLOAT", nodes.math("SUBTRACT", 1.0, least)),
        (STRETCH_DIRECTION, "FLOAT_VECTOR", along),
        (COMPRESSION_DIRECTION, "FLOAT_VECTOR", across),
    ]


def _contact(nodes: NodeBuilder, colliders: Sequence[HairCollider], contact_range: float) -> Any:
    """Return the contact: 1 on the surface of a collider, falling to 0 at the contact range."""
    found = nodes.math("ADD", 0.0, 0.0)
    for one in colliders:
        mesh = {"Geometry": collider_mesh(nodes, one)}
        nearest = nodes.fill(nodes.add("GeometryNodeProximity", target_element="FACES"), mesh)
        share = nodes.math("DIVIDE", nearest.outputs["Distance"], contact_range)
        own = nodes.math("MAXIMUM", nodes.math("SUBTRACT", 1.0, share), 0.0)
        # A hidden collider has no faces, and distance 0 from everything.
        own = nodes.math("MULTIPLY", own, nearest.outputs["Is Valid"])
        found = nodes.math("MAXIMUM", found, own)
    return found


def _with_velocity(nodes: NodeBuilder, geometry: Any) -> Any:
    """Return the geometry with the velocity in world space, m/s, from the frame before.

    Only points pass through the simulation zone, so that its cache holds no shape. Blender keeps cached frames after a
    change of the animation or the bake. If the points of a whole frame are not where the mesh is, its velocity is 0.
    """
    world = _world_position(nodes)
    points = nodes.field("GeometryNodeMeshToPoints", {"Mesh": geometry, "Position": world})
    begin, finish = nodes.add("GeometryNodeSimulationInput"), nodes.add("GeometryNodeSimulationOutput")
    begin.pair_with_output(finish)
    here = nodes.store(points, VELOCITY, "FLOAT_VECTOR", nodes.constant((0.0, 0.0, 0.0)))
    nodes.link(here, begin.inputs["Geometry"])
    before = nodes.sample(begin.outputs["Geometry"], nodes.position, nodes.index)
    rate = nodes.math("DIVIDE", 1.0, nodes.math("MAXIMUM", begin.outputs["Delta Time"], 1e-6))
    velocity = nodes.scale(nodes.vector("SUBTRACT", nodes.position, before), rate)
    nodes.link(nodes.store(here, VELOCITY, "FLOAT_VECTOR", velocity), finish.inputs["Geometry"])
    cached = finish.outputs["Geometry"]
    found = nodes.sample(cached, nodes.attribute(VELOCITY, "FLOAT_VECTOR"), nodes.index)
    gap = nodes.vector("SUBTRACT", world, nodes.sample(cached, nodes.position, nodes.index))
    largest_gap, reach = (nodes.largest(geometry, nodes.vector("LENGTH", one)) for one in (gap, world))
    # Between frames, Blender interpolates the cached points, which then lie beside a mesh that turns.
    fraction = nodes.math("FRACT", nodes.field("GeometryNodeInputSceneTime", output="Frame"))
    is_between = nodes.math("GREATER_THAN", fraction, 0.0)
    is_current = nodes.math("LESS_THAN", largest_gap, nodes.math("MULTIPLY_ADD", reach, _SAME_PLACE, 1e-7))
    found = nodes.scale(found, nodes.math("MAXIMUM", is_current, is_between))
    return nodes.store(geometry, VELOCITY, "FLOAT_VECTOR", found)


def _world_position(nodes: NodeBuilder) -> Any:
    info = nodes.object_info(nodes.field("GeometryNodeSelfObject"), "ORIGINAL")
    return nodes.field("FunctionNodeTransformPoint", (nodes.position, info.outputs["Transform"]))
