"""Bones that move an object, their chains, their keys, and those that usually have secondary motion."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import Array
from ...core.geometry.mesh.rigid_motion import transform_points
from ..blender.animation import drivers_of, is_path_animated, slot_bags, strips_within
from ..blender.dampsim_names import is_rig_modifier
from ..blender.sampler import read_array

# Words in the names of bones that usually follow the others, in lower case.
_SECONDARY_WORDS = frozenset(
    """
    antenna antennae beard belly breast breasts cape cheek cloth dangle earlobe ear ears fat feather flap hair jiggle
    jowl mane ponytail ribbon scarf skirt strap tail tassel tentacle tongue trunk wattle whisker whiskers
    """.split()  # noqa: SIM905
)
# Words in the names of bones that no appendage carries.
_BODY_WORDS = frozenset(
    "arm calf chest clavicle foot forearm hand head hip hips leg neck pelvis shin shoulder spine thigh torso".split()  # noqa: SIM905
)
_BONE_PATH = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')
# Smallest change of a value between keyframes that counts as a motion.
_MIN_CHANGE = 1e-5
# Constraints that move a chain of bones towards a target.
_CHAIN_TYPES = ("IK", "SPLINE_IK")
# Constraints by which an object follows bones as a whole.
_RIGID_TYPES = ("ARMATURE", "CHILD_OF", "COPY_TRANSFORMS", "COPY_LOCATION")
# An object, or one of its bones; the name of the bone is "" for the object itself.
_Mover = tuple[bpy.types.Object, str]


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


def missing_weights_reason(obj: bpy.types.Object) -> str:
    """Return why no bone moves an object although it has a rig, with a fix; '' if it has none."""
    modifiers = _armature_modifiers(obj)
    if bone_influences(obj) or not (modifiers or obj.parent_type == "ARMATURE"):
        return ""
    if any(modifier.use_bone_envelopes for modifier in modifiers):
        return "Its bones move it by envelopes, not by weights. Parent it to the rig with envelope weights"
    return "None of its vertex groups belongs to a bone. Parent it to the rig with automatic weights"


def _armature_modifiers(obj: bpy.types.Object) -> list[Any]:
    """Return the Armature modifiers of an object with a rig, except for those of a bake."""
    return [
        modifier
        for modifier in obj.modifiers
        if modifier.type == "ARMATURE" and modifier.show_viewport and not is_rig_modifier(modifier) and modifier.object
    ]


def _skin_influences(obj: bpy.types.Object) -> Iterator[BoneInfluence]:
    rigs = [modifier.object for modifier in _armature_modifiers(obj) if modifier.use_vertex_groups]
    if obj.parent_type == "ARMATURE":
        rigs.append(obj.parent)
    # Panels call this at each redraw, and Blender searches vertex groups one by one.
    names = set(obj.vertex_groups.keys()) if rigs else set()
    for rig in dict.fromkeys(rig for rig in rigs if rig is not None and rig.type == "ARMATURE"):
        for bone in rig.data.bones:
            if bone.use_deform and bone.name in names:
                yield BoneInfluence(rig, bone.name, True)


def _rigid_influences(obj: bpy.types.Object) -> Iterator[BoneInfluence]:
    if obj.parent_type == "BONE" and obj.parent is not None and obj.parent_bone in obj.parent.pose.bones:
        yield BoneInfluence(obj.parent, obj.parent_bone, False)
    for constraint in obj.constraints:
        if constraint.type not in _RIGID_TYPES or not _acts(constraint):
            continue
        # An Armature constraint has a list of targets.
        for one in getattr(constraint, "targets", (constraint,)):
            rig = one.target
            if rig is not None and rig.type == "ARMATURE" and one.subtarget in rig.pose.bones:
                yield BoneInfluence(rig, one.subtarget, False)


def _acts(constraint: Any) -> bool:
    """Return whether a constraint may move anything: it is enabled, and its influence is or may become positive."""
    if constraint.mute:
        return False
    return constraint.influence > 0.0 or is_path_animated(constraint.id_data, f"{constraint.path_from_id()}.influence")


def parent_influence(influence: BoneInfluence, keys: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the key of the nearest ancestor of a bone that also moves the object. keys: of all that do."""
    for bone in influence.rig.data.bones[influence.name].parent_recursive:
        if (influence.rig.name, bone.name) in keys:
            return influence.rig.name, bone.name
    return None


def selected_influences(influences: Sequence[BoneInfluence]) -> list[BoneInfluence]:
    """Return those of some bones that are selected in Pose Mode, or were when it was left; none if all are.

    A selected control bone counts for the bones that copy it by constraints. Bones of two rigs with the same name move
    the same vertices, so both are returned.
    """
    selected = {
        one.name for one in influences if any(is_selected(rig.pose.bones[name]) for rig, name in _controls(one))
    }
    found = [one for one in influences if one.name in selected]
    return found if len(found) < len(influences) else []


def influence_names(influences: Iterable[BoneInfluence]) -> list[str]:
    """Return the names of bones, each once: two rigs may have bones with the same name, and one vertex group."""
    return list(dict.fromkeys(one.name for one in influences))


def selected_idle_bones(influences: Sequence[BoneInfluence]) -> list[str]:
    """Return the names of the selected bones of the same rigs that move no vertex, unless all are selected."""
    followed = {source for one in influences for source in _controls(one)}
    bones = [(rig, bone) for rig in {one.rig: None for one in influences} for bone in rig.pose.bones]
    chosen = [(rig, str(bone.name)) for rig, bone in bones if is_selected(bone)]
    return [name for rig, name in chosen if (rig, name) not in followed] if len(chosen) < len(bones) else []


def _controls(influence: BoneInfluence) -> set[_Mover]:
    """Return a bone and those that it copies by constraints, up to the first that is visible in Pose Mode."""
    found, queue = set[_Mover](), [(influence.rig, influence.name)]
    while queue:
        rig, name = queue.pop()
        if (rig, name) in found or not _is_bone(rig, name):
            continue
        found.add((rig, name))
        is_visible = not rig.data.bones[name].hide and _in_visible_collection(rig.data.bones[name])
        if len(found) == 1 or not is_visible:
            queue += _constraint_movers(rig.pose.bones[name].constraints, without_goals=True)
            # A hidden bone without constraints moves with its parent.
            parent = rig.pose.bones[name].parent
            if len(found) > 1 and parent is not None and not rig.pose.bones[name].constraints:
                queue.append((rig, str(parent.name)))
    return found


def _in_visible_collection(bone: bpy.types.Bone) -> bool:
    return not bone.collections or any(one.is_visible_effectively for one in bone.collections)


def _is_bone(obj: bpy.types.Object, name: str) -> bool:
    return obj.type == "ARMATURE" and name in obj.pose.bones


def is_selected(bone: bpy.types.PoseBone) -> bool:
    """Return whether a bone is selected in Pose Mode, or was when it was left."""
    # Blender 5.0 moved the selection from bones to pose bones.
    return bool(bone.select if hasattr(bone, "select") else bone.bone.select)


def secondary_influences(influences: Sequence[BoneInfluence]) -> list[BoneInfluence]:
    """Return the bones whose names say that they follow others, such as ears and tails, and the bones behind these.

    A bone that carries a head or limbs is none of them, whatever its name: "belly" and "trunk" can be parts of a spine.
    """
    ancestors = {one.key: _ancestors(one) for one in influences}
    words = {one.key: set(_words(one.name)) for one in influences}
    named = {key for key, found in words.items() if _SECONDARY_WORDS & found}
    body = [key for key, found in words.items() if _BODY_WORDS & found and key not in named]
    named -= {carrier for key in body for carrier in ancestors[key]}
    return [one for one in influences if one.key in named or named & ancestors[one.key]]


def _ancestors(influence: BoneInfluence) -> set[tuple[str, str]]:
    rig = influence.rig
    return {(str(rig.name), str(one.name)) for one in rig.data.bones[influence.name].parent_recursive}


def _words(name: str) -> list[str]:
    """Return the words of a bone name in lower case: ear, l for EarL.001 and ear_L."""
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def keyed_influences(
    free: Sequence[BoneInfluence], influences: Sequence[BoneInfluence] | None = None
) -> list[BoneInfluence]:
    """Return the free bones with keyframes that change, or with drivers, of their own.

    influences: all bones that move the object. Keys of control bones, IK targets and other objects count for the bones
    that follow them, unless held bones follow them too, as all bones follow a keyed root.
    """
    influences = free if influences is None else influences
    keys = {(one.rig, one.name) for one in influences}
    held = [(one.rig, one.name) for one in influences if one not in free]
    shared = _movers(held, frozenset())
    keyed: dict[bpy.types.Object, set[str]] = {}
    found = []
    for one in free:
        own = (one.rig, one.name)
        movers = {own, *(_movers([own], keys) - shared)}
        for obj, _ in movers:
            if obj not in keyed:
                keyed[obj] = _keyed_bones(obj)
        if any(name in keyed[obj] for obj, name in movers):
            found.append(one)
    return found


def _movers(starts: Sequence[_Mover], followed: Collection[_Mover]) -> set[_Mover]:
    """Return the bones and objects that move some bones, including those: parents, and targets of constraints.

    followed: bones whose motion their children share anyway, where parents end.
    """
    found, queue = set[_Mover](), list(starts)
    goals = {rig: _goals_of_chains(rig) for rig, _ in starts}
    while queue:
        one = queue.pop()
        if one in found:
            continue
        found.add(one)
        obj, name = one
        if _is_bone(obj, name):
            bone = obj.pose.bones[name]
            if obj not in goals:
                goals[obj] = _goals_of_chains(obj)
            queue += [*_constraint_movers(bone.constraints), *goals[obj].get(name, ())]
            parent = (obj, "" if bone.parent is None else str(bone.parent.name))
        else:
            queue += _constraint_movers(obj.constraints)
            queue += [(m.object, m.subtarget) for m in obj.modifiers if m.type == "HOOK" and m.object is not None]
            parent = (obj.parent, str(obj.parent_bone) if obj.parent_type == "BONE" else "")
        if parent[0] is not None and parent not in followed:
            queue.append(parent)
    return found


def _goals_of_chains(rig: bpy.types.Object) -> dict[str, list[_Mover]]:
    """Return the targets of IK by the names of the bones in its chains."""
    found: dict[str, list[_Mover]] = {}
    for bone in rig.pose.bones if rig.type == "ARMATURE" else ():
        for constraint in bone.constraints:
            if constraint.type in _CHAIN_TYPES:
                above = bone.parent_recursive
                # A count of 0 is the whole chain.
                for one in above[: constraint.chain_count - 1] if constraint.chain_count else above:
                    found.setdefault(str(one.name), []).extend(_constraint_movers([constraint]))
    return found


def _constraint_movers(constraints: Iterable[Any], without_goals: bool = False) -> Iterator[_Mover]:
    """Iterate over the targets of constraints that act. without_goals: leave out those of IK."""
    for constraint in constraints:
        if not _acts(constraint) or (without_goals and constraint.type in _CHAIN_TYPES):
            continue
        owners = [*getattr(constraint, "targets", ()), constraint]
        for owner in owners:
            for target, bone in (("target", "subtarget"), ("pole_target", "pole_subtarget")):
                if getattr(owner, target, None) is not None:
                    yield getattr(owner, target), str(getattr(owner, bone, ""))


def _keyed_bones(obj: bpy.types.Object) -> set[str]:
    """Return the names of the bones that keys or drivers move; "" stands for the object itself or its data."""
    blocks = [block for block in (obj, obj.data, getattr(obj.data, "shape_keys", None)) if block is not None]
    keyed = [curve for block in blocks for bag in _playing_bags(block) for curve in bag.fcurves]
    keyed = [curve for curve in keyed if not curve.mute and _changes(curve)]
    matches = [_BONE_PATH.match(curve.data_path) for curve in (*keyed, *drivers_of(obj))]
    return {"" if match is None else bpy.utils.unescape_identifier(match[1]) for match in matches}


def _playing_bags(block: bpy.types.ID) -> Iterator[bpy.types.ActionChannelbag]:
    """Iterate over the channelbags of the active action and of the NLA strips that are not muted."""
    data = block.animation_data
    if data is None:
        return
    yield from slot_bags(data)
    for track in data.nla_tracks if data.use_nla else ():
        for strip in strips_within(track, only_audible=True) if track.is_solo or not track.mute else ():
            yield from slot_bags(strip)


def _changes(curve: bpy.types.FCurve) -> bool:
    values = read_array(curve.keyframe_points, "co", np.float64, 2)[:, 1]
    return len(values) > 0 and bool(np.ptp(values) > _MIN_CHANGE)
