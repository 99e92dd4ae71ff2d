"""Proposed pin weights: from the bones that move an object, and as gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.geometry.affine import transformed
from ..blender.sampler import positions
from ..blender.vertex_groups import weights

# Quantiles of the vertices' distances to the bones: below the first, vertices are pinned; above the second, free.
_HELD, _FREE = 0.15, 0.5
# The same where several bones move a character, whose limbs have to stay on their bones.
_LIMBS, _FLESH = 0.35, 0.75
# Spread of distances, relative to the largest one, below which a bone runs through the middle of the object.
_MIDDLE = 0.35
# Share of the first bone of a chain in a vertex's weights above which the vertex is pinned, and below which it is free.
_STRONG, _WEAK = 0.9, 0.1
# Spread of a bone's weights below which they do not show which part it holds.
_ALIKE = 0.2


@dataclass(frozen=True)
class Pull:
    """Bone that moves an object. rig: its armature.  is_skinned: whether through weights, otherwise as a whole."""

    rig: bpy.types.Object
    name: str
    skinned: bool

    def ends(self) -> Array:
        """Return head and tail (2, 3) in world space; of a skinned mesh in the rest pose."""
        bone = self.rig.data.bones[self.name] if self.skinned else self.rig.pose.bones[self.name]
        both = (bone.head_local, bone.tail_local) if self.skinned else (bone.head, bone.tail)
        return transformed(np.array(self.rig.matrix_world), np.array([list(end) for end in both]))


def pulls(obj: bpy.types.Object) -> list[Pull]:
    """Return the bones that move an object: through weights if there are any, otherwise as parent or by constraints."""
    return list(_skinning(obj)) or list(_holding(obj))


def _skinning(obj: bpy.types.Object) -> Iterator[Pull]:
    rigs = [m.object for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.use_vertex_groups]
    if obj.parent_type == "ARMATURE":
        rigs.append(obj.parent)
    for rig in dict.fromkeys(rig for rig in rigs if rig is not None and rig.type == "ARMATURE"):
        for bone in rig.data.bones:
            if bone.use_deform and bone.name in obj.vertex_groups:
                yield Pull(rig, bone.name, True)


def _holding(obj: bpy.types.Object) -> Iterator[Pull]:
    if obj.parent_type == "BONE" and obj.parent is not None and obj.parent_bone in obj.parent.pose.bones:
        yield Pull(obj.parent, obj.parent_bone, False)
    for constraint in obj.constraints:
        if constraint.type not in ("CHILD_OF", "COPY_TRANSFORMS", "COPY_LOCATION") or constraint.mute:
            continue
        rig = constraint.target
        if rig is not None and rig.type == "ARMATURE" and constraint.subtarget in rig.pose.bones:
            yield Pull(rig, constraint.subtarget, False)


def from_bones(obj: bpy.types.Object) -> Array | None:
    """Return pin weights (v,) that are high near the bones that move an object; None where no bone does."""
    found = pulls(obj)
    count = len(obj.data.vertices)
    if not found or not count:
        return None
    vertices = vertices_in_world(obj)
    if found[0].skinned:
        painted = np.array(weights(obj, [pull.name for pull in found]))
        used = [k for k in range(len(found)) if painted[k].max(initial=0.0) > 0.0]
        found, painted = [found[k] for k in used], painted[used]
        if not found:
            return None
        if (proposed := _by_weights(found, painted)) is not None:
            return proposed
    distance = np.min([_distance(vertices, pull.ends()) for pull in found], axis=0)
    if len(found) > 1:
        return _faded(distance, _LIMBS, _FLESH)
    if np.ptp(distance) < _MIDDLE * distance.max():
        # The bone runs through the middle: pin the half at its head.
        distance = _along(vertices, found[0].ends())
    return _faded(distance, _HELD, _FREE)


def _by_weights(found: list[Pull], painted: Array) -> Array | None:
    """Return pin weights (v,) from skin weights; None where only distances show which part is held."""
    total = painted.sum(axis=0)
    if len(found) == 1:
        return _between(painted[0], _WEAK, _STRONG) if np.ptp(painted[0]) > _ALIKE else None
    names = {(pull.rig.name, pull.name) for pull in found}
    above = [_above(pull, names) for pull in found]
    if len([one for one in above if one is not None]) != len({one for one in above if one is not None}):
        # Branching bones belong to a character, not to a tail or two ears.
        return None
    first = np.array([one is None for one in above])
    if first.all():
        return None
    held = painted[first].sum(axis=0) / np.maximum(total, 1e-6)
    proposed = _between(np.where(total > 0.0, held, 1.0), _WEAK, _STRONG)
    return proposed if proposed.max() >= 1.0 and proposed.min() < 1.0 else None


def _above(pull: Pull, names: set[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the nearest ancestor of a bone that also moves the object."""
    for bone in pull.rig.data.bones[pull.name].parent_recursive:
        if (pull.rig.name, bone.name) in names:
            return pull.rig.name, bone.name
    return None


def near(vertices: Array, point: Array, held: float, free: float) -> Array:
    """Return weights (v,): 1 within inner_radius of a point (3,), 0 beyond outer_radius."""
    return _between(-np.linalg.norm(vertices - point, axis=1), -free, -held)


def along(vertices: Array, ends: Array, held: float, free: float) -> Array:
    """Return weights (v,) along a line (2, 3): 1 up to the fraction pinned of its length, 0 beyond free."""
    return _between(-_along(vertices, ends), -free, -held)


def vertices_in_world(obj: bpy.types.Object) -> Array:
    """Return the vertices (v, 3) in world space without modifiers; in Edit Mode as edited."""
    obj.update_from_editmode()
    return transformed(np.array(obj.matrix_world), positions(obj.data).astype(float))


def _faded(distance: Array, held: float, free: float) -> Array:
    near_by, far = np.quantile(distance, [held, free])
    return _between(-distance, -max(far, near_by + 1e-9), -near_by)


def _between(values: Array, low: float, high: float) -> Array:
    """Return a smoothstep from 0 at the low value to 1 at the high one."""
    part = np.clip((values - low) / max(high - low, 1e-12), 0.0, 1.0)
    return np.asarray(part * part * (3.0 - 2.0 * part))


def _along(vertices: Array, ends: Array) -> Array:
    """Return the projection of vertices on a line (2, 3), relative to its length."""
    way = ends[1] - ends[0]
    return np.asarray((vertices - ends[0]) @ way / max(float(way @ way), 1e-12))


def _distance(vertices: Array, ends: Array) -> Array:
    """Return the distances (v,) to a line segment (2, 3)."""
    part = np.clip(_along(vertices, ends), 0.0, 1.0)
    return np.asarray(np.linalg.norm(vertices - ends[0] - part[:, None] * (ends[1] - ends[0]), axis=1))
