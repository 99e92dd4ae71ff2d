"""One relative shape key for each frame, its value running 0-1-0 linearly: exact on frames, right between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.cache import FrameCache
from ...core.errors import SceneError
from ...core.geometry.affine import transformed
from ..marks import PREFIX, is_ours, key_name

if TYPE_CHECKING:
    from ..snapshot import Sampler

_TRACK = PREFIX + "Bake"
_PROBE = PREFIX + "Probe"
# Size of the probing moves, and the error that is small enough, in parts of the mesh's size.
_PROBE_STEP = 1e-2
_CLOSE = 5e-7
_CORRECTIONS, _LOOK_AGAIN = 24, 6
# What may be left where the modifiers bend.
_TOLERABLE = 1e-4


class ShapeKeys:
    name: ClassVar[str] = "SHAPE_KEYS"
    label: ClassVar[str] = "Shape Keys"
    text: ClassVar[str] = "One shape key for each frame: plays in every Blender and exports to glTF and FBX"

    @staticmethod
    def check(obj: bpy.types.Object) -> None:
        mesh = obj.data
        if mesh.library is not None or mesh.override_library is not None or obj.override_library is not None:
            raise SceneError(
                f"{obj.name}: its mesh is linked and would lose shape keys; bake to a point cache, or make it local."
            )
        if mesh.users > 1:
            raise SceneError(
                f"{obj.name}: its mesh is shared by {mesh.users} objects; "
                "make it a single-user copy or bake to a point cache."
            )
        keys = mesh.shape_keys
        if keys is not None:
            if not keys.use_relative:
                raise SceneError(
                    f"{obj.name}: its shape keys are absolute; make them relative or bake to a point cache."
                )
            if obj.show_only_shape_key:
                raise SceneError(f"{obj.name}: one shape key is shown alone; switch off the pin beside the shape keys.")
            data = keys.animation_data
            if data is not None and not data.use_nla:
                raise SceneError(f"{obj.name}: NLA is off for its shape keys; switch it on or bake to a point cache.")

    @staticmethod
    def write(sampler: Sampler, cache: FrameCache, numbers: list[int], folder: Path) -> Iterator[int]:
        obj = sampler.obj
        ShapeKeys.clear(obj)
        made_basis = obj.data.shape_keys is None
        index = obj.active_shape_key_index
        if made_basis:
            # Named as ours, so that Clear knows that the mesh had no keys before.
            obj.shape_key_add(name=PREFIX + "Basis", from_mix=False)
        basis = _points(obj.data.shape_keys.reference_key)
        probe = obj.shape_key_add(name=_PROBE, from_mix=False)
        probe.value = 1.0
        shapes, move = [], np.zeros_like(basis)
        try:
            for done, number in enumerate(numbers, 1):
                sampler.go(number)
                move = _before_modifiers(sampler, probe, basis, cache.read(number).surface, move)
                shapes.append(basis + move)
                yield done
        finally:
            obj.shape_key_remove(probe)
            if len(shapes) < len(numbers):
                ShapeKeys.clear(obj)
        for number, shape in zip(numbers, shapes, strict=True):
            key = obj.shape_key_add(name=key_name(number), from_mix=False)
            key.points.foreach_set("co", shape.astype(np.float32).ravel())
        obj.active_shape_key_index = 0 if made_basis else index
        _animate(obj, numbers)

    @staticmethod
    def clear(obj: bpy.types.Object) -> None:
        keys = obj.data.shape_keys
        if keys is None:
            return
        index = obj.active_shape_key_index
        data = keys.animation_data
        if data is not None:
            for track in [track for track in data.nla_tracks if is_ours(track.name)]:
                for action in {strip.action for strip in track.strips if strip.action is not None}:
                    _remove(action)
                data.nla_tracks.remove(track)
            if data.action is not None and is_ours(data.action.name):
                action, data.action = data.action, None
                _remove(action)
            if data.action is None and not data.nla_tracks and not data.drivers:
                keys.animation_data_clear()
        ours = [key for key in keys.key_blocks if is_ours(key.name)]
        if len(ours) == len(keys.key_blocks):
            obj.shape_key_clear()
            return
        if is_ours(keys.reference_key.name):
            # The artist added keys after the bake; they need what they are relative to.
            ours.remove(keys.reference_key)
            keys.reference_key.name = "Basis"
        for key in ours:
            obj.shape_key_remove(key)
        obj.active_shape_key_index = index

    @staticmethod
    def forget(folder: Path) -> None:
        """Shape keys live in the file alone."""


def _remove(action: bpy.types.Action) -> None:
    if is_ours(action.name):
        bpy.data.actions.remove(action)


def _points(key: bpy.types.ShapeKey) -> Array:
    flat = np.empty(3 * len(key.points), dtype=np.float32)
    key.points.foreach_get("co", flat)
    return flat.reshape(-1, 3).astype(float)


def _before_modifiers(sampler: Sampler, probe: bpy.types.ShapeKey, basis: Array, goal: Array, start: Array) -> Array:
    """The move (v, 3) from the basis, before the modifiers, that ends at the goal (v, 3) in world space at this frame.

    What the modifiers do to each vertex is found by moving all vertices a little along each axis; where they bend,
    corrections do the rest, and look again if they get stuck. start: the move of the frame before.
    """
    matrix = sampler.matrix()
    goal = transformed(np.linalg.inv(matrix), goal)
    size = max(float(np.ptp(goal, axis=0).max()), 1e-12)

    def deformed(move: Array) -> Array:
        probe.points.foreach_set("co", (basis + move).astype(np.float32).ravel())
        sampler.obj.data.update_tag()
        sampler.view_layer.update()
        return sampler.local()

    there = deformed(start)
    if not sampler.deforms:
        return np.asarray(start + goal - there)
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
        raise SceneError(
            f"{sampler.obj.name}: at frame {sampler.scene.frame_current} no shape before its modifiers ends where the "
            "simulation does; bake to a point cache."
        )
    return best


def _animate(obj: bpy.types.Object, numbers: list[int]) -> None:
    """An action of its own: active where the keys have none, else on an NLA track beneath the artist's."""
    keys = obj.data.shape_keys
    action = bpy.data.actions.new(f"{PREFIX}{obj.name}")
    slot = action.slots.new(id_type="KEY", name=keys.name)
    strip = action.layers.new("Bake").strips.new(type="KEYFRAME")
    curves = strip.channelbag(slot, ensure=True).fcurves
    for place, number in enumerate(numbers):
        points = [(number, 1.0)]
        if place > 0:
            points.insert(0, (number - 1, 0.0))
        if place + 1 < len(numbers):
            points.append((number + 1, 0.0))
        path = f'key_blocks["{bpy.utils.escape_identifier(key_name(number))}"].value'
        curve = curves.new(path)
        curve.keyframe_points.add(len(points))
        curve.keyframe_points.foreach_set("co", np.array(points, dtype=np.float32).ravel())
        linear = bpy.types.Keyframe.bl_rna.properties["interpolation"].enum_items["LINEAR"].value
        curve.keyframe_points.foreach_set("interpolation", np.full(len(points), linear, dtype=np.int32))
        curve.update()
    data = keys.animation_data or keys.animation_data_create()
    if data.action is None and not data.nla_tracks:
        data.action = action
        data.action_slot = slot
        return
    track = data.nla_tracks.new()
    track.name = _TRACK
    bar = track.strips.new(action.name, int(numbers[0]), action)
    bar.action_slot = slot
    bar.extrapolation = "HOLD"
