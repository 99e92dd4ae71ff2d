"""Existing bones of the rig, such as the chain of a tail, keyed at every frame; the weights stay."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from ...core import Array, Index, SceneError
from ...core.base.wording import format_count, format_percent
from ...core.frames.chain_fit import BoneChain, ChainChannels, ChainFit, fit_chain
from ..blender.animation import channelbags, slot_bags
from ..blender.bone_bakes import (
    BoneRecord,
    keep_pose,
    pose_mark,
    read_record,
    record_mark,
    restore_poses,
    rig_of,
    write_record,
)
from ..blender.dampsim_names import bake_mark, is_tagged_action
from ..blender.sampler import Sampler
from .bake_tracks import Curve, remove_bake_animation, write_tracks
from .bone_rig import remove_bones
from .bones import (
    BONE_KEYFRAME_BYTES,
    Bones,
    RecordedMotion,
    carrying_bones,
    check_skin,
    missed_remark,
    own_mark,
    run_fit,
)
from .target import ClashingKeysError, Cost, Shot

# Largest difference between the scales of the axes of a bone above, relative to the largest, and cosine between them.
_MAX_UNEVENNESS = 1e-3
# Fraction of the motion that remains, above which the message says that bones do not suit it.
_UNSUITABLE = 0.3
_NEW = "choose Bones under Bake To"


@dataclass(frozen=True)
class RecordedChain:
    """Motion of an object and animated poses of the chosen bones, parents first.

    names: of the bones.  parents: (c,) index of the nearest chosen bone above; -1 for none.
    poses, above: (f, c, 4, 4), of the bones and of the bones directly above them, in the rig's space.
    """

    recorded: RecordedMotion
    names: list[str]
    parents: Index
    poses: Array
    above: Array


@dataclass(frozen=True)
class FittedChain:
    """Fitted poses of a chain. error: m, in world space."""

    recorded: RecordedChain
    fit: ChainFit

    @property
    def error(self) -> float:
        return self.fit.error * self.recorded.recorded.scale

    def is_final(self, shot: Shot) -> bool:
        """Return whether a smaller bound would not change the fit."""
        return True


class ExistingBones(Bones):
    name = "EXISTING_BONES"
    number = 7
    label = "Existing Bones"
    description = (
        "Animate chosen bones of the rig so that they follow the simulated mesh, and keep its weights. For chains such "
        "as tails and ears; flesh needs new bones"
    )

    def check(self, obj: bpy.types.Object) -> None:
        check_skin(obj)
        rig = rig_of(obj)
        bones = chosen_bones(obj)
        if not bones:
            raise SceneError(
                f"{obj.name}: no bones are chosen; select the bones of a chain in Pose Mode and press Use Selected "
                f"Bones, or {_NEW}."
            )
        for bone in bones:
            _check_bone(obj, rig, bone)
        _check_followers(obj, rig, bones)
        _check_readers(obj, rig, bones)
        keyed = _clashing_bones(obj)
        if keyed:
            raise ClashingKeysError(
                f"{obj.name}: the bone {keyed[0]} is keyed in the action {rig.animation_data.action.name}, which wins "
                "over the bake; push it down to the NLA."
            )

    def check_poses(self, sampler: Sampler, number: int) -> None:
        super().check_poses(sampler, number)
        obj = sampler.obj
        pose = rig_of(obj).evaluated_get(sampler.view_layer.depsgraph).pose.bones
        for upper in dict.fromkeys(bone.parent.name for bone in chosen_bones(obj) if bone.parent is not None):
            if _is_uneven(np.array(pose[upper].matrix)):
                raise SceneError(
                    f"{obj.name}: the bone {upper} is scaled unevenly at frame {number}, and bones below it would "
                    "shear; scale it evenly, or bake to Compressed Keys."
                )

    def collect(self, shot: Shot) -> Generator[int, None, RecordedChain]:
        obj = shot.sampler.obj
        rig, bones = rig_of(obj), chosen_bones(obj)
        names = [bone.name for bone in bones]
        uppers = [bone.parent.name if bone.parent is not None else "" for bone in bones]
        poses = np.tile(np.eye(4), (len(shot.numbers), len(bones), 1, 1))
        above = poses.copy()
        steps = super().collect(shot)
        while True:
            try:
                done = next(steps)
            except StopIteration as stop:
                recorded: RecordedMotion = stop.value
                break
            pose = rig.evaluated_get(shot.sampler.view_layer.depsgraph).pose.bones
            for k, (name, upper) in enumerate(zip(names, uppers, strict=True)):
                poses[done - 1, k] = np.array(pose[name].matrix)
                if upper:
                    above[done - 1, k] = np.array(pose[upper].matrix)
            yield done
        parents = np.array([_nearest(rig.data.bones[name].parent_recursive, names) for name in names], dtype=int)
        return RecordedChain(recorded, names, parents, poses, above)

    def compress(self, shot: Shot, collected: RecordedChain) -> Generator[None, None, FittedChain]:
        motion, bones = collected.recorded.motion, rig_of(shot.sampler.obj).data.bones
        carriers = [_nearest(_upwards(bones[name]), collected.names) for name in collected.recorded.bones]
        chain = BoneChain(collected.poses, collected.parents, np.array(carriers, dtype=int))
        fit = yield from run_fit(lambda report: fit_chain(motion, chain, shot.channels, report))
        return FittedChain(collected, fit)

    def write(self, shot: Shot, compressed: FittedChain) -> Cost:
        obj, chain, fit = shot.sampler.obj, compressed.recorded, compressed.fit
        rig, previous = rig_of(obj), read_record(obj.data)
        mark = own_mark(obj, rig, previous)
        remove_bones(obj, for_rebake=True)
        bones = [rig.pose.bones[name] for name in chain.names]
        for stale in {pose_mark(bone) for bone in bones} - {""}:
            # The object of this bake was deleted. check() refuses bones of an existing one.
            restore_poses(rig, stale)
            remove_bake_animation(rig, stale)
        user_bags = [bag for bag in channelbags(rig) if not is_tagged_action(bag.id_data)]
        keyed = {curve.data_path for bag in user_bags for curve in bag.fcurves}
        curves: dict[Curve, list[tuple[float, float]]] = {}
        base: dict[Curve, float] = {}
        for k, bone in enumerate(bones):
            found = _channels(bone, chain, k, fit.moves, shot.channels)
            unkeyed = [name for name in found if bone.path_from_id(name) not in keyed]
            for name, values in found.items():
                path = bone.path_from_id(name)
                for place, column in enumerate(values.T):
                    curves[path, place] = [(n, column[i % len(values)]) for i, n in enumerate(shot.key_numbers)]
            base |= {(bone.path_from_id(name), i): v for name in unkeyed for i, v in enumerate(getattr(bone, name))}
            keep_pose(bone, mark, unkeyed)
        write_record(obj.data, BoneRecord(mark, {}, len(obj.data.vertices), [], [], []))
        write_tracks(rig, obj.name, curves, shot.cycle_end is not None, mark, base)
        shot.sampler.unmute_poses()
        size = BONE_KEYFRAME_BYTES * len(curves) * len(shot.key_numbers)
        missing = fit.error / fit.animated_error if fit.animated_error > 0.0 else 0.0
        return Cost(
            0, size, bones=len(bones), is_over=compressed.error > shot.bound, worst=shot.numbers[fit.worst_frame],
            missing_part=missing, missed_frames=chain.recorded.count_missed(shot.bound),
        )  # fmt: skip

    def remark(self, shot: Shot, cost: Cost, error: float) -> str:
        said = f"{format_count(cost.bones, 'bone')} of the rig; worst at frame {cost.worst}"
        if cost.missed_frames:
            said += missed_remark(shot, cost)
        elif cost.missing_part > _UNSUITABLE:
            missing = format_percent(min(cost.missing_part, 1.0))
            said += f"; {missing} of the largest motion is missing. Existing bones suit chains, not flesh: {_NEW}"
        elif cost.is_over:
            more = "" if shot.channels is ChainChannels.SCALE else " add channels,"
            said += f"; the error is above Max Error:{more} choose more bones, or {_NEW}"
        return said


def chosen_bones(obj: bpy.types.Object) -> list[bpy.types.PoseBone]:
    """Return the bones of the chosen bone collection, parents first; none without one."""
    rig = rig_of(obj)
    collections = rig.data.collections_all if rig is not None and rig.type == "ARMATURE" else {}
    chosen = collections.get(obj.dampsim.chain_collection)
    names = [bone.name for bone in chosen.bones if not bake_mark(bone)] if chosen is not None else []
    found = [rig.pose.bones[name] for name in names if name in rig.pose.bones]
    return sorted(found, key=lambda bone: (len(bone.bone.parent_recursive), bone.name))


def _clashing_bones(obj: bpy.types.Object) -> list[str]:
    """Return the chosen bones that the active action of the rig keys in channels of the bake."""
    rig = rig_of(obj)
    data = rig.animation_data if rig is not None else None
    action = data.action if data is not None else None
    if action is None or is_tagged_action(action):
        return []
    paths = {curve.data_path for bag in slot_bags(data) for curve in bag.fcurves}
    channels = ChainChannels[obj.dampsim.chain_channels]
    return [bone.name for bone in chosen_bones(obj) if not paths.isdisjoint(_keyed_paths(bone, channels))]


def _keyed_paths(bone: bpy.types.PoseBone, channels: ChainChannels) -> list[str]:
    return [bone.path_from_id(name) for name in _property_names(bone, channels)]


def _property_names(bone: bpy.types.PoseBone, channels: ChainChannels) -> list[str]:
    """Return the properties of a bone that a bake keys."""
    rotation = "rotation_quaternion" if bone.rotation_mode == "QUATERNION" else "rotation_euler"
    return [rotation, *(["location"] if channels.value > 3 else []), *(["scale"] if channels.value > 6 else [])]


def _nearest(bones: Any, names: list[str]) -> int:
    """Return the index of the first of some bones that is among the names; -1 if none is."""
    return next((names.index(bone.name) for bone in bones if bone.name in names), -1)


def _upwards(bone: Any) -> list[Any]:
    """Return a bone and those above it, from the bottom up."""
    return [bone, *bone.parent_recursive]


def _is_uneven(matrix: Array) -> bool:
    """Return whether a matrix (4, 4) shears or scales its axes unequally."""
    axes = matrix[:3, :3]
    gram = axes.T @ axes
    return bool(np.abs(gram - np.eye(3) * np.trace(gram) / 3.0).max() > 2.0 * _MAX_UNEVENNESS * np.trace(gram) / 3.0)


def _channels(
    bone: bpy.types.PoseBone, chain: RecordedChain, k: int, moves: Array, channels: ChainChannels
) -> dict[str, Array]:
    """Return the values (f, n) of the keyed properties of a bone. moves: (f, c, 4, 4), see ChainFit."""
    rest, upper = bone.bone.matrix_local, bone.parent
    names = _property_names(bone, channels)
    rows: dict[str, list[Any]] = {name: [] for name in names}
    for frame, pose in enumerate(chain.poses[:, k]):
        options: dict[str, Matrix] = {}
        if upper is not None:
            place = chain.parents[k]
            above = chain.above[frame, k] if place < 0 else moves[frame, place] @ chain.above[frame, k]
            options = {"parent_matrix": Matrix(above.tolist()), "parent_matrix_local": upper.bone.matrix_local}
        posed = Matrix((moves[frame, k] @ pose).tolist())
        location, turn, scale = bone.bone.convert_local_to_pose(posed, rest, invert=True, **options).decompose()
        previous = rows[names[0]][-1:]
        if names[0] == "rotation_euler":
            turn = turn.to_euler(bone.rotation_mode, *previous)
        elif previous and previous[0].dot(turn) < 0.0:
            turn.negate()
        values = {names[0]: turn, "location": location, "scale": scale}
        for name in names:
            rows[name].append(values[name])
    return {name: np.array([list(value) for value in values]) for name, values in rows.items()}


def _check_bone(obj: bpy.types.Object, rig: Any, bone: bpy.types.PoseBone) -> None:
    name = f"{obj.name}: the bone {bone.name}"
    constraint = _active_constraint(bone)
    if constraint is not None:
        raise SceneError(f"{name} has {constraint.name}, which would change the bake; mute it, or choose other bones.")
    holder = next((one for one in rig.pose.bones if bone.name in _ik_chain(one)), None)
    if holder is not None:
        raise SceneError(
            f"{name} is in the IK chain of {holder.name}, which would change the bake; mute the IK, or choose other "
            "bones."
        )
    if obj.dampsim.chain_channels != ChainChannels.ROTATION.name and bone.bone.use_connect and bone.parent is not None:
        raise SceneError(f"{name} is connected to its parent and cannot move; disconnect it, or choose Rotation.")
    if bone.rotation_mode == "AXIS_ANGLE":
        raise SceneError(f"{name} uses Axis Angle, which does not turn evenly between keys; set another rotation mode.")
    drivers = rig.animation_data.drivers if rig.animation_data is not None else ()
    paths = _keyed_paths(bone, ChainChannels[obj.dampsim.chain_channels])
    if any(driver.data_path in paths for driver in drivers):
        raise SceneError(f"{name} has a driver, which wins over the bake; remove it, or choose other bones.")
    mark = pose_mark(bone)
    other = next((o for o in bpy.data.objects if o.data != obj.data and mark and record_mark(o.data) == mark), None)
    if other is not None:
        raise SceneError(f"{name} is moved by the bake of {other.name}; clear that one, or choose other bones.")


def _active_constraint(bone: bpy.types.PoseBone) -> bpy.types.Constraint | None:
    return next((one for one in bone.constraints if not one.mute), None)


def _ik_chain(bone: bpy.types.PoseBone) -> set[str]:
    """Return the names of the bones that constraints of a bone move with it."""
    found: set[str] = set()
    for constraint in bone.constraints:
        if constraint.type not in ("IK", "SPLINE_IK") or constraint.mute:
            continue
        chain = _upwards(bone) if constraint.type == "SPLINE_IK" or constraint.use_tail else bone.parent_recursive
        found |= {one.name for one in (chain[: constraint.chain_count] if constraint.chain_count else chain)}
    return found


def _check_readers(obj: bpy.types.Object, rig: Any, bones: list[bpy.types.PoseBone]) -> None:
    """Raise SceneError if drivers of the mesh or of its shape keys read bones that the bake moves.

    The bake would change the shape that it is fitted to.
    """
    names = {bone.name for bone in bones}
    moved = {one.name for one in rig.pose.bones if names & {up.name for up in _upwards(one)}}
    paths = {bone.path_from_id() for bone in rig.pose.bones if bone.name in moved}
    for block in filter(None, (obj.data.shape_keys, obj)):
        for curve in block.animation_data.drivers if block.animation_data is not None else ():
            read = next((t for v in curve.driver.variables for t in v.targets if _reads(v, t, rig, moved, paths)), None)
            if read is not None and not curve.mute:
                raise SceneError(
                    f"{obj.name}: the driver of {curve.data_path} reads a bone of the bake, which would change the "
                    "simulated shape; remove the driver, choose other bones, or bake to Compressed Keys."
                )


def _reads(variable: Any, target: Any, rig: Any, moved: set[str], paths: set[str]) -> bool:
    """Return whether a target of a driver variable depends on moved bones. paths: the data paths of those."""
    if target.id != rig:
        return False
    if variable.type == "SINGLE_PROP":
        return any(target.data_path.startswith(path) for path in paths)
    return target.bone_target in moved


def _check_followers(obj: bpy.types.Object, rig: Any, bones: list[bpy.types.PoseBone]) -> None:
    """Raise SceneError unless the carrying bones below the chosen ones follow them rigidly."""
    names = {bone.name for bone in bones}
    chains = [[bone.name for bone in _upwards(rig.data.bones[name])] for name in carrying_bones(obj)]
    moved = [chain for chain in chains if not names.isdisjoint(chain)]
    if not moved:
        raise SceneError(f"{obj.name}: the chosen bones carry none of its vertices; choose others, or {_NEW}.")
    between = [one for chain in moved for one in takewhile(lambda name: name not in names, chain)]
    for name in dict.fromkeys(between):
        bone = rig.pose.bones[name]
        constraint = _active_constraint(bone)
        if constraint is not None:
            raise SceneError(
                f"{obj.name}: the bone {name} is below the chosen ones, and its {constraint.name} would change the "
                "bake; mute it, or choose other bones."
            )
        changes_scale = obj.dampsim.chain_channels == ChainChannels.SCALE.name
        if not bone.bone.use_inherit_rotation or (changes_scale and bone.bone.inherit_scale == "NONE"):
            raise SceneError(f"{obj.name}: the bone {name} does not inherit the motion of those above; choose it too.")
