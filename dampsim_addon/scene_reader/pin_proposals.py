"""Proposed pin weights: from the bones that move an object, and as gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import bpy
import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree

from ...core import Array
from ...core.base.wording import format_count
from ...core.geometry.mesh.rigid_motion import transform_points
from ...core.geometry.mesh.triangles import nearest_source
from ..blender.sampler import mesh_positions
from ..blender.vertex_groups import read_weights
from .bone_chains import (
    BoneInfluence,
    bone_influences,
    influence_names,
    keyed_influences,
    parent_influence,
    secondary_influences,
    selected_idle_bones,
    selected_influences,
)
from .scene_builder import mesh_edges

# Quantiles of the vertices' distances to the bones: below the first, vertices are pinned; above the second, free.
_PINNED_QUANTILE, _FREE_QUANTILE = 0.15, 0.5
# The same where several bones move a character, whose limbs have to stay on their bones.
_LIMB_PINNED_QUANTILE, _LIMB_FREE_QUANTILE = 0.35, 0.75
# Spread of distances, relative to the largest one, below which a bone runs through the middle of the object.
_CENTRED_SPREAD = 0.35
# Share of the first bone of a chain in a vertex's weights above which the vertex is pinned, and below which it is free.
_PINNED_SHARE, _FREE_SHARE = 0.9, 0.1
# Spread of a bone's weights below which they do not show which part it holds.
_UNIFORM_SPREAD = 0.2
# Differences of distances, relative to the largest one, that are rounding errors.
_DISTANCE_ROUNDING = 1e-4
# Weight above which a pin lets a vertex move too little to be seen.
_MAX_LOOSE_WEIGHT = 0.5
# Weight of pins that keep the keyed pose of free bones.
WEAK_PIN_WEIGHT = 0.2
# Messages list at most this many bones by name.
_MAX_NAMES = 4


@dataclass(frozen=True)
class PinProposal:
    """Pin weights proposed from bones.

    weights: (v,).  free_bones: bones whose vertices become free; empty if all are pinned near their bones.
    keyed_bones: those of them with keys of their own, which weak pins keep near their poses.
    idle_bones: selected bones that move no vertex.  is_edited: whether a part was freed after the proposal.
    """

    weights: Array
    free_bones: tuple[str, ...] = ()
    keyed_bones: tuple[str, ...] = ()
    idle_bones: tuple[str, ...] = ()
    is_edited: bool = False

    @property
    def lets_move(self) -> bool:
        """Return whether the pins let at least one vertex move visibly."""
        return _lets_move(self.weights)

    @property
    def text(self) -> str:
        """Description of the proposal in a few words."""
        text = f"frees {format_bones(self.free_bones)}" if self.free_bones else "pins near its bones"
        if self.keyed_bones:
            pronoun = "its pose" if len(self.keyed_bones) == 1 else "their poses"
            text += f"; weak pins keep {pronoun}, because of keys on {format_bones(self.keyed_bones)}"
        if self.idle_bones:
            verb = "moves" if len(self.idle_bones) == 1 else "move"
            text += f"; {format_bones(self.idle_bones)} {verb} none of its vertices"
        return f"{text}; more vertices were freed" if self.is_edited else text


def format_bones(names: Sequence[str]) -> str:
    """Return the names of bones for messages; long lists are abbreviated."""
    if len(names) <= _MAX_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: _MAX_NAMES - 1])} and {format_count(len(names) - _MAX_NAMES + 1, 'other bone')}"


def propose_pins(obj: bpy.types.Object, use_selection: bool = True) -> PinProposal | None:
    """Return pins from the bones that move an object; None where no bone does.

    use_selection: free the bones that are selected in Pose Mode, if some are. Otherwise bones named like ears or tails
    become free in a branching rig, and all but the first bones of chains elsewhere. Pins that hold every vertex are
    returned if nothing else can be proposed: see PinProposal.lets_move.
    """
    proposal = _propose(obj, use_selection)
    skinned = [pull for pull in bone_influences(obj) if pull.is_skinned]
    if proposal is None or not use_selection or not skinned:
        return proposal
    return replace(proposal, idle_bones=tuple(selected_idle_bones(_with_weights(obj, skinned)[0])))


def _propose(obj: bpy.types.Object, use_selection: bool) -> PinProposal | None:
    found = bone_influences(obj)
    if not found or not len(obj.data.vertices):
        return None
    vertices = modelled_world_vertices(obj)
    if found[0].is_skinned:
        found, painted = _with_weights(obj, found)
        if not found:
            return None
        painted = _like_neighbours(obj, vertices, painted)
        free = selected_influences(found) if use_selection else []
        free = free or _automatic_free_bones(found, painted)
        if free:
            return _free_proposal(found, painted, free)
        if len(found) == 1 and np.ptp(painted[0]) > _UNIFORM_SPREAD:
            held = PinProposal(_smoothstep(painted[0], _FREE_SHARE, _PINNED_SHARE))
            if held.lets_move:
                return held
    return PinProposal(_pins_by_distance(found, vertices))


def _with_weights(obj: bpy.types.Object, found: list[BoneInfluence]) -> tuple[list[BoneInfluence], Array]:
    """Return the bones that have weights, and these weights (b, v)."""
    painted = np.array(read_weights(obj, [pull.name for pull in found]))
    used = [k for k in range(len(found)) if painted[k].max(initial=0.0) > 0.0]
    return [found[k] for k in used], painted[used]


def _pins_by_distance(found: list[BoneInfluence], vertices: Array) -> Array:
    """Return pin weights (v,) that fade with the distance from the bones; all 1 if every distance is the same."""
    distance = np.min([_segment_distance(vertices, pull.ends()) for pull in found], axis=0)
    if len(found) > 1:
        return _quantile_weights(distance, _LIMB_PINNED_QUANTILE, _LIMB_FREE_QUANTILE)
    around = _quantile_weights(distance, _PINNED_QUANTILE, _FREE_QUANTILE)
    # If the bone runs through the middle, pin the half at its head.
    along = _quantile_weights(_line_parameter(vertices, found[0].ends()), _PINNED_QUANTILE, _FREE_QUANTILE)
    is_centred = np.ptp(distance) < _CENTRED_SPREAD * distance.max()
    first, second = (along, around) if is_centred else (around, along)
    return first if _lets_move(first) else second


def _like_neighbours(obj: bpy.types.Object, vertices: Array, painted: Array) -> Array:
    """Return bone weights (b, v) in which vertices without any have those of the nearest ones along edges."""
    has_weight = painted.sum(axis=0) > 0.0
    if has_weight.all():
        return painted
    return np.take(painted, nearest_source(vertices, mesh_edges(obj.data), has_weight), axis=1)


def _automatic_free_bones(found: list[BoneInfluence], painted: Array) -> list[BoneInfluence]:
    """Return the bones that become free; none where only distances show which part is held."""
    keys = {pull.key for pull in found}
    parents = [parent_influence(pull, keys) for pull in found]
    children = [one for one in parents if one is not None]
    if len(children) != len(set(children)):
        # Branching bones belong to a character, not to a tail or two ears.
        free = secondary_influences(found)
        is_held = len(free) < len(found)
    else:
        free = [pull for pull, parent in zip(found, parents, strict=True) if parent is not None]
        is_held = bool(_held_weights(found, painted, free).max() >= 1.0)
    return free if is_held and _lets_move(_held_weights(found, painted, free)) else []


def _lets_move(weights: Array) -> bool:
    return bool(weights.min(initial=1.0) <= _MAX_LOOSE_WEIGHT)


def _held_weights(found: list[BoneInfluence], painted: Array, free: list[BoneInfluence]) -> Array:
    """Return pin weights (v,): 1 where no free bone moves a vertex, 0 where mostly free ones do."""
    held = set(influence_names(found)) - set(influence_names(free))
    return _smoothstep(_weight_share(found, painted, held), _FREE_SHARE, _PINNED_SHARE)


def _weight_share(found: list[BoneInfluence], painted: Array, names: Collection[str]) -> Array:
    """Return the share (v,) of the bones with these names in the weights (b, v) of all that were found.

    Bones of two rigs with the same name have one vertex group, which counts once.
    """
    all_names = [pull.name for pull in found]
    is_first = np.array([all_names.index(name) == k for k, name in enumerate(all_names)], dtype=bool)
    is_counted = is_first & np.array([name in names for name in all_names], dtype=bool)
    return np.asarray(painted[is_counted].sum(axis=0) / np.maximum(painted[is_first].sum(axis=0), 1e-6))


def _free_proposal(found: list[BoneInfluence], painted: Array, free: list[BoneInfluence]) -> PinProposal:
    weights = _held_weights(found, painted, free)
    keyed = keyed_influences(free, found)
    if keyed:
        # Vertices of keyed bones would lose the keyed pose.
        weights = np.maximum(weights, WEAK_PIN_WEIGHT * _weight_share(found, painted, influence_names(keyed)))
    return PinProposal(weights, tuple(influence_names(free)), tuple(influence_names(keyed)))


def freed_weights(obj: bpy.types.Object, weights: Array) -> Array | None:
    """Return pin weights (v,) lowered where the selected bones move an object; None where none of these does."""
    found = [pull for pull in bone_influences(obj) if pull.is_skinned]
    free = selected_influences(found)
    if not free:
        return None
    painted = np.array(read_weights(obj, [pull.name for pull in found]))
    painted = _like_neighbours(obj, modelled_world_vertices(obj), painted) if painted.any() else painted
    return np.minimum(weights, _held_weights(found, painted, free))


def parent_distances(obj: bpy.types.Object, vertices: Array, view_layer: bpy.types.ViewLayer) -> Array | None:
    """Return the distances (v,) of vertices (v, 3) in world space from an object's parent; None without one.

    A parent that is no mesh counts as its bones that move the object, or as its origin.
    """
    bones = bone_influences(obj)
    if bones and (obj.parent is None or obj.parent.type == "ARMATURE"):
        return np.asarray(np.min([_segment_distance(vertices, pull.ends()) for pull in bones], axis=0))
    if obj.parent is None:
        return None
    evaluated = obj.parent.evaluated_get(view_layer.depsgraph)
    matrix = np.array(evaluated.matrix_world)
    if obj.parent.type != "MESH" or not len(evaluated.data.polygons):
        return np.asarray(np.linalg.norm(vertices - matrix[:3, 3], axis=1))
    faces = [list(face.vertices) for face in evaluated.data.polygons]
    places = transform_points(matrix, mesh_positions(evaluated.data).astype(float))
    tree = BVHTree.FromPolygons(places.tolist(), faces)
    return np.array([tree.find_nearest(Vector(vertex))[3] for vertex in vertices.tolist()], dtype=float)


def radial_weights(vertices: Array, point: Array, inner_radius: float, outer_radius: float) -> Array:
    """Return weights (v,): 1 within inner_radius of a point (3,), 0 beyond outer_radius."""
    return _smoothstep(-np.linalg.norm(vertices - point, axis=1), -outer_radius, -inner_radius)


def linear_weights(vertices: Array, ends: Array, pinned: float, free: float) -> Array:
    """Return weights (v,) along a line (2, 3): 1 up to the fraction pinned of its length, 0 beyond free."""
    return _smoothstep(-_line_parameter(vertices, ends), -free, -pinned)


def modelled_world_vertices(obj: bpy.types.Object) -> Array:
    """Return the vertices (v, 3) in world space without modifiers; in Edit Mode as edited."""
    obj.update_from_editmode()
    return transform_points(np.array(obj.matrix_world), mesh_positions(obj.data).astype(float))


def _quantile_weights(distance: Array, pinned: float, free: float) -> Array:
    near, far = np.quantile(distance, [pinned, free])
    # Where many distances are equal, rounding errors must not decide which of them are pinned.
    rounding = _DISTANCE_ROUNDING * max(float(np.abs(distance).max()), 1e-9)
    return _smoothstep(-distance, -max(far, near + rounding), -near)


def _smoothstep(values: Array, low: float, high: float) -> Array:
    """Return a smoothstep from 0 at the low value to 1 at the high one."""
    part = np.clip((values - low) / max(high - low, 1e-12), 0.0, 1.0)
    return np.asarray(part * part * (3.0 - 2.0 * part))


def _line_parameter(vertices: Array, ends: Array) -> Array:
    """Return the projection of vertices on a line (2, 3), relative to its length."""
    direction = ends[1] - ends[0]
    return np.asarray((vertices - ends[0]) @ direction / max(float(direction @ direction), 1e-12))


def _segment_distance(vertices: Array, ends: Array) -> Array:
    """Return the distances (v,) to a line segment (2, 3)."""
    part = np.clip(_line_parameter(vertices, ends), 0.0, 1.0)
    return np.asarray(np.linalg.norm(vertices - ends[0] - part[:, None] * (ends[1] - ends[0]), axis=1))
