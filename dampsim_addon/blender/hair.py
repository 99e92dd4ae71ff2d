"""Hair curves that follow guide strands, which are copied to a wire mesh, through a Geometry Nodes modifier.

Each segment of the hair turns as the nearest guides do at the same fraction of their length, see hair_tree. The hair
therefore follows the wire mesh whatever animates it: playback or a bake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import Array, Index
from .dampsim_names import recorded_names
from .hair_tree import FollowedGuide, HairCollider, HairTree
from .sampler import read_array

HAIR_MODIFIER = "DampSim Hair"
# Radius (m) of hair without a radius.
DEFAULT_RADIUS = 2.5e-4
# Custom property that marks the node group, with the state of its inputs.
_TREE_TAG = "dampsim_hair"
# Version of the tree. A bake and Live replace trees of another one.
_TREE_VERSION = 4
# Custom property with the names of the attributes that DampSim has written.
_ATTRIBUTES_TAG = "dampsim_attributes"
# Attributes of the points: rest position (wires), guide point and weight (hair).
_REST, _GUIDE, _WEIGHT = ".dampsim_rest", ".dampsim_guide", ".dampsim_weight"
# Largest number of guides that a strand follows, and the smallest cosine between their directions.
_GUIDES_PER_STRAND, _SAME_SIDE_COSINE = 3, 0.5
# Sum of the area vectors over the total area, from which on a mesh is a sheet. A hemisphere has 0.5.
_SHEET_RATIO = 0.5


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
        points, radii = np.zeros((0, 3)), np.zeros(0, dtype=np.float32)
        if len(hair.points):
            points = read_array(hair.attributes["position"].data, "vector", float, 3)
        if "radius" in hair.attributes:
            radii = read_array(hair.attributes["radius"].data, "value", np.float32)
        starts, counts = (read_array(hair.curves, name, np.int32) for name in ("first_point_index", "points_length"))
        # Nodes can store infinity, and values that are no numbers.
        radii = radii[np.isfinite(radii)]
        mean = float(radii.mean()) if len(radii) else 0.0
        return Strands(points, starts.astype(np.int64), counts.astype(np.int64), mean)

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


@dataclass(frozen=True)
class GuideWeights:
    """Assignment of points of hair to guides.

    points: (g, p) point of the wires where the segment of guide g ends; at roots the guide's root.
    weights: (g, p) of each guide; they sum to one.
    """

    points: Index
    weights: Array

    @staticmethod
    def create(strands: Strands, wires: GuideWires) -> GuideWeights:
        """Let each strand follow the nearest guides that leave the head in a similar direction.

        A strand beside a parting therefore does not follow guides of the other side.
        """
        roots, directions = strands.points[strands.starts], _directions(strands.points, strands.starts, strands.counts)
        guide_roots = wires.points[wires.starts]
        guide_directions = _directions(wires.points, wires.starts, wires.counts)
        guide_count = min(_GUIDES_PER_STRAND, len(wires.starts))
        # One guide at a time, to save memory with many strands.
        distances = np.stack([np.linalg.norm(roots - root, axis=1) for root in guide_roots], axis=1)
        is_other_side = directions @ guide_directions.T < _SAME_SIDE_COSINE
        # Guides of the other side come last, and count only for strands without any guide of their own side.
        is_other_side &= ~is_other_side.all(axis=1)[:, None]
        far = 1.0 + float(distances.max(initial=0.0))
        nearest = np.argsort(distances + far * is_other_side, axis=1, kind="stable")[:, :guide_count]
        nearest_distances = np.take_along_axis(distances, nearest, axis=1)
        weights = 1.0 / np.maximum(nearest_distances, 1e-6 * max(float(nearest_distances.max(initial=0.0)), 1e-9)) ** 2
        weights *= ~np.take_along_axis(is_other_side, nearest, axis=1)
        weights /= weights.sum(axis=1)[:, None]
        strand = np.arange(len(roots)).repeat(strands.counts)
        number = np.arange(len(strand)) - strands.starts[strand]
        middle = (number - 0.5) / np.maximum(strands.counts[strand] - 1, 1)
        points = []
        for k in range(guide_count):
            guide = nearest[strand, k]
            last = wires.counts[guide] - 1
            segment = np.clip(np.floor(middle * last).astype(np.int64) + 1, 1, last)
            points.append(wires.starts[guide] + np.where(number > 0, segment, 0))
        return GuideWeights(np.array(points), weights[strand].T)


def _directions(points: Array, starts: Index, counts: Index) -> Array:
    """Return the unit vectors (s, 3) from roots to tips; zero for closed strands."""
    chords = points[starts + counts - 1] - points[starts]
    return np.asarray(chords / np.maximum(np.linalg.norm(chords, axis=1), 1e-9)[:, None])


def attach_hair(obj: bpy.types.Object, wire: bpy.types.Object, strands: Strands, wires: GuideWires) -> None:
    """Add the modifier that lets hair follow the wire mesh of its guides. update_hair() adds colliders to it."""
    rest = _write_attribute(wire.data, _REST, "FLOAT_VECTOR", "vector", wires.points)
    tree: Any = bpy.data.node_groups.new(f"{HAIR_MODIFIER} {obj.name}", "GeometryNodeTree")
    modifier: Any = obj.modifiers.new(HAIR_MODIFIER, "NODES")
    modifier.node_group = tree
    _fill_tree(tree, obj, wire, rest, strands, wires, ())


def update_hair(obj: bpy.types.Object, colliders: Sequence[HairCollider]) -> bool:
    """Bring the modifier of hair up to date with its strands, its guides and the colliders of its guides.

    Trees of earlier versions are replaced, too. Return whether anything had changed.
    """
    modifier, wire = hair_modifier(obj), guide_object(obj)
    if modifier is None or wire is None or obj.data.library is not None or modifier.node_group.library is not None:
        return False
    tree, attributes = modifier.node_group, wire.data.attributes
    rest = next((name for name in _read_names(tree) if name.startswith(_REST) and name in attributes), _REST)
    wires = _read_wires(wire.data, rest)
    strands = Strands.from_curves(obj.data)
    if wires is None or not len(strands.points) or tree.get(_TREE_TAG) == _state(strands, wires, colliders):
        return False
    _fill_tree(tree, obj, wire, rest, strands, wires, colliders)
    return True


def _fill_tree(
    tree: Any,
    obj: bpy.types.Object,
    wire: bpy.types.Object,
    rest: str,
    strands: Strands,
    wires: GuideWires,
    colliders: Sequence[HairCollider],
) -> None:
    assigned, guides = GuideWeights.create(strands, wires), []
    for k, (points, weights) in enumerate(zip(assigned.points, assigned.weights, strict=True)):
        point_name = _write_attribute(obj.data, f"{_GUIDE}{k}", "INT", "value", points.astype(np.int32))
        guides.append(FollowedGuide(point_name, _write_attribute(obj.data, f"{_WEIGHT}{k}", "FLOAT", "value", weights)))
    clearance = strands.radius or DEFAULT_RADIUS
    HairTree(wire, rest, guides, colliders, clearance, int(strands.counts.max()) - 1).build(tree)
    tree[_TREE_TAG] = _state(strands, wires, colliders)


def _state(strands: Strands, wires: GuideWires, colliders: Sequence[HairCollider]) -> str:
    """Return the state of the inputs of a tree, in a string."""
    arrays = strands.points, strands.starts, wires.points, wires.starts
    digest = hashlib.sha1(b"".join(np.ascontiguousarray(one, dtype=float).tobytes() for one in arrays)).hexdigest()
    stops = [f"{one.obj.session_uid} {one.sign:+.0f} {one.is_plane}" for one in colliders]
    return "; ".join([str(_TREE_VERSION), digest, f"{strands.radius:.6g}", *stops])


def _read_wires(mesh: Any, rest: str) -> GuideWires | None:
    """Return the guides of a wire mesh at rest; None if it has changed since."""
    attribute, count = mesh.attributes.get(rest), len(mesh.vertices)
    if attribute is None or attribute.data_type != "FLOAT_VECTOR" or not count:
        return None
    points = read_array(attribute.data, "vector", float, 3)
    edges = np.sort(read_array(mesh.edges, "vertices", np.int64, 2), axis=1)
    continues = np.zeros(count, dtype=bool)
    continues[edges[:, 1]] = True
    starts = np.flatnonzero(~continues)
    counts = np.diff(np.append(starts, count))
    if (edges[:, 1] - edges[:, 0] != 1).any() or (counts < 2).any():
        return None
    return GuideWires(points, edges, np.concatenate([starts, starts + 1]), starts, counts)


def find_hair(wire: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the hair objects that follow a wire mesh."""
    hair = [obj for obj in bpy.data.objects if obj.type == "CURVES" and obj.library is None]
    return [obj for obj in hair if guide_object(obj) == wire]


def hair_colliders(
    colliders: Sequence[tuple[bpy.types.Object, bool]], depsgraph: bpy.types.Depsgraph
) -> list[HairCollider]:
    """Return the colliders that strands can stay out of: planes, and meshes that enclose a volume.

    colliders: objects, each with whether it is an infinite plane. Their meshes may have holes: the area vectors of a
    closed surface cancel, and those of a sheet add up. The sign of the enclosed volume tells where the normals point.
    """
    found = []
    for obj, is_plane in colliders:
        if is_plane:
            found.append(HairCollider(obj, is_plane=True))
            continue
        mesh = obj.evaluated_get(depsgraph).data
        mesh.calc_loop_triangles()
        corners = read_array(mesh.loop_triangles, "vertices", np.int32, 3)
        points = read_array(mesh.vertices, "co", np.float32, 3)
        a, b, c = points.astype(float)[corners].transpose(1, 0, 2)
        areas = np.cross(b - a, c - a)
        if not len(areas) or np.linalg.norm(areas.sum(axis=0)) > _SHEET_RATIO * np.linalg.norm(areas, axis=1).sum():
            continue
        volume = float(np.einsum("ti,ti->", (a + b + c) / 3.0 - points.mean(axis=0), areas))
        found.append(HairCollider(obj, -1.0 if volume < 0.0 else 1.0))
    return found


def guide_object(hair: bpy.types.Object) -> bpy.types.Object | None:
    """Return the wire mesh object that hair follows; None where it follows none."""
    modifier = hair_modifier(hair)
    infos = [node for node in modifier.node_group.nodes if node.type == "OBJECT_INFO"] if modifier is not None else []
    # The first one; colliders come later.
    return infos[0].inputs["Object"].default_value if infos else None


def hair_modifier(hair: bpy.types.Object) -> Any:
    """Return the modifier that lets hair follow guides: its node group has a mark, or reads DampSim's attributes."""
    found = [m for m in hair.modifiers if m.type == "NODES" and m.node_group is not None]
    return next((m for m in found if m.node_group.get(_TREE_TAG) or _REST in _read_names(m.node_group)), None)


def _read_names(tree: Any) -> list[str]:
    """Return the names of the attributes that a tree reads."""
    nodes = [node for node in tree.nodes if node.bl_idname == "GeometryNodeInputNamedAttribute"]
    return [node.inputs["Name"].default_value for node in nodes]


def _write_attribute(data: Any, name: str, kind: str, field: str, values: Array) -> str:
    """Write an attribute, replacing an earlier one of DampSim, and return its name.

    Blender appends a number where the user has an attribute of this name.
    """
    recorded = recorded_names(data, _ATTRIBUTES_TAG)
    if name in recorded and name in data.attributes:
        data.attributes.remove(data.attributes[name])
    attribute = data.attributes.new(name, kind, "POINT")
    found = str(attribute.name)
    attribute.data.foreach_set(field, np.ascontiguousarray(values).ravel())
    data[_ATTRIBUTES_TAG] = "\n".join(dict.fromkeys([*recorded, found]))
    return found
