"""Inversion of an object's modifiers: the shape before them whose deformed result is the simulated shape."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import bpy
import numpy as np

from ...core import Array, Index, SceneError
from ...core.base.arrays import Mask
from ...core.geometry.mesh.rigid_motion import transform_points
from ..blender.animation import is_animated
from ..blender.dampsim_names import BASIS, PROBE
from ..blender.modifiers import deform_stack, has_deform_modifier, is_deforming, sampled_modifiers
from ..blender.movers import is_local, referenced_objects
from ..blender.sampler import Sampler, read_array
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
# Modifiers that move vertices by their places in space, or smooth the mesh, on which the shift of a check never acts.
_BENDING_TYPES = {
    "ARMATURE", "CORRECTIVE_SMOOTH", "CURVE", "DISPLACE", "HOOK", "LAPLACIANSMOOTH", "LATTICE", "MESH_DEFORM",
    "SIMPLE_DEFORM", "SMOOTH", "WARP", "WAVE",
}  # fmt: skip
# Number of faces whose stretch is compared between frames.
_CHECKED_FACES = 2000


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
    if not has_deform_modifier(sampler.obj):
        for number in numbers:
            yield _goal_at(sampler, cache, number) - sampler.local_positions()
        return
    with _probing_key(sampler.obj) as probe:
        offset = np.zeros_like(probe.basis)
        for number in numbers:
            search = _Search(sampler, probe, _goal_at(sampler, cache, number)).run(offset)
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
    if not before_modifiers or not has_deform_modifier(sampler.obj):
        yield from (_goal_at(sampler, cache, number) for number in numbers)
        return
    for offset in pre_modifier_offsets(sampler, cache, numbers):
        yield positions_before_modifiers(sampler, offset)


def positions_before_modifiers(sampler: Sampler, offset: Array) -> Array:
    """Return the vertices (v, 3) in object space, before the modifiers, at a frame of pre_modifier_offsets().

    offset: (v, 3), that of the frame. The user's shape keys act in addition.
    """
    shape = sampler.undeformed_positions()
    # With modifiers, the probing key is still active.
    return shape if has_deform_modifier(sampler.obj) else shape + offset


def _goal_at(sampler: Sampler, cache: WorldShapes, number: int) -> Array:
    """Go to a frame and return its simulated shape (v, 3) in object space."""
    sampler.set_frame(number)
    return transform_points(np.linalg.inv(sampler.matrix()), cache.read_shape(number, sampler.obj.name))


def check_invertible(sampler: Sampler, numbers: Sequence[int]) -> Generator[int]:
    """Raise NoShapeError if no shape before the modifiers moves free vertices a little. Yield the number of frames.

    The bake would otherwise fail after its simulation. Pinned vertices need not move. Two goals are tried: a shift of
    all vertices, on which modifiers that smooth the mesh do not act, and waves, which modifiers that bind some vertices
    to others cannot follow. numbers: frames; the second goal is tried at the first one only.
    """
    obj, pins = sampler.obj, sampler.obj.dampsim.pin_group
    if not has_deform_modifier(sampler.obj):
        return
    is_free: Mask | slice = slice(None)
    if pins in obj.vertex_groups:
        is_free = read_weights(obj, [pins])[0] < 1.0
    with _probing_key(obj) as probe:
        still = np.zeros_like(probe.basis)
        nudge = _NUDGE * _extent(probe.basis)
        shift = np.full_like(still, nudge / np.sqrt(3.0))
        waves = nudge * np.sin(2.0 * np.pi / _extent(probe.basis) * probe.basis[:, [1, 2, 0]])
        limit, inverse = _MAX_MISS * nudge, None
        for done, number in enumerate(numbers, 1):
            probe.set_offset(still)
            sampler.set_frame(number)
            current = sampler.local_positions()
            found = _Search(sampler, probe, current + shift, is_free, _MAX_ERROR)
            # Jacobians change little from frame to frame, so that one correction mostly suffices.
            if inverse is None or not found.reaches(current, inverse, limit):
                found = _Search(sampler, probe, current + shift, is_free, _MAX_ERROR).run(still)
                inverse = found.inverse
            is_missed = found.misses_many(limit) or (done == 1 and not found.has_found)
            if not is_missed and done == 1:
                waving = _Search(sampler, probe, current + waves, is_free, _MAX_ERROR)
                if inverse is None or not waving.reaches(current, inverse, limit):
                    waving = _Search(sampler, probe, current + waves, is_free, _MAX_ERROR).run(still)
                is_missed = waving.misses_many(limit)
            if is_missed:
                raise _no_shape(sampler)
            yield done


class InvertibilityCheck(MotionCheck):
    """Check whether shape keys can produce a shape at each frame.

    Before the simulation, it is made with small motions; check_shape() needs a simulated shape.

    With modifiers that only bend space, it is made at the first frame, where faces are flattest, and where the objects
    and bones of the modifiers are scaled least.
    """

    def __init__(self, sampler: Sampler) -> None:
        super().__init__(sampler)
        self._triangles: Index | None = None
        self._first_metrics = np.zeros((0, 3))
        # Least values so far, relative to the first frame, and their frames.
        self._least = {"scale": (1.0 - _MIN_CHANGE, 0), "stretch": (1.0 - _MIN_CHANGE, 0)}

    def visit(self, number: int) -> None:
        if not has_deform_modifier(self.sampler.obj):
            return
        for name, value in (("scale", _least_scale_of_modifiers(self.sampler)), ("stretch", self._least_stretch())):
            if value < self._least[name][0]:
                self._least[name] = value, number

    def _least_stretch(self) -> float:
        """Return the least stretch of the faces since the first visited frame, in any direction; a tenth have less."""
        if self._triangles is None:
            mesh = self.sampler.evaluated_mesh()
            mesh.calc_loop_triangles()
            triangles = read_array(mesh.loop_triangles, "vertices", np.int32, 3)
            self._triangles = triangles[:: 1 + len(triangles) // _CHECKED_FACES]
            self._first_metrics = self._metrics()
        (a, b, c), (first_a, first_b, first_c) = self._metrics().T, self._first_metrics.T
        area = np.maximum(first_a * first_c - first_b**2, 1e-30)
        mean = 0.5 * (first_c * a - 2.0 * first_b * b + first_a * c) / area
        product = np.maximum(a * c - b**2, 0.0) / area
        squares = product / np.maximum(mean + np.sqrt(np.maximum(mean**2 - product, 0.0)), 1e-30)
        return float(np.sqrt(np.quantile(squares, _MANY))) if len(squares) else 1.0

    def _metrics(self) -> Array:
        """Return the metrics (t, 3) of the faces at the current frame: of its first edge, of both, of the second."""
        corners = self.sampler.local_positions()[self._triangles]
        one, other = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        return np.stack([np.einsum("ti,ti->t", *pair) for pair in ((one, one), (one, other), (other, other))], axis=1)

    def finish(self, numbers: Sequence[int]) -> Generator[int]:
        bends = all(map(_only_bends_space, filter(is_deforming, deform_stack(self.sampler.obj))))
        if bends and len(self._first_metrics):
            chosen = {numbers[0], *(frame for _, frame in self._least.values())}
            numbers = [number for number in numbers if number in chosen]
        yield from check_invertible(self.sampler, numbers)

    def check_shape(self, number: int, shape: Array) -> bool:
        next(pre_modifier_offsets(self.sampler, _ShapeOfFrame(shape), [number]))
        return True


@dataclass(frozen=True)
class _ShapeOfFrame:
    """Simulated shape (v, 3) m in world space of the only frame that is read."""

    shape: Array

    def read_shape(self, number: int, body: str) -> Array:
        return self.shape


def _only_bends_space(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier can take a direction of motion from vertices only by flattening faces or by a scale."""
    others = [one for one in referenced_objects(modifier) if one.type != "ARMATURE" and one.data is not None]
    # The keyed points of a lattice can flatten space across a sheet.
    return modifier.type in _BENDING_TYPES and not any(
        is_animated(block) for one in others for block in (one.data, getattr(one.data, "shape_keys", None)) if block
    )


def _least_scale_of_modifiers(sampler: Sampler) -> float:
    """Return the least scale of the objects, and of their bones, that deforming modifiers read at the current frame."""
    modifiers = filter(is_deforming, sampled_modifiers(sampler.obj))
    depsgraph = sampler.view_layer.depsgraph
    objects = [one.evaluated_get(depsgraph) for modifier in modifiers for one in referenced_objects(modifier)]
    bones = [bone for one in objects if one.pose is not None for bone in one.pose.bones]
    matrices = [*(one.matrix_world for one in objects), *(bone.matrix for bone in bones)]
    return float(np.linalg.svd(np.array(matrices)[:, :3, :3], compute_uv=False).min()) if matrices else 1.0


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


@dataclass(frozen=True)
class _ModifierProbe:
    """Shape key that offsets the vertices of an object from those of its basis (v, 3)."""

    obj: bpy.types.Object
    key: bpy.types.ShapeKey
    basis: Array

    def set_offset(self, offset: Array) -> None:
        """Set the offset (v, 3) from the basis."""
        set_key_vertices(self.key, self.basis + offset)
        self.obj.data.update_tag()


@contextmanager
def _probing_key(obj: bpy.types.Object) -> Iterator[_ModifierProbe]:
    """Provide a temporary probe. A mesh with several users is replaced by a temporary copy."""
    original_mesh, index = obj.data, obj.active_shape_key_index
    if original_mesh.users > 1:
        obj.data = original_mesh.copy()
    had_keys = obj.data.shape_keys is not None
    if not had_keys:
        obj.shape_key_add(name=BASIS, from_mix=False)
    key = obj.shape_key_add(name=PROBE, from_mix=False)
    key.value = 1.0
    try:
        yield _ModifierProbe(obj, key, key_vertices(obj.data.shape_keys.reference_key))
    finally:
        if obj.data != original_mesh:
            stand_in, obj.data = obj.data, original_mesh
            bpy.data.meshes.remove(stand_in)
        elif had_keys:
            obj.shape_key_remove(key)
        else:
            obj.shape_key_clear()
        if obj.data.shape_keys is not None:
            obj.active_shape_key_index = index


def key_vertices(key: bpy.types.ShapeKey) -> Array:
    """Return the vertices (v, 3) of a shape key."""
    return read_array(key.points, "co", np.float32, 3).astype(float)


def set_key_vertices(key: bpy.types.ShapeKey, shape: Array) -> None:
    """Set the vertices (v, 3) of a shape key."""
    key.points.foreach_set("co", np.ascontiguousarray(shape, dtype=np.float32).ravel())


def _extent(shape: Array) -> float:
    """Return the largest extent of positions (v, 3) along an axis, in their unit."""
    return max(float(np.ptp(shape, axis=0).max()), 1e-12)


class _Search:
    """Search for the offset (v, 3) whose deformed result is a goal (v, 3), in object space.

    Newton iteration with a Jacobian (3, 3) per vertex from finite differences, which is evaluated again every few
    corrections. If it does not converge, Anderson mixing continues from its best offset, as modifiers such as Smooth
    couple the vertices.

    counted: vertices that have to reach the goal.  accuracy: error at which the Newton iteration stops, as a fraction
    of the size.  best, error: best offset so far, and its largest error.  size: of the goal.  All in units of the
    object.  inverse: (v, 3, 3) of the last Jacobian; None before the first one.
    """

    def __init__(
        self,
        sampler: Sampler,
        probe: _ModifierProbe,
        goal: Array,
        counted: Mask | slice = slice(None),
        accuracy: float = _CONVERGED_ERROR,
    ) -> None:
        self._sampler, self._probe, self._goal, self._counted = sampler, probe, goal, counted
        self._accuracy = accuracy
        self.size = max(_extent(goal), _extent(probe.basis))
        self.best, self.error = np.zeros_like(goal), np.inf
        self._errors = np.full(len(goal), np.inf)[counted]
        self.inverse: Array | None = None

    @property
    def has_found(self) -> bool:
        """True if the error is small enough."""
        return self.error <= _MAX_ERROR * self.size

    def misses_many(self, distance: float) -> bool:
        """Return whether many vertices are farther than a distance from the goal."""
        return bool((self._errors > distance).sum() > _MANY * len(self._errors))

    def reaches(self, current: Array, inverse: Array, distance: float) -> bool:
        """Return whether one correction brings nearly all vertices within a distance of the goal.

        current: (v, 3), without an offset.  inverse: (v, 3, 3), as that of another frame.
        """
        self._residual(self._limited(np.einsum("vij,vj->vi", inverse, self._goal - current)))
        return not self.misses_many(distance)

    def run(self, start: Array) -> _Search:
        """Search from an offset (v, 3), that of the previous frame."""
        self._newton(start)
        if not self.has_found:
            self._mix()
        return self

    def _newton(self, start: Array) -> None:
        """Correct each vertex by its own Jacobian."""
        offset = start
        for correction in range(_CORRECTIONS):
            before = self.error
            residual = self._residual(offset)
            is_rounding = before == self.error <= _ROUNDING_ERROR * self.size
            if is_rounding or self.error <= self._accuracy * self.size:
                return
            if self.inverse is None or correction % _JACOBIAN_INTERVAL == 0:
                self.inverse = self._inverse(offset, residual)
            offset = offset + self._limited(np.einsum("vij,vj->vi", self.inverse, residual))
        self._residual(offset)

    def _mix(self) -> None:
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
        step, current = _PROBE_STEP * self.size, self._goal - residual
        moved = [_deformed(self._sampler, self._probe, offset + step * axis) for axis in np.eye(3)]
        jacobian = np.stack([(one - current) / step for one in moved], axis=2)
        return np.asarray(np.linalg.pinv(np.nan_to_num(jacobian), rcond=_SINGULAR))

    def _limited(self, step: Array) -> Array:
        """Return a step (v, 3) of which no vertex exceeds the size."""
        length = np.linalg.norm(step, axis=1, keepdims=True)
        return np.asarray(step * np.minimum(1.0, self.size / np.maximum(length, 1e-300)))
