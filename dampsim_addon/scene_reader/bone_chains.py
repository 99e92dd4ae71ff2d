"""Bones that move an object, their chains, their keys, and those that usually have secondary motion."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import bpy
import numpy as np

from ...core import Array
from ...core.geometry.mesh.rigid_motion import transform_points
from ..blender.animation import channelbags, drivers_of
from ..blender.dampsim_names import is_rig_modifier
from ..blender.sampler import read_array

# Words in the names of bones that usually follow the others, in lower case.
_SECONDARY_WORDS = frozenset(
    """
    antenna antennae beard belly breast breasts cape cheek cloth dangle earlobe ear ears fat feather flap hair jiggle
    jowl mane ponytail ribbon scarf skirt strap tail tassel tentacle tongue trunk wattle whisker whiskers
    """.split()  # noqa: SIM905
)
_BONE_PATH = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')
# Smallest change of a value between keyframes that counts as a motion.
_MIN_CHANGE = 1e-5


@dataclass(frozen=True)
class BoneInfluence:
    """Bone that moves an object. rig: its armature.  is_skinned: whether through weights, otherwise as a whole."""

    rig: bpy.types.Object
    name: str
    is_skinned: bool

    @property
    def key(self) -> tuple[str, str]:
        """Names of the rig and the bone."""
        return str(self.rig.name), self.name

    def ends(self) -> Array:
        """Return head and tail (2, 3) in world space; of a skinned mesh in the rest pose."""
        bone = self.rig.data.bones[self.name] if self.is_skinned else self.rig.pose.bones[self.name]
        bone_ends = (bone.head_local, bone.tail_local) if self.is_skinned else (bone.head, bone.tail)
        return transform_points(np.array(self.rig.matrix_world), np.array([list(end) for end in bone_ends]))


def bone_influences(obj: bpy.types.Object) -> list[BoneInfluence]:
    """Return the bones that move an object: through weights if there are any, otherwise as parent or by constraints."""
    return list(_skin_influences(obj)) or list(_rigid_influences(obj))


def _skin_influences(obj: bpy.types.Object) -> Iterator[BoneInfluence]:
    armatures = [m for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.use_vertex_groups]
    rigs = [m.object for m in armatures if not is_rig_modifier(m)]
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


def parent_influence(influence: BoneInfluence, keys: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the key of the nearest ancestor of a bone that also moves the object. keys: of all that do."""
    for bone in influence.rig.data.bones[influence.name].parent_recursive:
        if (influence.rig.name, bone.name) in keys:
            return influence.rig.name, bone.name
    return None


def selected_influences(influences: Sequence[BoneInfluence]) -> list[BoneInfluence]:
    """Return those of some bones that are selected in Pose Mode, or were when it was left; none if all are."""
    found = [one for one in influences if is_selected(one.rig.pose.bones[one.name])]
    return found if len(found) < len(influences) else []


def is_selected(bone: bpy.types.PoseBone) -> bool:
    """Return whether a bone is selected in Pose Mode, or was when it was left."""
    # Blender 5.0 moved the selection from bones to pose bones.
    return bool(bone.select if hasattr(bone, "select") else bone.bone.select)


def secondary_influences(influences: Sequence[BoneInfluence]) -> list[BoneInfluence]:
    """Return the bones whose names say that they follow others, such as ears and tails, and the bones behind these."""
    named = {one.key for one in influences if _SECONDARY_WORDS & set(_words(one.name))}
    found = []
    for one in influences:
        ancestors = {(one.rig.name, bone.name) for bone in one.rig.data.bones[one.name].parent_recursive}
        if one.key in named or named & ancestors:
            found.append(one)
    return found


def _words(name: str) -> list[str]:
    """Return the words of a bone name in lower case: ear, l for EarL.001 and ear_L."""
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def keyed_influences(influences: Sequence[BoneInfluence]) -> list[BoneInfluence]:
    """Return the bones with keyframes that change, or with drivers, of their own."""
    keyed = {rig: _keyed_bones(rig) for rig in {one.rig for one in influences}}
    return [one for one in influences if one.name in keyed[one.rig]]


def _keyed_bones(rig: bpy.types.Object) -> set[str]:
    keyed = [curve for bag in channelbags(rig) for curve in bag.fcurves if not curve.mute and _changes(curve)]
    matches = [_BONE_PATH.match(curve.data_path) for curve in (*keyed, *drivers_of(rig))]
    return {bpy.utils.unescape_identifier(match[1]) for match in matches if match is not None}


def _changes(curve: bpy.types.FCurve) -> bool:
    values = read_array(curve.keyframe_points, "co", np.float64, 2)[:, 1]
    return len(values) > 0 and bool(np.ptp(values) > _MIN_CHANGE)
