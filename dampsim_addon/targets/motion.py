"""Inversion of an object's modifiers: the shape before them whose deformed result is the simulated shape."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.errors import SceneError
from ...core.frames.cache import FrameCache
from ...core.geometry.affine import transformed
from ..blender.marks import BASIS, PROBE
from ..blender.sampler import Sampler

# Size of the probing offsets, and the error at which the iteration stops, as fractions of the mesh's size.
_PROBE_STEP = 1e-2
_CLOSE = 5e-7
_CORRECTIONS, _LOOK_AGAIN = 24, 6
# Largest accepted error with nonlinear modifiers, as a fraction of the size.
_TOLERABLE = 1e-4


class NoShapeError(SceneError):
    """No shape before the modifiers produces the simulated shape."""


def can_precede(obj: bpy.types.Object) -> bool:
    """Return whether DampSim can edit the object before its modifiers, which linked data does not allow."""
    mesh = obj.data
    return mesh.library is None and mesh.override_library is None and obj.override_library is None


def moves(sampler: Sampler, cache: FrameCache, numbers: list[int]) -> Generator[Array]:
    """Yield the offsets (v, 3) in object space, before the modifiers, that produce the simulated shape of each frame.

    Raises NoShapeError if there are none.
    """
    if not sampler.deforms:
        for number in numbers:
            sampler.go(number)
            yield _goal(sampler, cache, number) - sampler.local()
        return
    with _Probe(sampler.obj) as probe:
        move = np.zeros_like(probe.basis)
        for number in numbers:
            sampler.go(number)
            move = _before_modifiers(sampler, probe, _goal(sampler, cache, number), move)
            probe.move(move)
            yield move


def places(sampler: Sampler, cache: FrameCache, numbers: list[int], before: bool) -> Generator[Array]:
    """Yield the vertices (v, 3) in object space, before the modifiers or after the deforming ones, for each frame."""
    if not before or not sampler.deforms:
        for number in numbers:
            sampler.go(number)
            yield _goal(sampler, cache, number)
        return
    for _ in moves(sampler, cache, numbers):
        # The probing key is still active in addition to the user's keys.
        yield sampler.undeformed()


def _goal(sampler: Sampler, cache: FrameCache, number: int) -> Array:
    return transformed(np.linalg.inv(sampler.matrix()), cache.shape(number, sampler.obj.name))


class _Probe:
    """Temporary shape key that offsets the vertices. A mesh with several users is replaced by a temporary copy."""

    def __init__(self, obj: bpy.types.Object) -> None:
        self.obj = obj
        self._shared: bpy.types.Mesh | None = None

    def __enter__(self) -> _Probe:
        obj = self.obj
        self._index = obj.active_shape_key_index
        if obj.data.users > 1:
            self._shared = obj.data
            obj.data = obj.data.copy()
        self._alone = obj.data.shape_keys is None
        if self._alone:
            obj.shape_key_add(name=BASIS, from_mix=False)
        self.basis = points(obj.data.shape_keys.reference_key)
        self._key = obj.shape_key_add(name=PROBE, from_mix=False)
        self._key.value = 1.0
        return self

    def move(self, move: Array) -> None:
        """Set the offset (v, 3) from the basis."""
        set_points(self._key, self.basis + move)
        self.obj.data.update_tag()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        obj = self.obj
        if self._shared is not None:
            stand_in, obj.data = obj.data, self._shared
            bpy.data.meshes.remove(stand_in)
        elif self._alone:
            obj.shape_key_clear()
        else:
            obj.shape_key_remove(self._key)
        if obj.data.shape_keys is not None:
            obj.active_shape_key_index = self._index


def points(key: bpy.types.ShapeKey) -> Array:
    """Return the vertices (v, 3) of a shape key."""
    flat = np.empty(3 * len(key.points), dtype=np.float32)
    key.points.foreach_get("co", flat)
    return flat.reshape(-1, 3).astype(float)


def set_points(key: bpy.types.ShapeKey, shape: Array) -> None:
    """Set the vertices (v, 3) of a shape key."""
    key.points.foreach_set("co", np.ascontiguousarray(shape, dtype=np.float32).ravel())


def _before_modifiers(sampler: Sampler, probe: _Probe, goal: Array, start: Array) -> Array:
    """Return the offset (v, 3) before the modifiers whose deformed result is the goal (v, 3), in object space.

    Newton iteration with a Jacobian (3, 3) per vertex from finite differences, which is evaluated again every few
    corrections. start: offset of the previous frame.  Raises NoShapeError if the error stays too large.
    """
    size = max(float(np.ptp(goal, axis=0).max()), 1e-12)

    def deformed(move: Array) -> Array:
        probe.move(move)
        sampler.view_layer.update()
        return sampler.local()

    there = deformed(start)
    step = _PROBE_STEP * size
    move, best, error, inverse = start, start, np.inf, None
    for correction in range(_CORRECTIONS):
        missing = goal - there
        now = float(np.linalg.norm(missing, axis=1).max())
        if now < error:
            best, error = move, now
        if now <= _CLOSE * size:
            break
        if inverse is None or correction % _LOOK_AGAIN == 0:
            sides = [(deformed(move + step * np.eye(3)[k]) - there) / step for k in range(3)]
            inverse = np.linalg.pinv(np.stack(sides, axis=2))
        move = move + np.einsum("vij,vj->vi", inverse, missing)
        there = deformed(move)
    if error > _TOLERABLE * size:
        raise NoShapeError(
            f"{sampler.obj.name}: at frame {sampler.scene.frame_current}, its modifiers cannot produce the simulated "
            "shape from any shape keys; bake to PC2 Cache."
        )
    return best
