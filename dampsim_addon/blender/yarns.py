"""Display of a woven mesh's yarns: a mesh of polylines that Geometry Nodes turn into tubes.

Each point lies half a yarn above or below a vertex of the woven mesh, and follows it whatever animates the mesh:
playback or a bake. The woven mesh is an input of the modifier, so copying both objects shows the yarns of the copy.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core import Array, Index
from .node_builder import NodeBuilder

YARN_MODIFIER = "DampSim Yarns"
_VERTEX, _SIDE = ".dampsim_vertex", ".dampsim_side"
# Custom property of the yarn mesh with the digest of its source.
_DIGEST_KEY = "dampsim_drawn_of"
# Custom property that marks the node group.
_TREE_TAG = "dampsim_yarns"
# Inputs of the modifier.
_WOVEN, _RADIUS, _MATERIAL = "Woven", "Radius", "Material"
# Spline points between two crossings, and points around the yarn.
_SPLINE_RESOLUTION, _PROFILE_RESOLUTION = 6, 8


def create_yarn_object(
    woven: bpy.types.Object, points: Array, edges: Index, vertices: Index, sides: Array, thickness: float, digest: str
) -> bpy.types.Object:
    """Create the object that shows a woven object's yarns, and delete its predecessor.

    points: (p, 3) m, of the yarns.  edges: (e, 2).  vertices: (p,) of the woven mesh, one for each point.
    sides: (p,) offset of the yarn's centre along the vertex normal, in half thicknesses.  thickness: m.
    digest: of the woven object, see stored_yarn_digest().
    """
    predecessor = next(filter(shows_yarns, woven.children), None)
    if predecessor is not None:
        delete_yarn_object(predecessor)
    mesh = bpy.data.meshes.new(f"{woven.name} Yarns")
    mesh.from_pydata(points.tolist(), edges.tolist(), [])
    for name, kind, values in ((_VERTEX, "INT", vertices.astype(np.int32)), (_SIDE, "FLOAT", sides.astype(np.float32))):
        mesh.attributes.new(name, kind, "POINT").data.foreach_set("value", np.ascontiguousarray(values))
    mesh[_DIGEST_KEY] = digest
    material = woven.data.materials[0] if woven.data.materials else None
    if material is not None:
        mesh.materials.append(material)
    obj = bpy.data.objects.new(mesh.name, mesh)
    for collection in woven.users_collection:
        collection.objects.link(obj)
    obj.parent = woven
    tree = _yarn_node_group()
    # A new modifier copies the sockets' default values, which works in every version of Blender.
    inputs = {_WOVEN: woven, _RADIUS: 0.5 * thickness, _MATERIAL: material}
    sockets = _input_sockets(tree)
    for name, value in inputs.items():
        sockets[name].default_value = value
    obj.modifiers.new(YARN_MODIFIER, "NODES").node_group = tree
    sockets[_WOVEN].default_value = sockets[_MATERIAL].default_value = None
    return obj


def shows_yarns(obj: bpy.types.Object) -> bool:
    """Return whether an object shows the yarns of another one: its mesh stores their digest."""
    mesh: Any = obj.data
    return YARN_MODIFIER in obj.modifiers and _DIGEST_KEY in mesh


def stored_yarn_digest(yarns: bpy.types.Object) -> str:
    """Return the stored digest of the woven object from which yarns were made; '' where none is stored."""
    return str(yarns.data.get(_DIGEST_KEY, ""))


def yarn_source(obj: bpy.types.Object) -> bpy.types.Object | None:
    """Return the woven object whose yarns an object shows; None where it shows none."""
    return obj.parent if shows_yarns(obj) else None


def is_orphaned_yarn(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether an object shows the yarns of a woven object that was deleted from the scene.

    The file keeps the deleted object, because the modifier refers to it.
    """
    return shows_yarns(obj) and (obj.parent is None or obj.parent.name not in scene.objects)


def delete_yarn_object(obj: bpy.types.Object) -> None:
    """Delete an object that shows yarns, and its mesh if nothing else uses it."""
    mesh = obj.data
    bpy.data.objects.remove(obj)
    if not mesh.users:
        bpy.data.meshes.remove(mesh)


def _input_sockets(tree: Any) -> dict[str, Any]:
    return {one.name: one for one in tree.interface.items_tree if one.item_type == "SOCKET" and one.in_out == "INPUT"}


def _yarn_node_group() -> Any:
    """Return the node group that all yarns of the file share, created if needed."""
    inputs = {"Geometry", _WOVEN, _RADIUS, _MATERIAL}
    for existing in bpy.data.node_groups:
        # A linked node group is not used, nor one that the user has named like this or changed.
        if existing.get(_TREE_TAG) and existing.library is None and {*_input_sockets(existing)} == inputs:
            return existing
    tree: Any = bpy.data.node_groups.new(YARN_MODIFIER, "GeometryNodeTree")
    tree[_TREE_TAG] = True
    nodes = NodeBuilder(tree)
    woven_socket = tree.interface.new_socket(_WOVEN, in_out="INPUT", socket_type="NodeSocketObject")
    woven_socket.description = "Object whose mesh the yarns follow"
    radius_socket = tree.interface.new_socket(_RADIUS, in_out="INPUT", socket_type="NodeSocketFloat")
    radius_socket.min_value, radius_socket.subtype = 0.0, "DISTANCE"
    tree.interface.new_socket(_MATERIAL, in_out="INPUT", socket_type="NodeSocketMaterial")
    start = nodes.start.outputs
    radius, woven = start[_RADIUS], nodes.object_info(start[_WOVEN]).outputs["Geometry"]
    vertex = nodes.attribute(_VERTEX, "INT")
    normal = nodes.sample(woven, nodes.field("GeometryNodeInputNormal"), vertex)
    offset = nodes.scale(normal, nodes.math("MULTIPLY", nodes.attribute(_SIDE, "FLOAT"), radius))
    place = nodes.sample(woven, nodes.position, vertex)
    line = nodes.field("GeometryNodeMeshToCurve", {"Mesh": nodes.set_position(start[0], place, offset=offset)})
    spline = nodes.field("GeometryNodeCurveSplineType", {"Curve": line}, spline_type="CATMULL_ROM")
    smooth = nodes.add("GeometryNodeSetSplineResolution")
    nodes.link(spline, nodes.fill(smooth, {"Resolution": _SPLINE_RESOLUTION}).inputs[0])
    profile = {"Resolution": _PROFILE_RESOLUTION, "Radius": radius}
    circle = nodes.field("GeometryNodeCurvePrimitiveCircle", profile, mode="RADIUS")
    tube = nodes.field(
        "GeometryNodeCurveToMesh", {"Curve": smooth.outputs[0], "Profile Curve": circle, "Fill Caps": True}
    )
    shaded = nodes.field("GeometryNodeSetMaterial", {"Material": start[_MATERIAL], "Geometry": tube})
    nodes.link(shaded, nodes.end.inputs[0])
    return tree
