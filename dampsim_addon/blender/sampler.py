"""Reads an object of Blender's scene frame by frame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import bpy
import numpy as np

from ...core.arrays import Array, Single
from ...core.errors import MeshError
from ...core.geometry.affine import transformed
from .counts import Counts, check_counts, counts_of
from .marks import LIVE, is_ours
from .modifiers import DEFORMING, base, deforms, simulated_makers, thickener


def positions(mesh: bpy.types.Mesh) -> Single:
    """Vertices (v, 3) of a mesh, in single precision.

    As an attribute they come as they lie in memory: fifty times as fast as from mesh.vertices.
    """
    flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
    mesh.attributes["position"].data.foreach_get("vector", flat)
    return flat.reshape(-1, 3)


def local_vertices(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Array:
    """Evaluated vertices (v, 3) in the object's space, now."""
    return positions(obj.evaluated_get(view_layer.depsgraph).data).astype(float)


def world_matrix(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Array:
    """The object's evaluated matrix (4, 4) to world space, now."""
    return np.array(obj.evaluated_get(view_layer.depsgraph).matrix_world, dtype=float)


def world_vertices(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Array:
    """Evaluated vertices (v, 3) in world space, now."""
    return transformed(world_matrix(obj, view_layer), local_vertices(obj, view_layer))


# A column of an object's matrix shorter than this times the longest squeezes it flat.
_FLAT = 1e-9


def check_scale(obj: bpy.types.Object, matrix: Array, when: str = "") -> None:
    """Raise MeshError where a matrix (4, 4) to world space cannot be undone. when: in words, of a frame."""
    columns = np.linalg.norm(matrix[:3, :3], axis=0)
    if not columns.min() > _FLAT * max(columns.max(), 1e-30):
        raise MeshError(f"{obj.name}: its scale is zero along an axis{when}; set a scale above zero.")


# Those at work: while there is one, nothing else may answer to a change of frame.
SAMPLING: list[Sampler] = []


class Sampler:
    """Reads an object frame by frame, with our own output and what comes behind the simulated modifiers switched off.

    makes: whether modifiers make some of the vertices.  counts: what there is of them at every frame, once known.
    thickener: see core Surface.

    Use as a context: on leaving it the modifiers, shape keys and the current frame are as before.
    """

    def __init__(self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> None:
        self.scene, self.view_layer, self.obj = scene, view_layer, obj
        self._modifiers: list[str] = []
        self._keys: list[str] = []
        self._absolute = 0
        self._frame = (scene.frame_current, scene.frame_subframe)
        self.makes, self.thickener = False, ""
        self.counts: Counts | None = None

    def __enter__(self) -> Sampler:
        self._frame = (self.scene.frame_current, self.scene.frame_subframe)
        SAMPLING.append(self)
        self.mute()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unmute()
        try:
            self.scene.frame_set(self._frame[0], subframe=self._frame[1])
        finally:
            SAMPLING.remove(self)

    def mute(self) -> None:
        """Switch off what must not be sampled."""
        self.makes = bool(simulated_makers(self.obj))
        thick = thickener(self.obj)
        self.thickener = thick.name if thick else ""
        kept = [m.name for m in base(self.obj) if self.makes or m.type in DEFORMING]
        for modifier in self.obj.modifiers:
            if modifier.show_viewport and modifier.name not in kept:
                self._modifiers.append(modifier.name)
                modifier.show_viewport = False
        for key in self._key_blocks():
            if is_ours(key.name) and not key.mute:
                self._keys.append(key.name)
                key.mute = True
        keys = self.obj.data.shape_keys
        if keys is not None and not keys.use_relative and is_ours(keys.reference_key.name):
            # Absolute keys play though they are muted; as relative ones they rest.
            self._absolute = keys.session_uid
            keys.use_relative = True

    @property
    def muted(self) -> tuple[str, ...]:
        """The modifiers that are switched off now."""
        return tuple(self._modifiers)

    def unmute(self) -> None:
        """Switch on again what mute() switched off."""
        for name in self._modifiers:
            if name in self.obj.modifiers:
                self.obj.modifiers[name].show_viewport = True
        for key in self._key_blocks():
            if key.name in self._keys:
                key.mute = False
        keys = self.obj.data.shape_keys
        if keys is not None and keys.session_uid == self._absolute:
            keys.use_relative = False
        self._absolute = 0
        self._modifiers.clear()
        self._keys.clear()

    def _key_blocks(self) -> list[bpy.types.ShapeKey]:
        keys = self.obj.data.shape_keys
        return list(keys.key_blocks) if keys else []

    @property
    def deforms(self) -> bool:
        """Whether any modifier moves the vertices after the shape keys."""
        return deforms(self.obj)

    def go(self, frame: float) -> None:
        whole = math.floor(frame)
        self.scene.frame_set(whole, subframe=frame - whole)

    def local(self) -> Array:
        """Evaluated vertices (v, 3) in the object's space, now."""
        return local_vertices(self.obj, self.view_layer)

    @contextmanager
    def _undeforming(self) -> Iterator[None]:
        """For a while, without the modifiers that move vertices."""
        deforming = [m for m in self.obj.modifiers if m.show_viewport and m.type in DEFORMING]
        try:
            for modifier in deforming:
                modifier.show_viewport = False
            self.view_layer.update()
            yield
        finally:
            for modifier in deforming:
                modifier.show_viewport = True

    def undeformed(self) -> Array:
        """Vertices (v, 3) in the object's space, now: shape keys count, modifiers that move vertices do not."""
        with self._undeforming():
            return self.local()

    def matrix(self) -> Array:
        """The object's matrix (4, 4) to world space, now."""
        return world_matrix(self.obj, self.view_layer)

    def world(self, frame: float) -> Array:
        """Animated vertices (v, 3) m in world space at a frame."""
        self.go(frame)
        return self.here()

    def here(self) -> Array:
        """Animated vertices (v, 3) m in world space, now."""
        check_scale(self.obj, self.matrix(), f" at frame {self.scene.frame_current}")
        if self.counts is not None:
            check_counts(self.obj, self.mesh(), self.counts, self.scene.frame_current_final)
        return world_vertices(self.obj, self.view_layer)

    def mesh(self) -> bpy.types.Mesh:
        """As it is evaluated now."""
        mesh: bpy.types.Mesh = self.evaluated().data
        return mesh

    def evaluated(self) -> bpy.types.Object:
        """The object as it is evaluated now."""
        return self.obj.evaluated_get(self.view_layer.depsgraph)

    @contextmanager
    def resting(self) -> Iterator[tuple[Array, bpy.types.Mesh]]:
        """For a while, undeformed at the first frame: vertices (v, 3) in world space, and the mesh that says how they
        hang together and what is painted on them. Shape keys count, modifiers that move vertices do not.
        """
        self.go(float(self.scene.frame_start))
        with self._undeforming():
            mesh = self.mesh() if self.makes else self.obj.data
            self.counts = counts_of(mesh) if self.makes else None
            yield transformed(self.matrix(), self.local()), mesh


class GroupSampler:
    """Reads several objects frame by frame, each frame being visited once for all of them. Use as a context.

    obstacles: what reads the colliders that stop them, by name, once known; see obstacles.ObstacleReader.
    """

    def __init__(
        self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]
    ) -> None:
        self.scene, self.view_layer = scene, view_layer
        self.members = [Sampler(scene, view_layer, obj) for obj in objects]
        self.obstacles: dict[str, Any] = {}
        self._open = ExitStack()
        self._at: float | None = None

    def __enter__(self) -> GroupSampler:
        with ExitStack() as entered:
            for member in self.members:
                entered.enter_context(member)
            entered.callback(_show_live, _hide_live())
            self._open = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def mute(self) -> None:
        """Switch off what must not be sampled."""
        for member in self.members:
            member.mute()

    def unmute(self) -> None:
        """Switch on again what mute() switched off."""
        for member in self.members:
            member.unmute()

    def of(self, obj: bpy.types.Object) -> Sampler:
        return next(member for member in self.members if member.obj == obj)

    def go(self, frame: float) -> None:
        """Be at a frame; a visit that goes on is not begun again."""
        if frame != self._at:
            self.members[0].go(frame)
            self._at = frame

    def leave(self) -> None:
        """Others move the scene from now on: the next visit begins anew."""
        self._at = None


def _hide_live() -> set[int]:
    """Hide what plays live: who is led by its mesh would follow one frame all the time. Returns whose, by number."""
    found = set[int]()
    for obj in bpy.data.objects:
        modifier = obj.modifiers.get(LIVE)
        if modifier is not None and modifier.show_viewport:
            modifier.show_viewport = False
            found.add(obj.session_uid)
    return found


def _show_live(hidden: set[int]) -> None:
    for obj in bpy.data.objects if hidden else ():
        if obj.session_uid in hidden and LIVE in obj.modifiers:
            obj.modifiers[LIVE].show_viewport = True


def frame_rate(scene: bpy.types.Scene) -> float:
    return float(scene.render.fps) / float(scene.render.fps_base)


def gravity(scene: bpy.types.Scene) -> tuple[float, ...]:
    """Of a scene, m/s^2 along x, y, z; none where it is switched off."""
    return tuple(scene.gravity) if scene.use_gravity else (0.0, 0.0, 0.0)
