"""Inversion of an object's modifiers: the shape before them whose deformed result is the simulated shape."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import TracebackType

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.base.arrays import Mask
from ...core.geometry.mesh.affine import transform_points
from ..blender.dampsim_names import BASIS, PROBE
from ..blender.dependencies import is_local
from ..blender.modifiers import deform_stack, is_deforming, sampled_modifiers
from ..blender.movers import referenced_objects
from ..blender.sampler import Sampler
from ..blender.vertex_groups import read_weights
from .target import MotionCheck, WorldShapes

# Size of the probing offsets, and the error at which the iteration stops, as fractions of the mesh's size.
_PROBE_STEP = 1e-2
_CONVERGED_ERROR = 5e-7
# Error below which the iteration also stops where a correction does not reduce it: modifiers may round that much.
_ROUNDING_ERROR = 2e-6
_CORRECTIONS, _JACOBIAN_INTERVAL = 24, 6
# Most steps with mixing, the number of earlier steps that are mixed, and the error at which it stops.
_MIXING_STEPS, _MEMORY, _MIXED_ERROR = 48, 10, 5e-5
# Smallest singular value of the Jacobian of a vertex that is inverted, relative to the largest.
_SINGULAR = 1e-3
# Largest accepted error with nonlinear modifiers, as a fraction of the size.
_MAX_ERROR = 1e-4
# Distance by which a check moves the vertices, as a fraction of the size.
_NUDGE = 1e-2
# Change of a scale from which another frame counts as more critical.
_MIN_CHANGE = 1e-4
# Error of a vertex in a check that counts as missed, as a fraction of that distance, and the largest accepted fraction
# of such vertices. Where a modifier folds the mesh, a few miss, but the simulation need not move them there.
_MAX_MISS, _MANY = 0.5, 0.1


class NoShapeError(SceneError):
    """No shape before the modifiers produces the simulated shape."""


def can_edit_before_modifiers(obj: bpy.types.Object) -> bool:
    """Return whether DampSim can edit the object before its modifiers, which a linked mesh does not allow.

    A library override may have a local mesh, whose shape keys Blender saves.
    """
    return is_local(obj.data)


def pre_modifier_offsets(
    sampler: Sampler, cache: WorldShapes, numbers: list[int], missed: dict[int, float] | None = None
) -> Generator[Array]:
    """Yield the offsets (v, 3) in object space, before the modifiers, that produce the simulated shape of each frame.

    missed: receives the remaining error, in the unit of the object, of the frames whose shape no offset produces; the
    closest offset is used. Without it, NoShapeError is raised.
    """
    if not sampler.has_deform_modifier:
        for number in numbers:
            sampler.set_frame(number)
            yield _goal(sampler, cache, number) - sampler.local_positions()
        return
    with _ModifierProbe(sampler.obj) as probe:
        offset = np.zeros_like(probe.basis)
        for number in numbers:
            sampler.set_frame(number)
            search = _search(sampler, probe, _goal(sampler, cache, number), offset)
            offset = search.best
            if not search.has_found:
                if missed is None:
                    raise _no_shape(sampler)
                missed[number] = search.error
            probe.set_offset(offset)
            yield offset


def pre_modifier_positions(
    sampler: Sampler, cache: WorldShapes, numbers: list[int], before_modifiers: bool
) -> Generator[Array]:
    """Yield the vertices (v, 3) in object space, before the modifiers or after the deforming ones, for each frame."""
    if not before_modifiers or not sampler.has_deform_modifier:
        for number in numbers:
            sampler.set_frame(number)
            yield _goal(sampler, cache, number)
        return
    for offset in pre_modifier_offsets(sampler, cache, numbers):
        yield positions_before_modifiers(sampler, offset)


def positions_before_modifiers(sampler: Sampler, offset: Array) -> Array:
    """Return the vertices (v, 3) in object space, before the modifiers, at a frame of pre_modifier_offsets().

    offset: (v, 3), that of the frame. The user's shape keys act in addition.
    """
    shape = sampler.undeformed_positions()
    # With modifiers, the probing key is still active.
    return shape if sampler.has_deform_modifier else shape + offset


def _goal(sampler: Sampler, cache: WorldShapes, number: int) -> Array:
    return transform_points(np.linalg.inv(sampler.matrix()), cache.read_shape(number, sampler.obj.name))


def check_invertible(sampler: Sampler, numbers: Sequence[int]) -> Generator[int]:
    """Raise NoShapeError if no shape before the modifiers moves free vertices a little. Yield the number of frames.

    The bake would otherwise fail after its simulation. Pinned vertices need not move. Two goals are tried: a shift of
    all vertices, on which modifiers that smooth the mesh do not act, and waves, which modifiers that bind some vertices
    to others cannot follow. numbers: frames; the second goal is tried at the first one only.
    """
    obj, pins = sampler.obj, sampler.obj.dampsim.pin_group
    if not sampler.has_deform_modifier:
        return
    is_free: Mask | slice = slice(None)
    if pins in obj.vertex_groups:
        is_free = read_weights(obj, [pins])[0] < 1.0
    with _ModifierProbe(obj) as probe:
        still = np.zeros_like(probe.basis)
        nudge = _NUDGE * _extent(probe.basis)
        shift = np.full_like(still, nudge / np.sqrt(3.0))
        waves = nudge * np.sin(2.0 * np.pi / _extent(probe.basis) * probe.basis[:, [1, 2, 0]])
        for done, number in enumerate(numbers, 1):
            sampler.set_frame(number)
            current = _deformed(sampler, probe, still)
            found = _search(sampler, probe, current + shift, still, is_free, _MAX_ERROR)
            is_missed = found.misses_many(_MAX_MISS * nudge) or (done == 1 and not found.has_found)
            if not is_missed and done == 1:
                waving = _search(sampler, probe, current + waves, still, is_free, _MAX_ERROR)
                is_missed = waving.misses_many(_MAX_MISS * nudge)
            if is_missed:
                raise _no_shape(sampler)
            yield done


def _can_differ(obj: bpy.types.Object) -> bool:
    """Return whether the modifiers may be invertible at some frames only: others than Armature modifiers change."""
    return any(m.type != "ARMATURE" and is_deforming(m) for m in deform_stack(obj))


class InvertibilityCheck(MotionCheck):
    """Check whether shape keys can produce a shape at each frame.

    With Armature modifiers only, it is made at the first frame, and where their rigs and bones are scaled least.
    """

    def __init__(self, sampler: Sampler) -> None:
        super().__init__(sampler)
        self._least, self._least_frame = 1.0 - _MIN_CHANGE, 0

    def visit(self, number: int) -> None:
        scale = _least_scale_of_modifiers(self.sampler) if self.sampler.has_deform_modifier else 1.0
        if scale < self._least:
            self._least, self._least_frame = scale, number

    def finish(self, numbers: Sequence[int]) -> Generator[int]:
        if not _can_differ(self.sampler.obj):
            numbers = [number for number in numbers if number in (numbers[0], self._least_frame)]
        yield from check_invertible(self.sampler, numbers)


def _least_scale_of_modifiers(sampler: Sampler) -> float:
    """Return the least scale of the objects, and of their bones, that deforming modifiers read at the current frame."""
    modifiers = filter(is_deforming, sampled_modifiers(sampler.obj))
    objects = [one for modifier in modifiers for one in referenced_objects(modifier)]
    return min((_least_scale(one.evaluated_get(sampler.view_layer.depsgraph)) for one in objects), default=1.0)


def _least_scale(obj: bpy.types.Object) -> float:
    """Return the least singular value of the matrices of an object and of its bones."""
    matrices = [obj.matrix_world, *(bone.matrix for bone in (obj.pose.bones if obj.pose is not None else ()))]
    return float(np.linalg.svd(np.array(matrices)[:, :3, :3], compute_uv=False).min())


def _no_shape(sampler: Sampler) -> NoShapeError:
    return NoShapeError(
        f"{sampler.obj.name}: at frame {sampler.scene.frame_current}, its modifiers cannot produce the simulated "
        "shape from any shape keys; bake to PC2 Cache."
    )


def _deformed(sampler: Sampler, probe: _ModifierProbe, offset: Array) -> Array:
    """Return the deformed vertices (v, 3) in object space for an offset (v, 3) before the modifiers."""
    probe.set_offset(offset)
    sampler.view_layer.update()
    return sampler.local_positions()


def _jacobian(sampler: Sampler, probe: _ModifierProbe, offset: Array, current: Array, step: float) -> Array:
    """Return the derivatives (v, 3, 3) of the deformed vertices. current: of the offset (v, 3).  step: object units."""
    columns = [(_deformed(sampler, probe, offset + step * np.eye(3)[k]) - current) / step for k in range(3)]
    return np.stack(columns, axis=2)


class _ModifierProbe:
    """Temporary shape key that offsets the vertices. A mesh with several users is replaced by a temporary copy."""

    def __init__(self, obj: bpy.types.Object) -> None:
        self.obj = obj
        self._original_mesh: bpy.types.Mesh | None = None

    def __enter__(self) -> _ModifierProbe:
        obj = self.obj
        self._index = obj.active_shape_key_index
        if obj.data.users > 1:
            self._original_mesh = obj.data
            obj.data = obj.data.copy()
        self._had_no_keys = obj.data.shape_keys is None
        if self._had_no_keys:
            obj.shape_key_add(name=BASIS, from_mix=False)
        self.basis = key_vertices(obj.data.shape_keys.reference_key)
        self._key = obj.shape_key_add(name=PROBE, from_mix=False)
        self._key.value = 1.0
        return self

    def set_offset(self, offset: Array) -> None:
        """Set the offset (v, 3) from the basis."""
        set_key_vertices(self._key, self.basis + offset)
        self.obj.data.update_tag()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        obj = self.obj
        if self._original_mesh is not None:
            stand_in, obj.data = obj.data, self._original_mesh
            bpy.data.meshes.remove(stand_in)
        elif self._had_no_keys:
            obj.shape_key_clear()
        else:
            obj.shape_key_remove(self._key)
        if obj.data.shape_keys is not None:
            obj.active_shape_key_index = self._index


def key_vertices(key: bpy.types.ShapeKey) -> Array:
    """Return the vertices (v, 3) of a shape key."""
    flat = np.empty(3 * len(key.points), dtype=np.float32)
    key.points.foreach_get("co", flat)
    return flat.reshape(-1, 3).astype(float)


def set_key_vertices(key: bpy.types.ShapeKey, shape: Array) -> None:
    """Set the vertices (v, 3) of a shape key."""
    key.points.foreach_set("co", np.ascontiguousarray(shape, dtype=np.float32).ravel())


def _extent(shape: Array) -> float:
    """Return the largest extent of positions (v, 3) along an axis, in their unit."""
    return max(float(np.ptp(shape, axis=0).max()), 1e-12)


def _search(
    sampler: Sampler,
    probe: _ModifierProbe,
    goal: Array,
    start: Array,
    counted: Mask | slice = slice(None),
    accuracy: float = _CONVERGED_ERROR,
) -> _Search:
    """Return the search for the offset (v, 3) whose deformed result is the goal (v, 3), in object space.

    Newton iteration with a Jacobian (3, 3) per vertex from finite differences, which is evaluated again every few
    corrections. If it does not converge, Anderson mixing continues from its best offset, as modifiers such as Smooth
    couple the vertices. start: offset of the previous frame.  counted: vertices that have to reach the goal.
    accuracy: error at which the Newton iteration stops, as a fraction of the size.
    """
    search = _Search(sampler, probe, goal, counted, accuracy)
    search.newton(start)
    if not search.has_found:
        search.mix()
    return search


class _Search:
    """Search for the offset (v, 3) whose deformed result is a goal (v, 3). counted: vertices that have to reach it.

    best, error: best offset so far, and its largest error.  size: of the goal.  All in units of the object.
    accuracy: see _search().
    """

    def __init__(
        self, sampler: Sampler, probe: _ModifierProbe, goal: Array, counted: Mask | slice, accuracy: float
    ) -> None:
        self._sampler, self._probe, self._goal, self._counted = sampler, probe, goal, counted
        self._accuracy = accuracy
        self.size = max(_extent(goal), _extent(probe.basis))
        self.best, self.error = np.zeros_like(goal), np.inf
        self._errors = np.full(len(goal), np.inf)[counted]

    @property
    def has_found(self) -> bool:
        """True if the error is small enough."""
        return self.error <= _MAX_ERROR * self.size

    def misses_many(self, distance: float) -> bool:
        """Return whether many vertices are farther than a distance from the goal."""
        return bool((self._errors > distance).sum() > _MANY * len(self._errors))

    def newton(self, start: Array) -> None:
        """Correct each vertex by its own Jacobian."""
        offset, inverse = start, None
        for correction in range(_CORRECTIONS):
            before = self.error
            residual = self._residual(offset)
            is_rounding = before == self.error <= _ROUNDING_ERROR * self.size
            if is_rounding or self.error <= self._accuracy * self.size:
                return
            if inverse is None or correction % _JACOBIAN_INTERVAL == 0:
                inverse = self._inverse(offset, residual)
            offset = offset + self._limited(np.einsum("vij,vj->vi", inverse, residual))
        self._residual(offset)

    def mix(self) -> None:
        """Correct all vertices together (Anderson 1965, with the inverse of each vertex as preconditioner)."""
        offset = self.best
        residual = self._residual(offset)
        inverse = self._inverse(offset, residual)
        moves: list[Array] = []
        changes: list[Array] = []
        for _ in range(_MIXING_STEPS):
            step = np.einsum("vij,vj->vi", inverse, residual)
            if changes:
                parts = np.linalg.lstsq(np.stack([c.ravel() for c in changes], axis=1), residual.ravel(), rcond=None)[0]
                for part, move, change in zip(parts.tolist(), moves, changes, strict=True):
                    step = step - part * (move + np.einsum("vij,vj->vi", inverse, change))
            step = self._limited(step)
            previous, offset = residual, offset + step
            residual = self._residual(offset)
            if self.error <= _MIXED_ERROR * self.size:
                return
            moves, changes = [*moves, step][-_MEMORY:], [*changes, residual - previous][-_MEMORY:]

    def _residual(self, offset: Array) -> Array:
        """Return the rest (v, 3) to the goal, and keep the best offset."""
        residual = np.nan_to_num(self._goal - _deformed(self._sampler, self._probe, offset), posinf=0.0, neginf=0.0)
        errors = np.linalg.norm(residual, axis=1)[self._counted]
        if float(errors.max(initial=0.0)) < self.error:
            self.best, self.error, self._errors = offset, float(errors.max(initial=0.0)), errors
        return residual

    def _inverse(self, offset: Array, residual: Array) -> Array:
        """Return the inverses (v, 3, 3) of the Jacobians. residual: of the offset."""
        step = _PROBE_STEP * self.size
        jacobian = _jacobian(self._sampler, self._probe, offset, self._goal - residual, step)
        return np.asarray(np.linalg.pinv(np.nan_to_num(jacobian), rcond=_SINGULAR))

    def _limited(self, step: Array) -> Array:
        """Return a step (v, 3) of which no vertex exceeds the size."""
        length = np.linalg.norm(step, axis=1, keepdims=True)
        return np.asarray(step * np.minimum(1.0, self.size / np.maximum(length, 1e-300)))
