"""Inversion of an object's modifiers: the shape before them whose deformed result is the simulated shape."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.base.arrays import Mask
from ...core.geometry.mesh.affine import transform_points
from ..blender.animation import animated_paths
from ..blender.dampsim_names import BASIS, PROBE
from ..blender.dependencies import is_local
from ..blender.modifiers import is_deforming, sampled_modifiers
from ..blender.movers import referenced_objects
from ..blender.sampler import Sampler
from ..blender.vertex_groups import read_weights
from .target import MotionCheck, WorldShapes

# Size of the probing offsets, and the error at which the iteration stops, as fractions of the mesh's size.
_PROBE_STEP = 1e-2
_CONVERGED_ERROR = 5e-7
_CORRECTIONS, _JACOBIAN_INTERVAL = 24, 6
# Largest accepted error with nonlinear modifiers, as a fraction of the size.
_MAX_ERROR = 1e-4
# Distance by which a check moves the vertices, as a fraction of the size.
_NUDGE = 1e-2
# Change of a number of a modifier, or of a scale, from which another frame counts as more critical.
_MIN_CHANGE = 1e-4


class NoShapeError(SceneError):
    """No shape before the modifiers produces the simulated shape."""


def can_edit_before_modifiers(obj: bpy.types.Object) -> bool:
    """Return whether DampSim can edit the object before its modifiers, which a linked mesh does not allow.

    A library override may have a local mesh, whose shape keys Blender saves.
    """
    return is_local(obj.data)


def pre_modifier_offsets(sampler: Sampler, cache: WorldShapes, numbers: list[int]) -> Generator[Array]:
    """Yield the offsets (v, 3) in object space, before the modifiers, that produce the simulated shape of each frame.

    Raises NoShapeError if there are none.
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
            offset = _solve_offset(sampler, probe, _goal(sampler, cache, number), offset)
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


def check_invertible(sampler: Sampler) -> None:
    """Raise NoShapeError if no shape before the modifiers moves free vertices a little, at the current frame.

    The bake would otherwise fail after its simulation. Pinned vertices need not move.
    """
    obj, pins = sampler.obj, sampler.obj.dampsim.pin_group
    if not sampler.has_deform_modifier:
        return
    is_free: Mask | slice = slice(None)
    if pins in obj.vertex_groups:
        is_free = read_weights(obj, [pins])[0] < 1.0
    with _ModifierProbe(obj) as probe:
        current = _deformed(sampler, probe, np.zeros_like(probe.basis))
        # All vertices move alike, so that modifiers that smooth the mesh do not act on the difference.
        goal = current + _NUDGE * float(np.ptp(current, axis=0).max()) / np.sqrt(3.0)
        _solve_offset(sampler, probe, goal, np.zeros_like(probe.basis), is_free)


class InvertibilityCheck(MotionCheck):
    """Check whether shape keys can produce a shape at each frame.

    It is exact at the first two frames, because simulation zones start at the second one, and where a number is the
    smallest or largest of the shot: an animated one of the modifiers, or the least scale of their objects and bones.
    """

    def __init__(self, sampler: Sampler) -> None:
        super().__init__(sampler)
        self._count = 0
        # Least and largest value of each number, with their frames.
        self._extremes: dict[str, tuple[tuple[float, int], tuple[float, int]]] = {}

    def visit(self, number: int) -> None:
        if not self.sampler.has_deform_modifier:
            return
        values = _modifier_numbers(self.sampler)
        self._count += 1
        if self._count <= 2:
            check_invertible(self.sampler)
        for name, value in values.items():
            low, high = self._extremes.get(name, 2 * ((value, number),))
            self._extremes[name] = (
                (value, number) if value < low[0] - _MIN_CHANGE else low,
                (value, number) if value > high[0] + _MIN_CHANGE else high,
            )

    def finish(self) -> None:
        for number in sorted({number for pair in self._extremes.values() for _, number in pair}):
            self.sampler.set_frame(number)
            check_invertible(self.sampler)


def _modifier_numbers(sampler: Sampler) -> dict[str, float]:
    """Return the animated numbers of the deforming modifiers at the current frame, and the least scale, by name."""
    obj, paths = sampler.obj, set(animated_paths(sampler.obj))
    found, scales = dict[str, float](), [1.0]
    for modifier in filter(is_deforming, sampled_modifiers(obj)):
        evaluated = sampler.evaluated_object().modifiers[modifier.name]
        for prop in modifier.bl_rna.properties:
            path = modifier.path_from_id(prop.identifier)
            if prop.type == "FLOAT" and not prop.is_array and path in paths:
                found[path] = float(getattr(evaluated, prop.identifier))
        for other in referenced_objects(modifier):
            scales.append(_least_scale(other.evaluated_get(sampler.view_layer.depsgraph)))
    return {**found, "": min(scales)}


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


def _solve_offset(
    sampler: Sampler, probe: _ModifierProbe, goal: Array, start: Array, counted: Mask | slice = slice(None)
) -> Array:
    """Return the offset (v, 3) before the modifiers whose deformed result is the goal (v, 3), in object space.

    Newton iteration with a Jacobian (3, 3) per vertex from finite differences, which is evaluated again every few
    corrections. start: offset of the previous frame.  counted: vertices that have to reach the goal.
    Raises NoShapeError if the error stays too large.
    """
    size = max(float(np.ptp(goal, axis=0).max()), 1e-12)
    current = _deformed(sampler, probe, start)
    step = _PROBE_STEP * size
    offset, best, error, inverse = start, start, np.inf, None
    for correction in range(_CORRECTIONS):
        residual = goal - current
        current_error = float(np.linalg.norm(residual, axis=1)[counted].max(initial=0.0))
        if current_error < error:
            best, error = offset, current_error
        if current_error <= _CONVERGED_ERROR * size:
            break
        if inverse is None or correction % _JACOBIAN_INTERVAL == 0:
            inverse = np.linalg.pinv(_jacobian(sampler, probe, offset, current, step))
        offset = offset + np.einsum("vij,vj->vi", inverse, residual)
        current = _deformed(sampler, probe, offset)
    if error > _MAX_ERROR * size:
        raise _no_shape(sampler)
    return best
