"""Effect of Geometry Nodes on a mesh, read from the node tree without evaluating it.

An unknown node may change the topology, so new nodes of Blender are never trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import bpy

from ..session import SessionState, Subscriber
from .animation import is_animated

# Nodes that keep the vertices and their order, and leave positions as they are.
_KEEPING_NODES = {
    "CaptureAttribute", "FlipFaces", "RealizeInstances", "RemoveAttribute", "ReplaceMaterial", "SetGeometryName",
    "SetID", "SetMaterial", "SetMaterialIndex", "SetMeshNormal", "SetShadeSmooth", "StoreNamedAttribute",
    "ToolSetFaceSet", "ToolSetSelection",
}  # fmt: skip
# Nodes that keep the vertices and their order, and move them.
_MOVING_NODES = {"SetPosition", "Transform", "TransformGeometry", "ScaleElements"}
# Nodes that choose between inputs, or repeat other nodes. They are followed to all of their inputs.
_BRANCHING_NODES = {
    "Switch", "IndexSwitch", "MenuSwitch", "RepeatInput", "RepeatOutput", "SimulationInput", "SimulationOutput",
    "Viewer", "Warning",
}  # fmt: skip
_SIMULATION_NODES = {"SimulationInput", "SimulationOutput"}
# Nodes whose result may differ between frames although nothing in the tree is animated.
_TIME_NODES = {
    *_SIMULATION_NODES, "InputSceneTime", "InputActiveCamera", "CameraInfo", "ViewportTransform", "SelfObject",
    "BoneInfo", "Bake", "ImportCSV", "ImportOBJ", "ImportPLY", "ImportSTL", "ImportText", "ImportVDB",
}  # fmt: skip
# Sockets whose value is a datablock that may move or change.
_DATABLOCK_SOCKETS = {"OBJECT", "COLLECTION", "IMAGE", "TEXTURE"}
_PREFIX = "GeometryNode"
# Name of an attribute that the tree computes. No attribute has an empty name.
UNKNOWN_NAME = ""


@dataclass(frozen=True)
class NodeEffect:
    """Effect of a node tree on the mesh that enters it.

    keeps_topology: whether the vertices certainly stay the same ones.  moves_points: whether it may move them.
    changes_over_time: whether the tree itself may give another result at another frame.
    has_simulation: whether it contains a simulation zone.  reads_files: whether it reads images or files.
    sets_positions: whether a node sets positions, which may depend on those that enter the tree.
    reads_camera: whether it reads the active camera of the scene.
    stored: names of the attributes that it stores, among them vertex groups; UNKNOWN_NAME for a computed name.
    """

    keeps_topology: bool
    moves_points: bool
    changes_over_time: bool
    has_simulation: bool
    reads_files: bool
    stored: frozenset[str] = frozenset()
    sets_positions: bool = False
    reads_camera: bool = False

    def may_store(self, name: str) -> bool:
        """Return whether the tree may store an attribute or vertex group."""
        return bool({name, UNKNOWN_NAME} & self.stored)


_NO_EFFECT = NodeEffect(True, False, False, False, False)


class NodeEffects(SessionState, dict[int, tuple[tuple[int, int], NodeEffect]]):
    """Effects of node trees by session uid, with the numbers of nodes and links for which they are valid."""

    survives_undo = False


def node_effect(tree: Any) -> NodeEffect:
    """Return the effect of a Geometry Nodes tree; None as a tree has no effect."""
    if tree is None:
        return _NO_EFFECT
    memo, size = NodeEffects.current(), (len(tree.nodes), len(tree.links))
    if memo.get(tree.session_uid, (None,))[0] != size:
        memo[tree.session_uid] = size, _read_effect(tree)
    return memo[tree.session_uid][1]


def modifier_effect(modifier: Any) -> NodeEffect:
    """Return the effect of a Geometry Nodes modifier, without its animated inputs."""
    effect, names = node_effect(modifier.node_group), _output_attributes(modifier)
    if not names:
        return effect
    # Blender keeps the vertices' places in an attribute.
    moves = "position" in names
    return replace(
        effect,
        stored=effect.stored | names,
        moves_points=effect.moves_points or moves,
        sets_positions=effect.sets_positions or moves,
    )


def _output_attributes(modifier: Any) -> set[str]:
    """Return the names of the attributes and vertex groups in which a modifier stores outputs of its tree."""
    tree = modifier.node_group
    items = tree.interface.items_tree if tree is not None else ()
    outputs = [one for one in items if one.item_type == "SOCKET" and one.in_out == "OUTPUT"]
    values = [one for one in outputs if one.socket_type != "NodeSocketGeometry"]
    return {name for one in values if (name := _attribute_name(modifier, one.identifier))}


def _attribute_name(modifier: Any, identifier: str) -> str:
    # Blender 5.2 stores the outputs in a property group. Its modifiers have no custom properties.
    properties = getattr(modifier, "properties", None)
    if properties is not None:
        socket = getattr(getattr(properties, "outputs", None), identifier, None)
        return str(getattr(socket, "attribute_name", ""))
    return str(modifier.get(f"{identifier}_attribute_name", ""))


def _read_effect(tree: Any) -> NodeEffect:
    keeps, moves = _trace(tree, ())
    trees = list(nested_trees(tree))
    names = {_short_name(node) for one in trees for node in one.nodes}
    datablocks = [socket.type for socket in _filled_sockets(trees)]
    changes = bool(datablocks) or bool(names & _TIME_NODES) or any(map(is_animated, trees))
    reads_files = "IMAGE" in datablocks or any(is_file_node(node) for one in trees for node in one.nodes)
    stored = frozenset(_stored_name(node) for one in trees for node in one.nodes if _stores_attribute(node))
    sets_positions = bool(names & _MOVING_NODES) or not stored.isdisjoint(("position", UNKNOWN_NAME))
    reads_camera = "InputActiveCamera" in names
    return NodeEffect(
        keeps, moves, changes, bool(names & _SIMULATION_NODES), reads_files, stored, sets_positions, reads_camera
    )


def _stores_attribute(node: Any) -> bool:
    """Return whether a node stores an attribute; it passes on the geometry if it is muted or names none."""
    if _short_name(node) != "StoreNamedAttribute" or node.mute:
        return False
    return bool(node.inputs["Name"].is_linked or node.inputs["Name"].default_value)


def _stored_name(node: Any) -> str:
    socket = node.inputs["Name"]
    return UNKNOWN_NAME if socket.is_linked else str(socket.default_value)


def nested_trees(tree: Any, visited: set[int] | None = None) -> Iterator[Any]:
    """Iterate over a node tree and the trees of its group nodes, each once; None contains none."""
    visited = set() if visited is None else visited
    if tree is None or tree.session_uid in visited:
        return
    visited.add(tree.session_uid)
    yield tree
    for node in tree.nodes:
        yield from nested_trees(getattr(node, "node_tree", None), visited)


def read_datablocks(tree: Any) -> list[bpy.types.ID]:
    """Return the datablocks that the nodes of a tree, and of the trees in it, read."""
    return [socket.default_value for socket in _filled_sockets(nested_trees(tree))]


def _filled_sockets(trees: Iterable[Any]) -> Iterator[Any]:
    for socket in (socket for tree in trees for node in tree.nodes for socket in node.inputs):
        if socket.type in _DATABLOCK_SOCKETS and getattr(socket, "default_value", None) is not None:
            yield socket


def is_file_node(node: Any) -> bool:
    """Return whether a node reads a file, whose path is a text."""
    return _short_name(node).startswith("Import")


def _short_name(node: Any) -> str:
    return str(node.bl_idname).removeprefix(_PREFIX)


def _trace(tree: Any, outer_trees: tuple[int, ...]) -> tuple[bool, bool]:
    """Follow the geometry from the output of a tree back to its input: (keeps the topology, moves points)."""
    output = next((n for n in tree.nodes if n.bl_idname == "NodeGroupOutput" and n.is_active_output), None)
    if output is None or tree.session_uid in outer_trees:
        return False, True
    # `socket.links` searches all links of the tree at each access.
    sources = defaultdict[tuple[str, str], list[Any]](list)
    for link in tree.links:
        if not link.is_muted:
            sources[link.to_node.name, link.to_socket.identifier].append(link.from_node)
    first = next((socket for socket in output.inputs if socket.type == "GEOMETRY"), None)
    queue = [] if first is None else list(sources[output.name, first.identifier])
    keeps, moves, visited = len(queue) == 1, False, set[str]()
    while queue:
        node = queue.pop()
        if node.name in visited or node.bl_idname == "NodeGroupInput":
            continue
        visited.add(node.name)
        node_keeps, node_moves = _node_effect(node, (*outer_trees, tree.session_uid))
        inputs = [s for s in node.inputs if s.type == "GEOMETRY" or node.bl_idname == "NodeReroute"]
        links = [sources[node.name, socket.identifier] for socket in inputs]
        # A node without geometry at its input makes new geometry, and two links are joined.
        keeps = keeps and node_keeps and all(len(one) <= 1 for one in links) and any(links)
        moves = moves or node_moves
        queue += [source for one in links for source in one]
    return keeps, moves or not keeps


def _node_effect(node: Any, outer_trees: tuple[int, ...]) -> tuple[bool, bool]:
    name = _short_name(node)
    if node.mute or node.bl_idname == "NodeReroute" or name in _KEEPING_NODES | _BRANCHING_NODES | {"JoinGeometry"}:
        # Blender keeps the vertices' places in an attribute.
        moves = _stores_attribute(node) and _stored_name(node) in ("position", UNKNOWN_NAME)
        return True, moves or name in _SIMULATION_NODES
    if name in _MOVING_NODES:
        return True, True
    inner = getattr(node, "node_tree", None)
    return (False, True) if inner is None else _trace(inner, outer_trees)


def _forget_edited_trees(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    memo = NodeEffects.current()
    if memo and (depsgraph is None or any(isinstance(u.id, bpy.types.NodeTree) for u in depsgraph.updates)):
        memo.clear()


SUBSCRIBER = Subscriber("geometry_nodes", {"depsgraph_update_post": _forget_edited_trees})
