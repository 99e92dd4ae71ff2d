"""New bones below those that carry the flesh, rigid and keyed at every frame, with changed weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from ...core import Array, Index, SceneError
from ...core.base.computation import ProgressCallback
from ...core.base.wording import format_count
from ...core.frames.bone_fit import KeptEdges, fit_bones
from ...core.frames.key_reduction import bone_centres, continuous_quaternions, keyframe_indices
from ...core.frames.skinning import BoneFit, SkinnedMotion, skin
from ...core.geometry.mesh.rigid_motion import transform_points
from ..blender.animation import animated_paths
from ..blender.bone_bakes import (
    BoneRecord,
    Memberships,
    animated_bones,
    keep_pose,
    kept_pose,
    needs_rig,
    read_memberships,
    read_record,
    record_mark,
    rig_of,
    write_memberships,
    write_record,
)
from ..blender.dampsim_names import bake_mark
from ..blender.modifiers import deform_stack, is_deforming, sampled_modifiers
from ..blender.movers import is_local
from ..blender.sampler import Sampler, largest_scale
from ..blender.vertex_groups import MAX_EXPORTED_BONES
from ..work.steps import Result, run_in_thread
from .bake_tracks import KeptStrips, remove_bake_animation, write_tracks
from .bone_rig import (
    NewBone,
    add_bones,
    describe_bones,
    free_bone_name,
    is_bake_shared,
    name_root,
    provide_rig,
    remove_bones,
)
from .keys import check_nla, check_shape_keys
from .pre_modifier_shapes import InvertibilityCheck, positions_before_modifiers, pre_modifier_offsets
from .target import Cost, KeptBake, MotionCheck, Shot, Storage, Target, apply_settings

# Largest error of a bake, relative to that of its fit. Modifiers below the rig can enlarge the error.
_FIT_FACTOR = 2.0
# Length of a new bone, as a fraction of the spread of its vertices, and the least one as a fraction of the size.
_LENGTH, _MIN_LENGTH = 0.5, 0.01
# Largest change of the mesh's place in the space of its rig, as a fraction of the size.
_MAX_SLIP = 1e-4
# Size of a keyframe of a channel, and of a weight, bytes.
BONE_KEYFRAME_BYTES, _WEIGHT_BYTES, _CHANNELS = 8, 8, 7
# Smallest scale of a bone or rig along some direction, relative to the largest.
_FLAT = 1e-5
INFLUENCE_REMARK = f"The exported glTF holds all influences, but many importers keep {MAX_EXPORTED_BONES}"
_KEYS = "bake to Compressed Keys"
# Most influences that a bake can give to a vertex.
_MAX_INFLUENCES = 8


@dataclass(frozen=True)
class RecordedMotion:
    """Motion of an object in the space of its rig. bones: names.  scale: largest one, from the rig to world space.

    is_rig_generated: whether the rig is a generated one, with a single root bone, in the object's space.
    missed: error of frames whose shape no shape before the modifiers produces, by number, in the object's unit.
    """

    motion: SkinnedMotion
    bones: list[str]
    scale: float
    is_rig_generated: bool = False
    missed: dict[int, float] = field(default_factory=dict)

    def count_missed(self, bound: float) -> int:
        """Return the number of missed frames with an error above a bound, m."""
        return sum(error * self.scale > bound for error in self.missed.values())


@dataclass(frozen=True)
class FittedBones:
    """Fitted bones. keyed: indices of the frames at which each has keyframes.  error: m, in world space."""

    recorded: RecordedMotion
    fit: BoneFit
    keyed: list[Index]

    @property
    def error(self) -> float:
        return self.fit.error * self.recorded.scale

    def is_final(self, shot: Shot) -> bool:
        """Return whether a smaller bound would not change the fit."""
        return len(self.fit.parents) >= shot.max_bones


class Bones(Target):
    name = "BONES"
    number = 6
    label = "Bones"
    description = (
        "Add rigid child bones to the bones that deform the mesh, and change its weights. For game engines, through "
        "glTF or FBX"
    )
    storage = Storage.BONES
    exact = False
    can_export_to_gltf = True

    def check(self, obj: bpy.types.Object) -> None:
        if needs_rig(obj):
            check_shape_keys(obj)
            if rig_of(obj) is not None:
                _check_rig(obj, rig_of(obj))
            return
        check_skin(obj)
        _check_new_bones(obj, rig_of(obj))

    def motion_check(self, sampler: Sampler) -> MotionCheck:
        return _BonesCheck(sampler, self)

    def check_poses(self, sampler: Sampler, number: int) -> None:
        """Raise SceneError if the bake cannot animate the bones as they are posed at the current frame, a number."""
        obj = sampler.obj
        pose = rig_of(obj).evaluated_get(sampler.view_layer.depsgraph).pose.bones
        for name in carrying_bones(obj):
            if _is_flat(np.array(pose[name].matrix), 1.0):
                raise SceneError(
                    f"{obj.name}: the bone {name} is scaled to zero at frame {number}, and new bones could not move "
                    "its vertices; give it a small scale, or bake to PC2 Cache."
                )

    def cost(self, vertices: int, frames: int) -> Cost:
        return Cost(0, 0)

    def collect(self, shot: Shot) -> Generator[int, None, RecordedMotion]:
        obj = shot.sampler.obj
        if needs_rig(obj):
            return (yield from _collect_without_rig(shot))
        rig, names = rig_of(obj), carrying_bones(obj)
        carrying = _carrying_weights(obj, names)
        is_used = (carrying > 0.0).any(axis=0)
        names, carrying = [name for name, used in zip(names, is_used, strict=True) if used], carrying[:, is_used]
        shot.sampler.set_frame(shot.numbers[0])
        rest = shot.sampler.undeformed_positions()
        place = RigPlace(shot.sampler)
        bound = np.linalg.inv(np.array([rig.data.bones[name].matrix_local for name in names], dtype=float))
        scale, poses = 0.0, np.empty((len(shot.numbers), len(names), 4, 4))
        goal, moves = np.empty((len(shot.numbers), len(rest), 3)), _key_moves(obj, len(shot.numbers))
        missed: dict[int, float] = {}
        offsets = pre_modifier_offsets(shot.sampler, shot.cache, shot.numbers, missed)
        for done, (number, offset) in enumerate(zip(shot.numbers, offsets, strict=True)):
            evaluated = rig.evaluated_get(shot.sampler.view_layer.depsgraph)
            scale = max(scale, largest_scale(np.array(evaluated.matrix_world)))
            place.check(number)
            self.check_poses(shot.sampler, number)
            poses[done] = np.array([evaluated.pose.bones[name].matrix for name in names], dtype=float) @ bound
            before = rest + offset
            if moves is not None:
                before = positions_before_modifiers(shot.sampler, offset)
                moves[done] = (before - offset - rest) @ place.to_rig[:3, :3].T
            one = slice(done, done + 1)
            moved = SkinnedMotion(transform_points(place.to_rig, before), goal[one], poses[one], carrying)
            goal[done] = skin(moved, np.zeros(0, dtype=int), np.zeros((1, 0, 4, 4)), carrying)[0]
            yield done + 1
        motion = SkinnedMotion(transform_points(place.to_rig, rest), goal, poses, carrying, moves)
        return RecordedMotion(motion, names, scale, missed=missed)

    def compress(self, shot: Shot, collected: RecordedMotion) -> Generator[None, None, FittedBones]:
        motion, bound = collected.motion, shot.bound / collected.scale
        _require_bone_weights(shot, collected)
        near = np.flatnonzero(np.isin(shot.numbers, shot.arc_frames))
        is_complete = shot.edges is not None and shot.vertices == len(motion.rest)
        kept_edges = KeptEdges(shot.edges, near) if is_complete else None

        def fit_and_reduce(report: ProgressCallback) -> FittedBones:
            fit = fit_bones(
                motion,
                shot.max_bones,
                bound=bound,
                influences=shot.influences,
                keeps_shares=shot.keeps_shares,
                kept_edges=kept_edges,
                progress=report,
            )
            # Interpolated frames would shorten edges again.
            keyed = [np.union1d(one, near) for one in keyframe_indices(motion, fit, bound)]
            return FittedBones(collected, fit, keyed)

        return (yield from run_fit(fit_and_reduce))

    def allowed_error(self, shot: Shot, compressed: FittedBones) -> float:
        if self.states_any_error(shot.sampler.obj) and compressed.is_final(shot):
            # No other fit is better.
            return float("inf")
        return max(shot.bound, _FIT_FACTOR * compressed.error)

    def states_any_error(self, obj: bpy.types.Object) -> bool:
        """Return whether modifiers other than the Armature deform the object: they enlarge errors without a limit."""
        return bool(_other_deformers(obj))

    def animated_data(self, obj: bpy.types.Object) -> tuple[Any, str]:
        mark = record_mark(obj.data)
        return (rig_of(obj) if mark else None), mark

    def keep(self, obj: bpy.types.Object, folder: Path) -> KeptBake:
        return KeptBones(obj)

    def write(self, shot: Shot, compressed: FittedBones) -> Cost:
        obj, fit, names = shot.sampler.obj, compressed.fit, compressed.recorded.bones
        rig, previous = rig_of(obj), read_record(obj.data)
        mark = own_mark(obj, rig, previous)
        is_rig_generated = compressed.recorded.is_rig_generated
        remove_bones(obj, for_rebake=not is_rig_generated or len(fit.parents) > 0)
        if is_rig_generated:
            if not len(fit.parents):
                return Cost(0, 0)
            rig = provide_rig(obj, names[0], _size(compressed.recorded.motion), mark)
        bones = _new_bones(obj, rig, compressed)
        add_bones(obj, rig, bones, mark)
        _write_weights(obj, bones, compressed, mark)
        numbers, keyframes = shot.key_numbers, 0
        curves: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for k, bone in enumerate(bones):
            rest = np.array(rig.data.bones[bone.name].matrix_local, dtype=float)
            channels = _channels(np.linalg.inv(rest) @ fit.transforms[:, k] @ rest)
            path = f'pose.bones["{bpy.utils.escape_identifier(bone.name)}"]'
            # The closing key of a loop repeats the first one.
            keyed = [*compressed.keyed[k].tolist(), *range(len(shot.numbers), len(numbers))]
            keyframes += len(keyed)
            for place, values in enumerate(channels.T):
                curve = (f"{path}.location", place) if place < 3 else (f"{path}.rotation_quaternion", place - 3)
                curves[curve] = [(numbers[i], values[i % len(values)]) for i in keyed]
        if curves:
            write_tracks(rig, obj.name, curves, shot.cycle_end is not None, mark)
        else:
            remove_bake_animation(rig, mark)
        weights = int((fit.weights[:, len(names) :] > 0.0).sum())
        size = BONE_KEYFRAME_BYTES * _CHANNELS * keyframes + _WEIGHT_BYTES * weights
        is_over, worst = compressed.error > shot.bound, shot.numbers[fit.worst_frame]
        missed = compressed.recorded.count_missed(shot.bound)
        return Cost(0, size, bones=len(bones), is_over=is_over, worst=worst, missed_frames=missed)

    def remark(self, shot: Shot, cost: Cost, error: float) -> str:
        if not cost.bones:
            return ""
        said = f"{format_count(cost.bones, 'bone')} with up to {shot.influences} influences"
        said += f"; worst at frame {cost.worst}"
        if cost.missed_frames:
            said += missed_remark(shot, cost)
        elif cost.is_over or error > shot.bound:
            influences = "" if shot.influences >= _MAX_INFLUENCES else ", set Influences to 8"
            said += f"; the error is above Max Error: raise Max Bones{influences}, or {_KEYS}"
        if shot.influences > MAX_EXPORTED_BONES:
            said += f". {INFLUENCE_REMARK}"
        return said

    def clear(self, obj: bpy.types.Object) -> None:
        remove_bones(obj)


def run_fit(fit: Callable[[ProgressCallback], Result]) -> Generator[None, None, Result]:
    """Run a fit in a thread, and end it if the bake is cancelled. fit: given a function to report its progress to."""
    stop = threading.Event()

    def report(stage: str, fraction: float) -> None:
        if stop.is_set():
            raise InterruptedError

    try:
        return (yield from run_in_thread(lambda: fit(report)))
    finally:
        stop.set()


class RigPlace:
    """Place of a mesh in the space of its rig at the current frame of a sampler, which it must keep.

    to_rig: matrix (4, 4) from the object's space.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler, self._rig = sampler, rig_of(sampler.obj)
        self._rest = sampler.undeformed_positions()
        self._limit = _MAX_SLIP * float(np.linalg.norm(np.ptp(self._rest, axis=0)))
        self.to_rig = self._checked_place()

    def _checked_place(self) -> Array:
        evaluated = self._rig.evaluated_get(self._sampler.view_layer.depsgraph)
        if _is_flat(np.array(evaluated.matrix_world), 0.0):
            raise SceneError(
                f"{self._sampler.obj.name}: its rig {self._rig.name} is scaled to zero at frame "
                f"{self._sampler.scene.frame_current}; give it a small scale, or bake to PC2 Cache."
            )
        return np.asarray(np.linalg.inv(np.array(evaluated.matrix_world, dtype=float)) @ self._sampler.matrix())

    def check(self, number: int) -> None:
        """Raise SceneError if the mesh has moved relative to its rig at the current frame, a number."""
        slip = transform_points(self._checked_place(), self._rest) - transform_points(self.to_rig, self._rest)
        if np.linalg.norm(slip, axis=1).max() > self._limit:
            raise SceneError(
                f"{self._sampler.obj.name}: it moves relative to its rig {self._rig.name} at frame {number}; parent it "
                f"to the rig, or {_KEYS}."
            )


class _BonesCheck(InvertibilityCheck):
    """Check of the places of a mesh in the space of its rig, and of the poses of its bones."""

    def __init__(self, sampler: Sampler, target: Bones) -> None:
        super().__init__(sampler)
        self._target = target
        self._place: RigPlace | None = None

    def visit(self, number: int) -> None:
        super().visit(number)
        if needs_rig(self.sampler.obj):
            return
        self._place = self._place or RigPlace(self.sampler)
        self._place.check(number)
        self._target.check_poses(self.sampler, number)

    def check_shape(self, number: int, shape: Array) -> bool:
        """Accept every shape: the closest one is baked, and its error is stated."""
        return False


class KeptBones(KeptBake):
    """New bones of a bake with their weights, or poses of existing ones, and the strips."""

    def __init__(self, obj: bpy.types.Object) -> None:
        self._obj, self._record = obj, read_record(obj.data)
        rig = rig_of(obj)
        mark = self._record.mark if self._record is not None else ""
        self._poses = {bone.name: kept_pose(bone) for bone in animated_bones(rig, mark)}
        self._bones = describe_bones(rig, self._record) if self._record is not None else []
        self._strips = KeptStrips(rig if self._record is not None else None, mark)

    def restore(self) -> None:
        obj, record = self._obj, self._record
        if record is None:
            remove_bones(obj)
            return
        rig = rig_of(obj)
        remove_bones(obj, for_rebake=True)
        if self._bones:
            add_bones(obj, rig, self._bones, record.mark)
        _add_groups(obj, self._bones)
        for name, values in self._poses.items():
            apply_settings(rig.pose.bones[name], values.items())
            keep_pose(rig.pose.bones[name], record.mark, values)
        write_memberships(obj, record.vertices, record.new)
        write_record(obj.data, replace(record, is_muted=False))
        if rig is not None:
            self._strips.restore(rig, obj.name)

    def discard(self) -> None:
        self._strips.discard()


def own_mark(obj: bpy.types.Object, rig: Any, previous: BoneRecord | None) -> str:
    """Return the mark of the previous bake, or a new one if there is none or if a duplicate follows its bones."""
    mark = previous.mark if previous is not None else str(obj.dampsim.cache_id)
    number = 0
    while not mark or is_bake_shared(obj, rig, mark):
        number += 1
        mark = f"{obj.dampsim.cache_id}_{number}"
    return mark


def missed_remark(shot: Shot, cost: Cost) -> str:
    """Return a clause about the frames whose shape the modifiers of the object cannot produce, with the fix."""
    names = " and ".join(_other_deformers(shot.sampler.obj)) or "the rig"
    return f"; {names} cannot follow the simulation at {format_count(cost.missed_frames, 'frame')}; bake to PC2 Cache"


def _other_deformers(obj: bpy.types.Object) -> list[str]:
    return [m.name for m in deform_stack(obj) if m.type != "ARMATURE" and is_deforming(m)]


def carrying_bones(obj: bpy.types.Object) -> list[str]:
    """Return the names of the deforming bones that have a vertex group of the mesh, without those of a bake."""
    groups = obj.vertex_groups
    bones = [bone for bone in rig_of(obj).data.bones if bone.use_deform and bone.name in groups]
    return [bone.name for bone in bones if not bake_mark(bone)]


def _collect_without_rig(shot: Shot) -> Generator[int, None, RecordedMotion]:
    """Read the motion of an object in its own space, for a generated rig whose still root carries all vertices."""
    obj = shot.sampler.obj
    shot.sampler.set_frame(shot.numbers[0])
    rest, scale = shot.sampler.undeformed_positions(), 0.0
    goal, moves = np.empty((len(shot.numbers), len(rest), 3)), _key_moves(obj, len(shot.numbers))
    missed: dict[int, float] = {}
    for done, offset in enumerate(pre_modifier_offsets(shot.sampler, shot.cache, shot.numbers, missed)):
        goal[done] = rest + offset
        if moves is not None:
            goal[done] = positions_before_modifiers(shot.sampler, offset)
            moves[done] = goal[done] - offset - rest
        scale = max(scale, largest_scale(shot.sampler.matrix()))
        yield done + 1
    still = np.tile(np.eye(4), (len(goal), 1, 1, 1))
    motion = SkinnedMotion(rest, goal, still, np.ones((len(rest), 1)), moves)
    return RecordedMotion(motion, [name_root(obj)], scale, True, missed)


def _key_moves(obj: bpy.types.Object, frames: int) -> Array | None:
    """Return an array (f, v, 3) for the moves of the user's animated shape keys; None without any."""
    keys = obj.data.shape_keys
    has_moves = keys is not None and bool(animated_paths(keys))
    return np.zeros((frames, len(obj.data.vertices), 3)) if has_moves else None


def _is_flat(matrix: Array, usual: float) -> bool:
    """Return whether a matrix (4, 4) maps some direction to almost nothing. usual: scale to compare with, at least."""
    values = np.linalg.svd(matrix[:3, :3], compute_uv=False)
    return bool(values[-1] <= _FLAT * max(values[0], usual))


def _size(motion: SkinnedMotion) -> float:
    """Return the diagonal of the bounding box of bound positions, m."""
    return float(np.linalg.norm(np.ptp(motion.rest, axis=0)))


def _carrying_weights(obj: bpy.types.Object, names: list[str]) -> Array:
    """Return the normalised weights (v, p) of the bones, as the Armature modifier uses them."""
    places = {obj.vertex_groups[name].index: place for place, name in enumerate(names)}
    found = np.zeros((len(obj.data.vertices), len(names)))
    for vertex in obj.data.vertices:
        for one in vertex.groups:
            if one.group in places:
                found[vertex.index, places[one.group]] = one.weight
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 1e-4, found / np.where(total > 1e-4, total, 1.0), 0.0))


def _new_bones(obj: bpy.types.Object, rig: Any, compressed: FittedBones) -> list[NewBone]:
    """Return the bones of a fit: each at the centre of its vertices, along its parent."""
    rest, fit, names = compressed.recorded.motion.rest, compressed.fit, compressed.recorded.bones
    size, centres = _size(compressed.recorded.motion), bone_centres(compressed.recorded.motion, fit)
    taken = {*rig.data.bones.keys(), *obj.vertex_groups.keys()}
    found = []
    for k, parent in enumerate(fit.parents):
        weights, centre = fit.weights[:, len(names) + k], centres[k]
        spread = float(np.sqrt(weights @ ((rest - centre) ** 2).sum(axis=1) / weights.sum()))
        bone = rig.data.bones[names[parent]]
        axis = np.array(bone.matrix_local, dtype=float)[:3, 1]
        tail = centre + axis / np.linalg.norm(axis) * max(_LENGTH * spread, _MIN_LENGTH * size)
        roll = float(bone.AxisRollFromMatrix(bone.matrix_local.to_3x3())[1])
        found.append(NewBone(free_bone_name(bone.name, taken), bone.name, tuple(centre), tuple(tail), roll))
    return found


def _write_weights(obj: bpy.types.Object, bones: list[NewBone], compressed: FittedBones, mark: str) -> None:
    """Write the weights of the vertices that the new bones move, and record the previous ones."""
    fit, names, is_rig_generated = compressed.fit, compressed.recorded.bones, compressed.recorded.is_rig_generated
    # In a generated rig, the root carries the other vertices.
    changed = np.flatnonzero((fit.weights[:, len(names) :] > 0.0).any(axis=1) | is_rig_generated).tolist()
    old = read_memberships(obj, changed)
    _add_groups(obj, bones)
    all_names = [*names, *(bone.name for bone in bones)]
    new: list[Memberships] = []
    for vertex, row in zip(changed, old, strict=True):
        # Blender limits each weight to 1, and the modifier normalises the sum.
        total = 1.0 if is_rig_generated else min(sum(weight for name, weight in row if name in names), 1.0)
        kept = [one for one in row if one[0] not in names]
        used = np.flatnonzero(fit.weights[vertex]).tolist()
        new.append([*kept, *((all_names[k], total * float(fit.weights[vertex, k])) for k in used)])
    write_memberships(obj, changed, new)
    parents = {bone.name: bone.parent for bone in bones}
    count = len(obj.data.vertices)
    write_record(obj.data, BoneRecord(mark, parents, count, changed, old, read_memberships(obj, changed)))


def _add_groups(obj: bpy.types.Object, bones: list[NewBone]) -> None:
    """Add the vertex groups of new bones, without changing the active one."""
    index = obj.vertex_groups.active_index
    for bone in bones:
        obj.vertex_groups.new(name=bone.name)
    obj.vertex_groups.active_index = index


def _channels(matrices: Array) -> Array:
    """Return location and quaternion (f, 7) of rigid matrices (f, 4, 4), with continuous signs."""
    turns = np.array([Matrix(one[:3, :3].tolist()).to_quaternion()[:] for one in matrices])
    return np.concatenate([matrices[:, :3, 3], continuous_quaternions(turns)], axis=1)


def _require_bone_weights(shot: Shot, collected: RecordedMotion) -> None:
    motion, obj = collected.motion, shot.sampler.obj
    loose = motion.carrying.sum(axis=1) == 0.0
    moves = np.linalg.norm(motion.goal[:, loose] - motion.bound(loose), axis=2).max(axis=0, initial=0.0)
    count = int((moves * collected.scale > shot.bound).sum())
    if count:
        have = "has" if count == 1 else "have"
        raise SceneError(
            f"{obj.name}: {format_count(count, 'vertex')} that the simulation moves {have} no bone weights; use Weight "
            f"Like Neighbours, or {_KEYS}."
        )


def check_skin(obj: bpy.types.Object) -> None:
    """Raise SceneError if the motion of an object cannot be that of bones: its modifiers, rig or shape keys."""
    check_shape_keys(obj)
    if needs_rig(obj):
        raise SceneError(f"{obj.name}: it has no Armature modifier, and so no bones to key; add one, or bake to Bones.")
    armatures = [m for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.object is not None]
    modifier = armatures[0] if armatures else None
    is_plain = modifier is not None and modifier.use_vertex_groups and not modifier.use_bone_envelopes
    if modifier is None or len(armatures) > 1 or obj.parent_type == "ARMATURE" or not is_plain or modifier.vertex_group:
        raise SceneError(
            f"{obj.name}: only one Armature modifier by vertex groups can be carried over; remove the others, its "
            f"mask and its envelopes, or {_KEYS}."
        )
    if modifier.use_deform_preserve_volume:
        raise SceneError(
            f"{obj.name}: Preserve Volume of {modifier.name} is not supported by game engines; switch it off, or "
            f"{_KEYS}."
        )
    before = next((m for m in sampled_modifiers(obj) if is_deforming(m)), modifier)
    if before != modifier:
        raise SceneError(
            f"{obj.name}: {before.name} moves vertices before its Armature modifier; move it below, or {_KEYS}."
        )
    _check_rig(obj, rig_of(obj))


def _check_rig(obj: bpy.types.Object, rig: Any) -> None:
    if not is_local(rig, rig.data):
        raise SceneError(
            f"{obj.name}: its rig {rig.name} is linked and cannot get bones or keyframes; make it local, or {_KEYS}."
        )
    if rig.mode not in ("OBJECT", "POSE"):
        raise SceneError(f"{obj.name}: leave Edit Mode of its rig {rig.name}.")
    if rig.data.pose_position == "REST":
        raise SceneError(f"{obj.name}: its rig {rig.name} is in Rest Position; switch it to Pose Position.")
    check_nla(obj, rig, f"its rig {rig.name}", _KEYS)
    names = carrying_bones(obj)
    # That of a generated rig gets its vertex group again.
    if not names and not needs_rig(obj):
        raise SceneError(f"{obj.name}: no bone of {rig.name} carries it by weights; paint weights, or {_KEYS}.")
    bendy = next((name for name in names if rig.data.bones[name].bbone_segments > 1), None)
    if bendy is not None:
        raise SceneError(
            f"{obj.name}: the bone {bendy} of {rig.name} has bendy segments, which have no rigid motion; set them to 1."
        )


def _check_new_bones(obj: bpy.types.Object, rig: Any) -> None:
    users = rig.data.users - int(rig.data.use_fake_user)
    if users > 1:
        raise SceneError(
            f"{obj.name}: {users} objects share the armature of its rig {rig.name}; make it a single-user copy, or "
            f"{_KEYS}."
        )
    names = carrying_bones(obj)
    roles = (obj.dampsim.pin_group, *(m.vertex_group for m in obj.modifiers if hasattr(m, "vertex_group")))
    masked = next((name for name in names if name in roles), None)
    if masked is not None:
        raise SceneError(
            f"{obj.name}: the vertex group '{masked}' of a bone is also used for pins or by a modifier, and the bake "
            f"would change it; use a copy of the group, or {_KEYS}."
        )
