"""Display of a woven mesh's yarns: a mesh of polylines that Geometry Nodes turn into tubes.

Each point lies half a yarn above or below a vertex of the woven mesh, and follows it whatever animates the mesh:
playback or a bake. The woven mesh is an input of the modifier, so copying both objects shows the yarns of the copy.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core.arrays import Array, Index

MODIFIER = "DampSim Yarns"
_VERTEX, _SIDE = ".dampsim_vertex", ".dampsim_side"
# Custom property of the yarn mesh with the digest of its source.
_OF = "dampsim_drawn_of"
# Inputs of the modifier.
_WOVEN, _RADIUS, _MATERIAL = "Woven", "Radius", "Material"
# Spline points between two crossings, and points around the yarn.
_FINE, _ROUND = 6, 8


def threads(
    woven: bpy.types.Object, places: Array, edges: Index, vertices: Index, sides: Array, thickness: float, of: str
) -> bpy.types.Object:
    """Create the object that shows a woven object's yarns, and delete its predecessor.

    points: (p, 3) m, of the yarns.  edges: (e, 2).  vertices: (p,) of the woven mesh, one for each point.
    sides: (p,) offset of the yarn's centre along the vertex normal, in half thicknesses.  thickness: m.
    digest: of the woven object, see stored_yarn_digest().
    """
    before = threads_of(woven)
    if before is not None:
        dropped(before)
    mesh = bpy.data.meshes.new(f"{woven.name} Yarns")
    mesh.from_pydata(places.tolist(), edges.tolist(), [])
    for name, kind, values in ((_VERTEX, "INT", vertices.astype(np.int32)), (_SIDE, "FLOAT", sides.astype(np.float32))):
        mesh.attributes.new(name, kind, "POINT").data.foreach_set("value", np.ascontiguousarray(values))
    mesh[_OF] = of
    material = woven.data.materials[0] if woven.data.materials else None
    if material is not None:
        mesh.materials.append(material)
    obj = bpy.data.objects.new(mesh.name, mesh)
    for collection in woven.users_collection:
        collection.objects.link(obj)
    obj.parent = woven
    tree = _nodes()
    # A new modifier copies the sockets' default values, which works in every version of Blender.
    given = {_WOVEN: woven, _RADIUS: 0.5 * thickness, _MATERIAL: material}
    _preset(tree, given)
    obj.modifiers.new(MODIFIER, "NODES").node_group = tree
    _preset(tree, {_WOVEN: None, _MATERIAL: None})
    return obj


def threads_of(woven: bpy.types.Object) -> bpy.types.Object | None:
    """Return the object that shows a woven object's yarns. Takes time proportional to the objects in the file."""
    return next((child for child in woven.children if MODIFIER in child.modifiers), None)


def shows_yarns(obj: bpy.types.Object) -> bool:
    """Return whether an object shows the yarns of another one."""
    return MODIFIER in obj.modifiers


def drawn_of(yarns: bpy.types.Object) -> str:
    """Return the stored digest of the woven object from which yarns were made; '' where none is stored."""
    return str(yarns.data.get(_OF, ""))


def woven_by(obj: bpy.types.Object) -> bpy.types.Object | None:
    """Return the woven object whose yarns an object shows; None where it shows none."""
    return obj.parent if MODIFIER in obj.modifiers else None


def left_behind(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether an object shows the yarns of a woven object that was deleted from the scene.

    The file keeps the deleted object, because the modifier refers to it.
    """
    return MODIFIER in obj.modifiers and (obj.parent is None or obj.parent.name not in scene.objects)


def dropped(obj: bpy.types.Object) -> None:
    """Delete an object that shows yarns, and its mesh if nothing else uses it."""
    mesh = obj.data
    bpy.data.objects.remove(obj)
    if not mesh.users:
        bpy.data.meshes.remove(mesh)


def _preset(tree: Any, values: dict[str, object]) -> None:
    for socket in tree.interface.items_tree:
        if socket.item_type == "SOCKET" and socket.in_out == "INPUT" and socket.name in values:
            socket.default_value = values[socket.name]


def _inputs(tree: Any) -> set[str]:
    return {one.name for one in tree.interface.items_tree if one.item_type == "SOCKET" and one.in_out == "INPUT"}


def _nodes() -> Any:
    """Return the node group that all yarns of the file share, created if needed."""
    known = bpy.data.node_groups.get(MODIFIER)
    inputs = {"Geometry", _WOVEN, _RADIUS, _MATERIAL}
    # A linked node group, or one of the user with the same name, is not used.
    if known is not None and known.library is None and _inputs(known) == inputs:
        return known
    tree: Any = bpy.data.node_groups.new(MODIFIER, "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    shown = tree.interface.new_socket(_WOVEN, in_out="INPUT", socket_type="NodeSocketObject")
    shown.description = "Object whose mesh the yarns follow"
    size = tree.interface.new_socket(_RADIUS, in_out="INPUT", socket_type="NodeSocketFloat")
    size.min_value, size.subtype = 0.0, "DISTANCE"
    tree.interface.new_socket(_MATERIAL, in_out="INPUT", socket_type="NodeSocketMaterial")
    link = tree.links.new

    def added(kind: str, **values: Any) -> Any:
        node = tree.nodes.new(kind)
        for key, value in values.items():
            setattr(node, key, value)
        return node

    def of(sockets: Any, name: str) -> Any:
        return next(socket for socket in sockets if socket.enabled and socket.name == name)

    def attribute(called: str, kind: str) -> Any:
        node = added("GeometryNodeInputNamedAttribute", data_type=kind)
        node.inputs["Name"].default_value = called
        return of(node.outputs, "Attribute")

    start, end = added("NodeGroupInput"), added("NodeGroupOutput")
    info = added("GeometryNodeObjectInfo", transform_space="RELATIVE")
    link(start.outputs[_WOVEN], info.inputs["Object"])
    vertex = attribute(_VERTEX, "INT")

    def sampled(source: Any) -> Any:
        node = added("GeometryNodeSampleIndex", data_type="FLOAT_VECTOR", domain="POINT")
        link(info.outputs["Geometry"], node.inputs["Geometry"])
        link(source, of(node.inputs, "Value"))
        link(vertex, node.inputs["Index"])
        return of(node.outputs, "Value")

    away = added("ShaderNodeMath", operation="MULTIPLY")
    link(attribute(_SIDE, "FLOAT"), away.inputs[0])
    link(start.outputs[_RADIUS], away.inputs[1])
    raised = added("ShaderNodeVectorMath", operation="SCALE")
    link(sampled(added("GeometryNodeInputNormal").outputs["Normal"]), raised.inputs[0])
    link(away.outputs[0], raised.inputs["Scale"])
    put = added("GeometryNodeSetPosition")
    link(start.outputs[0], put.inputs["Geometry"])
    link(sampled(added("GeometryNodeInputPosition").outputs["Position"]), put.inputs["Position"])
    link(raised.outputs[0], put.inputs["Offset"])
    line = added("GeometryNodeMeshToCurve")
    link(put.outputs["Geometry"], line.inputs["Mesh"])
    smooth = added("GeometryNodeCurveSplineType", spline_type="CATMULL_ROM")
    link(line.outputs["Curve"], smooth.inputs["Curve"])
    fine = added("GeometryNodeSetSplineResolution")
    fine.inputs["Resolution"].default_value = _FINE
    link(smooth.outputs["Curve"], fine.inputs[0])
    circle = added("GeometryNodeCurvePrimitiveCircle", mode="RADIUS")
    circle.inputs["Resolution"].default_value = _ROUND
    link(start.outputs[_RADIUS], of(circle.inputs, "Radius"))
    tube = added("GeometryNodeCurveToMesh")
    link(fine.outputs[0], tube.inputs["Curve"])
    link(circle.outputs["Curve"], tube.inputs["Profile Curve"])
    tube.inputs["Fill Caps"].default_value = True
    look = added("GeometryNodeSetMaterial")
    link(start.outputs[_MATERIAL], look.inputs["Material"])
    link(tube.outputs["Mesh"], look.inputs["Geometry"])
    link(look.outputs["Geometry"], end.inputs[0])
    return tree
