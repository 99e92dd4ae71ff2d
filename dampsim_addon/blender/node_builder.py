"""Builder of Geometry Nodes: short functions that add nodes and return their outputs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import bpy


class NodeBuilder:
    """Builder of the nodes of a tree, with the fields that several of them share."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self.link = tree.links.new

    @cached_property
    def position(self) -> Any:
        return self.add("GeometryNodeInputPosition").outputs["Position"]

    @cached_property
    def index(self) -> Any:
        return self.add("GeometryNodeInputIndex").outputs["Index"]

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

    def input(self, node: Any, name: str) -> Any:
        return next(one for one in node.inputs if one.enabled and one.name == name)

    def _fill(self, socket: Any, value: Any) -> None:
        if isinstance(value, bpy.types.NodeSocket):
            self.link(value, socket)
        else:
            socket.default_value = value

    def attribute(self, name: str, kind: str) -> Any:
        node = self.add("GeometryNodeInputNamedAttribute", data_type=kind)
        node.inputs["Name"].default_value = name
        return self.output(node, "Attribute")

    def constant(self, value: tuple[float, float, float]) -> Any:
        node = self.add("FunctionNodeInputVector")
        node.vector = value
        return node.outputs["Vector"]

    def number(self, value: float) -> Any:
        node = self.add("ShaderNodeValue")
        node.outputs[0].default_value = value
        return node.outputs[0]

    def parts(self, vector: Any) -> list[Any]:
        """Return the three components of a vector."""
        node = self.add("ShaderNodeSeparateXYZ")
        self.link(vector, node.inputs[0])
        return list(node.outputs)

    def vector(self, operation: str, first: Any, second: Any = None) -> Any:
        node = self.add("ShaderNodeVectorMath", operation=operation)
        for socket, value in zip(node.inputs, (first, second), strict=False):
            if value is not None:
                self.link(value, socket)
        return node.outputs["Value" if operation in ("DOT_PRODUCT", "LENGTH") else "Vector"]

    def scale(self, vector: Any, factor: Any) -> Any:
        node = self.add("ShaderNodeVectorMath", operation="SCALE")
        self.link(vector, node.inputs[0])
        self._fill(node.inputs["Scale"], factor)
        return node.outputs["Vector"]

    def math(self, operation: str, first: Any, second: Any = None, third: Any = None) -> Any:
        node = self.add("ShaderNodeMath", operation=operation)
        for socket, value in zip(node.inputs, (first, second, third), strict=False):
            if value is not None:
                self._fill(socket, value)
        return node.outputs["Value"]

    def compare(self, first: Any, second: Any) -> Any:
        """Return whether two whole numbers are equal."""
        node = self.add("FunctionNodeCompare", data_type="INT", operation="EQUAL")
        self.link(first, self.input(node, "A"))
        self.link(second, self.input(node, "B"))
        return self.output(node)

    def both(self, first: Any, second: Any) -> Any:
        node = self.add("FunctionNodeBooleanMath", operation="AND")
        self.link(first, node.inputs[0])
        self.link(second, node.inputs[1])
        return node.outputs[0]

    def switch(self, is_second: Any, first: Any, second: Any) -> Any:
        node = self.add("GeometryNodeSwitch", input_type="VECTOR")
        self.link(is_second, self.input(node, "Switch"))
        self.link(first, self.input(node, "False"))
        self.link(second, self.input(node, "True"))
        return self.output(node)

    def on_domain(self, value: Any, domain: str, kind: str = "FLOAT") -> Any:
        """Return a field that is evaluated on a domain, whatever the domain of its user."""
        node = self.add("GeometryNodeFieldOnDomain", data_type=kind, domain=domain)
        self.link(value, self.input(node, "Value"))
        return self.output(node)

    def at_index(self, index: Any, value: Any) -> Any:
        """Return a vector field of the point with an index."""
        node = self.add("GeometryNodeFieldAtIndex", data_type="FLOAT_VECTOR", domain="POINT")
        self.link(index, self.input(node, "Index"))
        self.link(value, self.input(node, "Value"))
        return self.output(node)

    def sample(self, geometry: Any, value: Any, index: Any) -> Any:
        """Return a vector field of another geometry's point with an index."""
        node = self.add("GeometryNodeSampleIndex", data_type="FLOAT_VECTOR", domain="POINT")
        self.link(geometry, node.inputs["Geometry"])
        self.link(value, self.input(node, "Value"))
        self.link(index, self.input(node, "Index"))
        return self.output(node)

    def largest(self, geometry: Any, value: Any) -> Any:
        """Return the largest value of a number at the points of a geometry."""
        node = self.add("GeometryNodeAttributeStatistic", data_type="FLOAT", domain="POINT")
        self.link(geometry, node.inputs["Geometry"])
        self.link(value, self.input(node, "Attribute"))
        return self.output(node, "Max")

    def nearest(self, mesh: Any, value: Any, place: Any) -> tuple[Any, Any]:
        """Return a vector field of a mesh at the place on its surface nearest to another, and whether it has faces."""
        node = self.add("GeometryNodeSampleNearestSurface", data_type="FLOAT_VECTOR")
        self.link(mesh, node.inputs["Mesh"])
        self.link(value, self.input(node, "Value"))
        self.link(place, self.input(node, "Sample Position"))
        return self.output(node, "Value"), self.output(node, "Is Valid")

    def set_position(self, geometry: Any, position: Any, selection: Any = None) -> Any:
        node = self.add("GeometryNodeSetPosition")
        self.link(geometry, node.inputs["Geometry"])
        self.link(position, node.inputs["Position"])
        if selection is not None:
            self.link(selection, node.inputs["Selection"])
        return node.outputs["Geometry"]

    def store(self, geometry: Any, name: str, kind: str, value: Any, selection: Any = None) -> Any:
        node = self.add("GeometryNodeStoreNamedAttribute", data_type=kind, domain="POINT")
        node.inputs["Name"].default_value = name
        self.link(geometry, node.inputs["Geometry"])
        self.link(value, self.input(node, "Value"))
        if selection is not None:
            self.link(selection, node.inputs["Selection"])
        return node.outputs["Geometry"]
