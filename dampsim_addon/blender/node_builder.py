"""Builder of Geometry Nodes: short functions that add nodes and return their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import bpy


class NodeBuilder:
    """Builder of all nodes of a tree, with the fields that several of them share.

    The tree has one geometry as its first input and output. Other sockets of its interface are kept.
    start, end: nodes of its inputs and outputs.
    """

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self.link = tree.links.new
        tree.nodes.clear()
        if not len(tree.interface.items_tree):
            for in_out in ("INPUT", "OUTPUT"):
                tree.interface.new_socket("Geometry", in_out=in_out, socket_type="NodeSocketGeometry")
        self.start, self.end = self.add("NodeGroupInput"), self.add("NodeGroupOutput")

    @cached_property
    def position(self) -> Any:
        return self.field("GeometryNodeInputPosition")

    @cached_property
    def index(self) -> Any:
        return self.field("GeometryNodeInputIndex")

    @cached_property
    def curve(self) -> Any:
        """The node of a point's curve."""
        return self.add("GeometryNodeCurveOfPoint")

    @cached_property
    def previous(self) -> Any:
        """Index of the point before a point."""
        return self.math("MAXIMUM", self.math("SUBTRACT", self.index, 1.0), 0.0)

    def add(self, kind: str, **values: Any) -> Any:
        node = self._tree.nodes.new(kind)
        for key, value in values.items():
            setattr(node, key, value)
        return node

    def output(self, node: Any, name: str = "") -> Any:
        """Return the first output that is in use, or that of a name."""
        return next(one for one in node.outputs if one.enabled and name in ("", one.name))

    def fill(self, node: Any, inputs: Mapping[str, Any] | Sequence[Any]) -> Any:
        """Set inputs of a node, by name or in order, to outputs of other nodes or to constants, and return the node.

        None leaves an input as it is.
        """
        sockets = [one for one in node.inputs if one.enabled]
        if isinstance(inputs, Mapping):
            sockets = [next(one for one in sockets if one.name == name) for name in inputs]
            inputs = list(inputs.values())
        for socket, value in zip(sockets, inputs, strict=False):
            if isinstance(value, bpy.types.NodeSocket):
                self.link(value, socket)
            elif value is not None:
                socket.default_value = value
        return node

    def field(self, kind: str, inputs: Mapping[str, Any] | Sequence[Any] = (), output: str = "", **values: Any) -> Any:
        """Add a node and return its output. inputs: see fill().  output: see output().  values: of its properties."""
        return self.output(self.fill(self.add(kind, **values), inputs), output)

    def attribute(self, name: str, kind: str) -> Any:
        return self.field("GeometryNodeInputNamedAttribute", {"Name": name}, "Attribute", data_type=kind)

    def constant(self, value: tuple[float, float, float]) -> Any:
        return self.field("FunctionNodeInputVector", vector=value)

    def number(self, value: float) -> Any:
        socket = self.field("ShaderNodeValue")
        socket.default_value = value
        return socket

    def largest_component(self, vector: Any) -> Any:
        x, y, z = self.fill(self.add("ShaderNodeSeparateXYZ"), (vector,)).outputs
        return self.math("MAXIMUM", self.math("MAXIMUM", x, y), z)

    def vector(self, operation: str, first: Any, second: Any = None) -> Any:
        return self.field("ShaderNodeVectorMath", (first, second), operation=operation)

    def scale(self, vector: Any, factor: Any) -> Any:
        return self.field("ShaderNodeVectorMath", (vector, factor), operation="SCALE")

    def math(self, operation: str, first: Any, second: Any = None, third: Any = None) -> Any:
        return self.field("ShaderNodeMath", (first, second, third), operation=operation)

    def both(self, first: Any, second: Any) -> Any:
        return self.field("FunctionNodeBooleanMath", (first, second), operation="AND")

    def on_domain(self, value: Any, domain: str, kind: str = "FLOAT") -> Any:
        """Return a field that is evaluated on a domain, whatever the domain of its user."""
        return self.field("GeometryNodeFieldOnDomain", {"Value": value}, data_type=kind, domain=domain)

    def at_index(self, index: Any, value: Any) -> Any:
        """Return a vector field of the point with an index."""
        inputs = {"Index": index, "Value": value}
        return self.field("GeometryNodeFieldAtIndex", inputs, data_type="FLOAT_VECTOR", domain="POINT")

    def sample(self, geometry: Any, value: Any, index: Any) -> Any:
        """Return a vector field of another geometry's point with an index."""
        inputs = {"Geometry": geometry, "Value": value, "Index": index}
        return self.field("GeometryNodeSampleIndex", inputs, data_type="FLOAT_VECTOR", domain="POINT")

    def largest(self, geometry: Any, value: Any) -> Any:
        """Return the largest value of a number at the points of a geometry."""
        inputs = {"Geometry": geometry, "Attribute": value}
        return self.field("GeometryNodeAttributeStatistic", inputs, "Max", data_type="FLOAT", domain="POINT")

    def nearest(self, mesh: Any, value: Any, place: Any) -> tuple[Any, Any]:
        """Return a vector field of a mesh at the place on its surface nearest to another, and whether it has faces."""
        node = self.add("GeometryNodeSampleNearestSurface", data_type="FLOAT_VECTOR")
        self.fill(node, {"Mesh": mesh, "Value": value, "Sample Position": place})
        return self.output(node, "Value"), self.output(node, "Is Valid")

    def object_info(self, obj: Any, space: str = "RELATIVE") -> Any:
        """Return the node with the geometry and the transform of an object, which may be an output of another node."""
        return self.fill(self.add("GeometryNodeObjectInfo", transform_space=space), {"Object": obj})

    def set_position(self, geometry: Any, position: Any, selection: Any = None, offset: Any = None) -> Any:
        inputs = {"Geometry": geometry, "Position": position, "Selection": selection, "Offset": offset}
        return self.field("GeometryNodeSetPosition", inputs)

    def store(self, geometry: Any, name: str, kind: str, value: Any, selection: Any = None) -> Any:
        inputs = {"Name": name, "Geometry": geometry, "Value": value, "Selection": selection}
        return self.field("GeometryNodeStoreNamedAttribute", inputs, data_type=kind, domain="POINT")
