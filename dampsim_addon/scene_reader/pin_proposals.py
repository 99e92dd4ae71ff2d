"""Proposed pin weights: from the bones that move an object, and as gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy
import numpy as np

from ...core import Array
from ...core.geometry.mesh.affine import transform_points
from ..blender.sampler import mesh_positions
from ..blender.vertex_groups import read_weights

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


@dataclass(frozen=True)
class BoneInfluence:
    """Bone that moves an object. rig: its armature.  is_skinned: whether through weights, otherwise as a whole."""

    rig: bpy.types.Object
    name: str
    is_skinned: bool

    def ends(self) -> Array:
        """Return head and tail (2, 3) in world space; of a skinned mesh in the rest pose."""
        bone = self.rig.data.bones[self.name] if self.is_skinned else self.rig.pose.bones[self.name]
        bone_ends = (bone.head_local, bone.tail_local) if self.is_skinned else (bone.head, bone.tail)
        return transform_points(np.array(self.rig.matrix_world), np.array([list(end) for end in bone_ends]))


def bone_influences(obj: bpy.types.Object) -> list[BoneInfluence]:
    """Return the bones that move an object: through weights if there are any, otherwise as parent or by constraints."""
    return list(_skin_influences(obj)) or list(_rigid_influences(obj))


def _skin_influences(obj: bpy.types.Object) -> Iterator[BoneInfluence]:
    rigs = [m.object for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.use_vertex_groups]
    if obj.parent_type == "ARMATURE":
        rigs.append(obj.parent)
    for rig in dict.fromkeys(rig for rig in rigs if rig is not None and rig.type == "ARMATURE"):
        for bone in rig.data.bones:
            if bone.use_deform and bone.name in obj.vertex_groups:
                yield BoneInfluence(rig, bone.name, True)


def _rigid_influences(obj: bpy.types.Object) -> Iterator[BoneInfluence]:
    if obj.parent_type == "BONE" and obj.parent is not None and obj.parent_bone in obj.parent.pose.bones:
        yield BoneInfluence(obj.parent, obj.parent_bone, False)
    for constraint in obj.constraints:
        if constraint.type not in ("CHILD_OF", "COPY_TRANSFORMS", "COPY_LOCATION") or constraint.mute:
            continue
        rig = constraint.target
        if rig is not None and rig.type == "ARMATURE" and constraint.subtarget in rig.pose.bones:
            yield BoneInfluence(rig, constraint.subtarget, False)


def weights_from_bones(obj: bpy.types.Object) -> Array | None:
    """Return pin weights (v,) that are high near the bones that move an object; None where no bone does."""
    found = bone_influences(obj)
    count = len(obj.data.vertices)
    if not found or not count:
        return None
    vertices = modelled_world_vertices(obj)
    if found[0].is_skinned:
        painted = np.array(read_weights(obj, [pull.name for pull in found]))
        used = [k for k in range(len(found)) if painted[k].max(initial=0.0) > 0.0]
        found, painted = [found[k] for k in used], painted[used]
        if not found:
            return None
        if (proposed := _weights_from_skin(found, painted)) is not None:
            return proposed
    distance = np.min([_segment_distance(vertices, pull.ends()) for pull in found], axis=0)
    if len(found) > 1:
        return _quantile_weights(distance, _LIMB_PINNED_QUANTILE, _LIMB_FREE_QUANTILE)
    if np.ptp(distance) < _CENTRED_SPREAD * distance.max():
        # The bone runs through the middle: pin the half at its head.
        distance = _line_parameter(vertices, found[0].ends())
    return _quantile_weights(distance, _PINNED_QUANTILE, _FREE_QUANTILE)


def _weights_from_skin(found: list[BoneInfluence], painted: Array) -> Array | None:
    """Return pin weights (v,) from skin weights; None where only distances show which part is held."""
    total = painted.sum(axis=0)
    if len(found) == 1:
        return _smoothstep(painted[0], _FREE_SHARE, _PINNED_SHARE) if np.ptp(painted[0]) > _UNIFORM_SPREAD else None
    names = {(pull.rig.name, pull.name) for pull in found}
    parents = [_parent_influence(pull, names) for pull in found]
    if len([one for one in parents if one is not None]) != len({one for one in parents if one is not None}):
        # Branching bones belong to a character, not to a tail or two ears.
        return None
    is_root = np.array([one is None for one in parents])
    if is_root.all():
        return None
    root_share = painted[is_root].sum(axis=0) / np.maximum(total, 1e-6)
    proposed = _smoothstep(np.where(total > 0.0, root_share, 1.0), _FREE_SHARE, _PINNED_SHARE)
    return proposed if proposed.max() >= 1.0 and proposed.min() < 1.0 else None


def _parent_influence(influence: BoneInfluence, names: set[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the nearest ancestor of a bone that also moves the object."""
    for bone in influence.rig.data.bones[influence.name].parent_recursive:
        if (influence.rig.name, bone.name) in names:
            return influence.rig.name, bone.name
    return None


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
    return _smoothstep(-distance, -max(far, near + 1e-9), -near)


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
