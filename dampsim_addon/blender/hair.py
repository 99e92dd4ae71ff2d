"""Hair curves that follow guide strands, which are copied to a wire mesh, through a Geometry Nodes modifier.

Each point of the hair gets the weighted displacement of the nearest guides at the same fraction of their length. The
hair therefore follows the wire mesh whatever animates it: playback or a bake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import Array, Index

HAIR_MODIFIER = "DampSim Hair"
# Custom property that marks the node group.
_TREE_TAG = "dampsim_hair"
# Custom property with the names of the attributes that DampSim has written.
_ATTRIBUTES_TAG = "dampsim_attributes"
# Attributes of the points: rest position (wires), guide point and weight (hair).
_REST, _GUIDE, _WEIGHT = ".dampsim_rest", ".dampsim_guide", ".dampsim_weight"
# Number of guides that a strand follows.
_GUIDES_PER_STRAND = 3


@dataclass(frozen=True)
class Strands:
    """Strands of a hair curves object.

    points: (p, 3) in its space.  starts, counts: (s,) first point and number of points of each strand.
    radius: mean radius, m; 0 if unknown.
    """

    points: Array
    starts: Index
    counts: Index
    radius: float

    @staticmethod
    def from_curves(hair: Any) -> Strands:
        """Read the strands of a bpy.types.Curves."""
        points = np.empty(3 * len(hair.points))
        if len(points):
            hair.attributes["position"].data.foreach_get("vector", points)
        starts, counts = (np.empty(len(hair.curves), dtype=np.int32) for _ in range(2))
        hair.curves.foreach_get("first_point_index", starts)
        hair.curves.foreach_get("points_length", counts)
        radii = np.zeros(len(hair.points), dtype=np.float32)
        if "radius" in hair.attributes:
            hair.attributes["radius"].data.foreach_get("value", radii)
        mean = float(radii.mean()) if len(radii) else 0.0
        return Strands(points.reshape(-1, 3), starts.astype(np.int64), counts.astype(np.int64), mean)

    def select_guides(self, max_count: int) -> Index:
        """Return up to max_count strands with at least two points, chosen by farthest-point sampling of the roots."""
        candidates = np.flatnonzero(self.counts > 1)
        if not len(candidates):
            return candidates
        roots = self.points[self.starts[candidates]]
        found = [int(((roots - roots.mean(axis=0)) ** 2).sum(axis=1).argmin())]
        distances = np.full(len(candidates), np.inf)
        while len(found) < min(max_count, len(candidates)):
            distances = np.minimum(distances, ((roots - roots[found[-1]]) ** 2).sum(axis=1))
            if distances.max() == 0.0:
                break
            found.append(int(distances.argmax()))
        return np.sort(candidates[found])


@dataclass(frozen=True)
class GuideWires:
    """Guides as a wire mesh.

    points: (v, 3).  edges: (e, 2).  pinned: the first two points of each guide.
    starts, counts: (g,) first point and number of points of each guide.
    """

    points: Array
    edges: Index
    pinned: Index
    starts: Index
    counts: Index

    @staticmethod
    def from_strands(strands: Strands, guides: Index) -> GuideWires:
        counts = strands.counts[guides]
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        indices = np.concatenate([np.arange(c) + s for s, c in zip(strands.starts[guides], counts, strict=True)])
        tails = np.concatenate([np.arange(c - 1) + s for s, c in zip(starts, counts, strict=True)])
        pinned = np.concatenate([starts, starts + 1])
        return GuideWires(strands.points[indices], np.stack([tails, tails + 1], axis=1), pinned, starts, counts)


def attach_hair(
    obj: bpy.types.Object, wire: bpy.types.Object, strands: Strands, guides: Index, wires: GuideWires
) -> None:
    """Add the modifier that lets hair follow the wire mesh of its guides."""
    rest = _write_attribute(wire.data, _REST, "FLOAT_VECTOR", "vector", wires.points)
    roots = strands.points[strands.starts]
    guide_count = min(_GUIDES_PER_STRAND, len(guides))
    # Distances between roots, one guide at a time to save memory with many strands.
    root_distances = np.stack([np.linalg.norm(roots - roots[guide], axis=1) for guide in guides], axis=1)
    nearest = np.argsort(root_distances, axis=1, kind="stable")[:, :guide_count]
    nearest_distances = np.take_along_axis(root_distances, nearest, axis=1)
    weights = 1.0 / np.maximum(nearest_distances, 1e-6 * max(float(nearest_distances.max()), 1e-9)) ** 2
    weights /= weights.sum(axis=1)[:, None]
    strand = np.arange(len(roots)).repeat(strands.counts)
    fraction = (np.arange(len(strand)) - strands.starts[strand]) / np.maximum(strands.counts[strand] - 1, 1)
    guide_names, weight_names = [], []
    for k in range(guide_count):
        guide = nearest[strand, k]
        wire_point = wires.starts[guide] + np.rint(fraction * (wires.counts[guide] - 1)).astype(np.int64)
        guide_names.append(_write_attribute(obj.data, f"{_GUIDE}{k}", "INT", "value", wire_point.astype(np.int32)))
        weight_names.append(_write_attribute(obj.data, f"{_WEIGHT}{k}", "FLOAT", "value", weights[strand, k]))
    modifier: Any = obj.modifiers.new(HAIR_MODIFIER, "NODES")
    modifier.node_group = _build_node_tree(obj.name, wire, rest, list(zip(guide_names, weight_names, strict=True)))


def guide_object(hair: bpy.types.Object) -> bpy.types.Object | None:
    """Return the wire mesh object that hair follows; None where it follows none."""
    modifier = hair_modifier(hair)
    infos = [node for node in modifier.node_group.nodes if node.type == "OBJECT_INFO"] if modifier is not None else []
    return infos[0].inputs["Object"].default_value if infos else None


def hair_modifier(hair: bpy.types.Object) -> Any:
    """Return the modifier that lets hair follow guides: its node group has a mark, or reads DampSim's attributes."""
    return next((m for m in hair.modifiers if m.type == "NODES" and _is_hair_tree(m.node_group)), None)


def _is_hair_tree(tree: Any) -> bool:
    if tree is None or tree.get(_TREE_TAG):
        return tree is not None
    names = [n.inputs["Name"].default_value for n in tree.nodes if n.bl_idname == "GeometryNodeInputNamedAttribute"]
    return _REST in names


def _write_attribute(data: Any, name: str, kind: str, field: str, values: Array) -> str:
    """Write an attribute, replacing an earlier one of DampSim, and return its name.

    Blender appends a number where the user has an attribute of this name.
    """
    stored = data.get(_ATTRIBUTES_TAG)
    recorded = stored.split("\n") if isinstance(stored, str) else []
    if name in recorded and name in data.attributes:
        data.attributes.remove(data.attributes[name])
    attribute = data.attributes.new(name, kind, "POINT")
    found = str(attribute.name)
    attribute.data.foreach_set(field, np.ascontiguousarray(values).ravel())
    data[_ATTRIBUTES_TAG] = "\n".join(dict.fromkeys([*recorded, found]))
    return found


def _build_node_tree(name: str, wire: bpy.types.Object, rest: str, guides: Sequence[tuple[str, str]]) -> Any:
    """Build a node tree that offsets points by the weighted displacements of the wires' points.

    rest, guides: names of attributes: of the rest positions, and of the point and weight of each guide.
    """
    tree: Any = bpy.data.node_groups.new(f"{HAIR_MODIFIER} {name}", "GeometryNodeTree")
    tree[_TREE_TAG] = True
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")

    def added(kind: str, **values: Any) -> Any:
        node = tree.nodes.new(kind)
        for key, value in values.items():
            setattr(node, key, value)
        return node

    def attribute(called: str, kind: str) -> Any:
        node = added("GeometryNodeInputNamedAttribute", data_type=kind)
        node.inputs["Name"].default_value = called
        return next(socket for socket in node.outputs if socket.enabled and socket.name == "Attribute")

    link = tree.links.new
    start, end = added("NodeGroupInput"), added("NodeGroupOutput")
    info = added("GeometryNodeObjectInfo", transform_space="RELATIVE")
    info.inputs["Object"].default_value = wire
    # Displacements of the wires from rest; zero where the wires are missing.
    moved = added("ShaderNodeVectorMath", operation="SUBTRACT")
    link(added("GeometryNodeInputPosition").outputs["Position"], moved.inputs[0])
    link(attribute(rest, "FLOAT_VECTOR"), moved.inputs[1])
    total: Any = None
    for point_name, weight_name in guides:
        sample = added("GeometryNodeSampleIndex", data_type="FLOAT_VECTOR", domain="POINT")
        link(info.outputs["Geometry"], sample.inputs["Geometry"])
        link(moved.outputs[0], next(one for one in sample.inputs if one.enabled and one.name == "Value"))
        link(attribute(point_name, "INT"), sample.inputs["Index"])
        scaled = added("ShaderNodeVectorMath", operation="SCALE")
        link(next(one for one in sample.outputs if one.enabled), scaled.inputs[0])
        link(attribute(weight_name, "FLOAT"), scaled.inputs["Scale"])
        if total is None:
            total = scaled
        else:
            both = added("ShaderNodeVectorMath", operation="ADD")
            link(total.outputs[0], both.inputs[0])
            link(scaled.outputs[0], both.inputs[1])
            total = both
    put = added("GeometryNodeSetPosition")
    link(start.outputs[0], put.inputs["Geometry"])
    link(total.outputs[0], put.inputs["Offset"])
    link(put.outputs["Geometry"], end.inputs[0])
    return tree
