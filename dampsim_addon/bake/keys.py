"""What the targets made of shape keys have in common: their mesh, their animation and how they go away again."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

import bpy
import numpy as np

from ...core.arrays import Array, Single
from ...core.errors import SceneError
from ..marks import BASIS, PREFIX, is_ours
from .motion import can_precede, moves, points
from .target import Shot

_TRACK = PREFIX + "Bake"


def check(obj: bpy.types.Object) -> None:
    """Raise SceneError where shape keys would not last, or would change what the artist sees."""
    if not can_precede(obj):
        raise SceneError(
            f"{obj.name}: its mesh is linked and would lose shape keys; bake to a point cache, or make it local."
        )
    keys = obj.data.shape_keys
    if keys is None or is_ours(keys.reference_key.name):
        return
    if not keys.use_relative:
        raise SceneError(f"{obj.name}: its shape keys are absolute; make them relative or bake to a point cache.")
    if obj.show_only_shape_key:
        raise SceneError(f"{obj.name}: one shape key is shown alone; switch off the pin beside the shape keys.")
    data = keys.animation_data
    if data is not None and not data.use_nla:
        raise SceneError(f"{obj.name}: NLA is off for its shape keys; switch it on or bake to a point cache.")


def record(shot: Shot) -> Generator[int, None, Single]:
    """The moves (f, v, 3), in single precision, that keys have to make."""
    count = len(shot.sampler.obj.data.vertices)
    found = np.empty((len(shot.numbers), count, 3), dtype=np.float32)
    for done, move in enumerate(moves(shot.sampler, shot.cache, shot.numbers)):
        found[done] = move
        yield done + 1
    return found


def begin(obj: bpy.types.Object) -> Array:
    """Make room for the bake's keys, in a mesh that no other object uses; returns the basis (v, 3)."""
    clear(obj)
    mesh = obj.data
    if mesh.users > 1:
        # Its Clear gives the shared mesh back.
        obj.dampsim.shared_mesh = mesh
        obj.data = mesh.copy()
        obj.data.name = f"{PREFIX}{mesh.name}"
    if obj.data.shape_keys is None:
        # Named as ours, so that Clear knows that the mesh had no keys before.
        obj.shape_key_add(name=BASIS, from_mix=False)
        obj.active_shape_key_index = 0
    return points(obj.data.shape_keys.reference_key)


def add(obj: bpy.types.Object, name: str, shape: Array) -> bpy.types.ShapeKey:
    index = obj.active_shape_key_index
    key = obj.shape_key_add(name=PREFIX + name, from_mix=False)
    key.points.foreach_set("co", np.ascontiguousarray(shape, dtype=np.float32).ravel())
    obj.active_shape_key_index = index
    return key


def value_path(key: bpy.types.ShapeKey) -> str:
    return f'key_blocks["{bpy.utils.escape_identifier(key.name)}"].value'


def animate(obj: bpy.types.Object, curves: Mapping[str, Iterable[tuple[float, float]]]) -> None:
    """Points (frame, value) of curves by data path, in an action of the bake's own.

    It is the active one where the keys have none, else it lies on an NLA track above the artist's.
    """
    keys = obj.data.shape_keys
    action = bpy.data.actions.new(f"{PREFIX}{obj.name}")
    slot = action.slots.new(id_type="KEY", name=keys.name)
    strip = action.layers.new("Bake").strips.new(type="KEYFRAME")
    made = strip.channelbag(slot, ensure=True).fcurves
    # Constant keys would make steps of sub-frames.
    linear = bpy.types.Keyframe.bl_rna.properties["interpolation"].enum_items["LINEAR"].value
    first, last = np.inf, -np.inf
    for path, values in curves.items():
        flat = np.array(list(values), dtype=np.float32)
        curve = made.new(path)
        curve.keyframe_points.add(len(flat))
        curve.keyframe_points.foreach_set("co", flat.ravel())
        curve.keyframe_points.foreach_set("interpolation", np.full(len(flat), linear, dtype=np.int32))
        curve.update()
        first, last = min(first, flat[0, 0]), max(last, flat[-1, 0])
    data = keys.animation_data or keys.animation_data_create()
    if data.action is None and not data.nla_tracks:
        data.action = action
        data.action_slot = slot
        return
    track = data.nla_tracks.new()
    track.name = _TRACK
    bar = track.strips.new(action.name, int(first), action)
    bar.action_slot = slot
    bar.extrapolation = "HOLD"


def clear(obj: bpy.types.Object) -> None:
    """Remove the bake's keys and their action, and give a shared mesh back."""
    shared, mesh = obj.dampsim.shared_mesh, obj.data
    if shared is not None and shared != mesh:
        index = int(obj.active_shape_key_index or 0)
        obj.data, obj.dampsim.shared_mesh = shared, None
        if shared.shape_keys is not None:
            obj.active_shape_key_index = min(index, len(shared.shape_keys.key_blocks) - 1)
        if mesh.users == 0:
            _remove_animation(mesh.shape_keys)
            bpy.data.meshes.remove(mesh)
        return
    obj.dampsim.shared_mesh = None
    keys = obj.data.shape_keys
    if keys is None or not can_precede(obj):
        return
    index = int(obj.active_shape_key_index or 0)
    _remove_animation(keys)
    ours = [key for key in keys.key_blocks if is_ours(key.name)]
    if len(ours) == len(keys.key_blocks):
        obj.shape_key_clear()
        return
    if is_ours(keys.reference_key.name):
        # The artist added keys after the bake; they need what they are relative to.
        ours.remove(keys.reference_key)
        keys.reference_key.name = "Basis"
        keys.use_relative = True
    for key in ours:
        obj.shape_key_remove(key)
    obj.active_shape_key_index = min(index, len(keys.key_blocks) - 1)


def _remove_animation(keys: bpy.types.Key | None) -> None:
    data = keys.animation_data if keys else None
    if keys is None or data is None:
        return
    for track in [track for track in data.nla_tracks if is_ours(track.name)]:
        actions = {strip.action for strip in track.strips if strip.action is not None}
        data.nla_tracks.remove(track)
        for action in actions:
            _remove(action)
    if data.action is not None and is_ours(data.action.name):
        action, data.action = data.action, None
        _remove(action)
    if data.action is None and not data.nla_tracks and not data.drivers:
        keys.animation_data_clear()


def _remove(action: bpy.types.Action) -> None:
    # A duplicate of the object may play it too.
    if is_ours(action.name) and action.users == 0:
        bpy.data.actions.remove(action)
