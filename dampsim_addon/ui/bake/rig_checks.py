"""Bake checks of rigs: motions that bones cannot follow, which a bake to bones would find only while it is written; and
generated rigs whose object is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import bpy
import numpy as np

from ....core import Array
from ...blender.animation import all_strips, user_fcurves
from ...blender.bone_bakes import rig_of
from ...model.groups import format_names
from ...model.object_index import ObjectIndex
from ...targets import CompressedKeys, ExistingBones
from ...targets.bone_rig import is_generated_rig, orphaned_rigs, remove_orphaned_rigs
from ...targets.existing_bones import chosen_bones
from ..common.issue import Issue, target_issue

_TRANSFORM_PATHS = ("location", "rotation", "scale", "delta_")
# Largest change of a value that counts as none.
_STILL = 1e-6
# Largest difference between the scales of the axes of a bone, relative to the largest, that counts as even.
_MAX_UNEVENNESS = 1e-3


def separate_motion(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report keyframes that move an object relative to the rig to which it will be baked, or the rig alone."""
    rig = rig_of(obj)
    if rig is None or not obj.dampsim.bakes_to_bones:
        return None
    chain, other = list(_with_parents(obj)), list(_with_parents(rig))
    separate = [one for one in [*chain, *other] if (one in chain) != (one in other)]
    if any(not constraint.mute for one in separate for constraint in one.constraints):
        # A constraint may let both move together.
        return None
    moved = next((one for one in separate if _moves(one, scene)), None)
    if moved is None:
        return None
    return _keys_instead(
        f"The keyframes of {moved.name} move it relative to its rig {rig.name}, which bones cannot follow. Parent it "
        "to the rig and move only that one"
    )


def uneven_bones(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report bones above a baked chain that are scaled unevenly."""
    rig = rig_of(obj)
    if rig is None or obj.dampsim.target != ExistingBones.name or all_strips(rig.animation_data):
        return None
    chosen = chosen_bones(obj)
    names = {bone.name for bone in chosen}
    uppers = {upper.name: upper for bone in chosen for upper in _scaling_bones(bone) if upper.name not in names}
    for upper in uppers.values():
        scales = _scales(rig, upper, scene)
        uneven = np.ptp(scales, axis=1) > _MAX_UNEVENNESS * np.abs(scales).max(axis=1)
        if uneven.any():
            return _keys_instead(
                f"The bone {upper.name} is scaled unevenly at frame {scene.frame_start + int(uneven.argmax())}, and "
                "bones below it would shear. Scale it evenly"
            )
    return None


class GeneratedRigIndex(ObjectIndex):
    """Index of the generated rigs."""

    is_match = staticmethod(is_generated_rig)


def lost_rigs(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report generated rigs of objects that were joined or deleted."""
    found = orphaned_rigs(scene, GeneratedRigIndex.current().objects())
    if not found:
        return None
    return Issue(
        f"{format_names(found)} {'plays' if len(found) == 1 else 'play'} the bake of an object that was joined or "
        "deleted", "Remove Its Bake",
        lambda o, s: remove_orphaned_rigs(s, GeneratedRigIndex.current().objects()),
        "Remove the generated rig, its animation and its vertex groups in joined meshes",
    )  # fmt: skip


def _keys_instead(text: str) -> Issue:
    return target_issue(CompressedKeys, f"{text}, or bake to {CompressedKeys.label}")


def _with_parents(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    """Iterate over an object, its parent, the parent of that, and so on."""
    one: bpy.types.Object | None = obj
    while one is not None:
        yield one
        one = one.parent


def _frames(scene: bpy.types.Scene) -> Iterable[int]:
    return range(scene.frame_start, scene.frame_end + 1)


def _moves(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether keyframes move the object during the shot. Those in NLA strips are unknown."""
    if all_strips(obj.animation_data):
        return False
    return any(
        curve.data_path.startswith(_TRANSFORM_PATHS)
        and not curve.mute
        and np.ptp([curve.evaluate(frame) for frame in _frames(scene)]) > _STILL
        for curve in user_fcurves(obj)
    )


def _scaling_bones(bone: bpy.types.PoseBone) -> Iterator[bpy.types.PoseBone]:
    """Iterate over the bones above one whose scale reaches the first of them."""
    upper = bone.parent
    while upper is not None:
        yield upper
        upper = upper.parent if upper.bone.inherit_scale == "FULL" else None


def _scales(rig: bpy.types.Object, bone: bpy.types.PoseBone, scene: bpy.types.Scene) -> Array:
    """Return the scale (f, 3) of a bone at each frame of the shot, from its keyframes or else as it is."""
    found = np.tile(np.array(bone.scale, dtype=float), (len(list(_frames(scene))), 1))
    path = f"{bone.path_from_id()}.scale"
    for curve in user_fcurves(rig):
        if curve.data_path == path and not curve.mute:
            found[:, curve.array_index] = [curve.evaluate(frame) for frame in _frames(scene)]
    return found
