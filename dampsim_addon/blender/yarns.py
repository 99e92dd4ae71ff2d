"""The yarns of a woven mesh as threads that one sees: a mesh of chains, which Geometry Nodes make round.

Each point lies at a vertex of the woven mesh, half a yarn above it or below; so it does whatever moves that mesh,
playback or bake.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core.arrays import Array, Index

MODIFIER = "DampSim Yarns"
_VERTEX, _SIDE = ".dampsim_vertex", ".dampsim_side"
# Points of a spline between two crossings, and around the yarn.
_FINE, _ROUND = 6, 8


def threads(woven: bpy.types.Object, vertices: Index, edges: Index, sides: Array, thickness: float) -> bpy.types.Object:
    """A new object beside a woven one, whose yarns it shows.

    vertices: (p,) of the woven mesh, one for each point.  edges: (e, 2) of points.  sides: (p,) of the yarn's middle
    over the vertex, in half thicknesses.  thickness: m.
    """
    places = np.empty(3 * len(woven.data.vertices), dtype=np.float32)
    woven.data.vertices.foreach_get("co", places)
    mesh = bpy.data.meshes.new(f"{woven.name} Yarns")
    mesh.from_pydata(places.reshape(-1, 3)[vertices].tolist(), edges.tolist(), [])
    for name, kind, values in ((_VERTEX, "INT", vertices.astype(np.int32)), (_SIDE, "FLOAT", sides.astype(np.float32))):
        mesh.attributes.new(name, kind, "POINT").data.foreach_set("value", np.ascontiguousarray(values))
    if woven.data.materials:
        mesh.materials.append(woven.data.materials[0])
    obj = bpy.data.objects.new(mesh.name, mesh)
    for collection in woven.users_collection:
        collection.objects.link(obj)
    obj.parent = woven
    obj.modifiers.new(MODIFIER, "NODES").node_group = _nodes(woven, 0.5 * thickness)
    return obj


def threads_of(woven: bpy.types.Object) -> bpy.types.Object | None:
    """The object that shows a woven one's yarns."""
    return next((child for child in woven.children if MODIFIER in child.modifiers), None)


def _nodes(woven: bpy.types.Object, radius: float) -> Any:
    tree: Any = bpy.data.node_groups.new(f"{MODIFIER} {woven.name}", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    size = tree.interface.new_socket("Radius", in_out="INPUT", socket_type="NodeSocketFloat")
    size.default_value, size.min_value, size.subtype = radius, 0.0, "DISTANCE"
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
    info.inputs["Object"].default_value = woven
    vertex = attribute(_VERTEX, "INT")

    def sampled(source: Any) -> Any:
        node = added("GeometryNodeSampleIndex", data_type="FLOAT_VECTOR", domain="POINT")
        link(info.outputs["Geometry"], node.inputs["Geometry"])
        link(source, of(node.inputs, "Value"))
        link(vertex, node.inputs["Index"])
        return of(node.outputs, "Value")

    away = added("ShaderNodeMath", operation="MULTIPLY")
    link(attribute(_SIDE, "FLOAT"), away.inputs[0])
    link(start.outputs["Radius"], away.inputs[1])
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
    link(start.outputs["Radius"], of(circle.inputs, "Radius"))
    tube = added("GeometryNodeCurveToMesh")
    link(fine.outputs[0], tube.inputs["Curve"])
    link(circle.outputs["Curve"], tube.inputs["Profile Curve"])
    tube.inputs["Fill Caps"].default_value = True
    look = added("GeometryNodeSetMaterial")
    look.inputs["Material"].default_value = woven.data.materials[0] if woven.data.materials else None
    link(tube.outputs["Mesh"], look.inputs["Geometry"])
    link(look.outputs["Geometry"], end.inputs[0])
    return tree
