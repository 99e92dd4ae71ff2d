"""Base class and helpers of targets that create shape keys: checks, animation of the keys, and their removal."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.base.arrays import SinglePrecisionArray
from ..blender.dampsim_names import (
    BAKE_TRACK,
    BASIS,
    PREFIX,
    is_dampsim_fcurve,
    is_dampsim_name,
    is_tagged_action,
    tag_action,
    untag_action,
)
from ..blender.modifiers import simulated_topology_modifiers
from .pre_modifier_shapes import can_edit_before_modifiers, key_vertices, pre_modifier_offsets, set_key_vertices
from .target import VERTEX_BYTES, Cost, Shot, Storage, Target


def check_shape_keys(obj: bpy.types.Object) -> None:
    """Raise SceneError if shape keys cannot store the bake, or if the scene would mute them."""
    makers = simulated_topology_modifiers(obj)
    if makers:
        raise SceneError(
            f"{obj.name}: shape keys cannot move vertices that {makers[0].name} creates; apply it or bake to PC2 Cache."
        )
    if not can_edit_before_modifiers(obj):
        raise SceneError(
            f"{obj.name}: its mesh is linked and would lose shape keys; bake to PC2 Cache, or make it local."
        )
    users = _user_count(obj.data)
    if users > 1:
        raise SceneError(
            f"{obj.name}: its mesh is shared by {users} objects; make it a single-user copy or bake to PC2 Cache."
        )
    if obj.show_only_shape_key:
        raise SceneError(f"{obj.name}: Solo Active Shape Key is on; switch off the pin beside the shape keys.")
    keys = obj.data.shape_keys
    if keys is None:
        return
    if not keys.use_relative and not is_dampsim_name(keys.reference_key.name):
        raise SceneError(f"{obj.name}: its shape keys are absolute; make them relative or bake to PC2 Cache.")
    data = keys.animation_data
    if data is None:
        return
    if not data.use_nla:
        raise SceneError(f"{obj.name}: the NLA is off for its shape keys; switch it on or bake to PC2 Cache.")
    if any(track.is_solo for track in data.nla_tracks):
        raise SceneError(
            f"{obj.name}: a solo NLA track of its shape keys would mute the bake; switch its star off or "
            "bake to PC2 Cache."
        )


def collect_offsets(shot: Shot) -> Generator[int, None, SinglePrecisionArray]:
    """Collect the offsets (f, v, 3) of the shape keys in object space. Yields the number of finished frames."""
    count = len(shot.sampler.obj.data.vertices)
    offsets = np.empty((len(shot.numbers), count, 3), dtype=np.float32)
    for done, move in enumerate(pre_modifier_offsets(shot.sampler, shot.cache, shot.numbers)):
        offsets[done] = move
        yield done + 1
    return offsets


def key_cost(vertices: int, keys: int) -> Cost:
    """Return the cost of shape keys. vertices, keys: their numbers."""
    return Cost(keys, VERTEX_BYTES * vertices * keys)


def check_shared_mesh(obj: bpy.types.Object) -> None:
    """Raise SceneError if other objects share the mesh of a bake, as they would lose its keys, too."""
    keys, users = obj.data.shape_keys, _user_count(obj.data)
    if users > 1 and keys is not None and any(is_dampsim_name(key.name) for key in keys.key_blocks):
        raise SceneError(
            f"{obj.name}: its mesh is baked and shared by {users} objects; make it a single-user copy first."
        )


def has_shared_mesh(obj: bpy.types.Object) -> bool:
    """Return whether other objects use the mesh of an object."""
    return _user_count(obj.data) > 1


def _user_count(mesh: bpy.types.Mesh) -> int:
    return mesh.users - int(mesh.use_fake_user)


def prepare_basis(obj: bpy.types.Object) -> Array:
    """Remove the previous bake, create a basis key if needed, and return the basis (v, 3)."""
    clear_keys(obj)
    if obj.data.shape_keys is None:
        # By this name of the basis, clear_keys() recognises that the mesh had no keys before.
        obj.shape_key_add(name=BASIS, from_mix=False)
        obj.active_shape_key_index = 0
    return key_vertices(obj.data.shape_keys.reference_key)


def add_key(obj: bpy.types.Object, name: str, shape: Array) -> bpy.types.ShapeKey:
    """Add a shape key with vertices (v, 3), without changing the active key."""
    index = obj.active_shape_key_index
    key = obj.shape_key_add(name=name, from_mix=False)
    set_key_vertices(key, shape)
    obj.active_shape_key_index = index
    return key


def value_path(key: bpy.types.ShapeKey) -> str:
    """Return the data path of the value of a shape key."""
    return f'key_blocks["{bpy.utils.escape_identifier(key.name)}"].value'


def animate_keys(obj: bpy.types.Object, curves: Mapping[str, Iterable[tuple[float, float]]]) -> None:
    """Create an action from the points (frame, value) of its F-curves, by data path.

    The action goes to an NLA track above the user's tracks, so that its keyframes do not clutter the timeline.
    """
    keys = obj.data.shape_keys
    action = bpy.data.actions.new(f"{PREFIX}{obj.name}")
    tag_action(action)
    slot = action.slots.new(id_type="KEY", name=keys.name)
    strip = action.layers.new("Bake").strips.new(type="KEYFRAME")
    fcurves = strip.channelbag(slot, ensure=True).fcurves
    # Interpolate linearly: with constant interpolation, subframes would repeat frames.
    linear = bpy.types.Keyframe.bl_rna.properties["interpolation"].enum_items["LINEAR"].value
    first, last = np.inf, -np.inf
    for path, values in curves.items():
        flat = np.array(list(values), dtype=np.float32)
        curve = fcurves.new(path)
        curve.keyframe_points.add(len(flat))
        curve.keyframe_points.foreach_set("co", flat.ravel())
        curve.keyframe_points.foreach_set("interpolation", np.full(len(flat), linear, dtype=np.int32))
        curve.update()
        first, last = min(first, flat[0, 0]), max(last, flat[-1, 0])
    data = keys.animation_data or keys.animation_data_create()
    track = data.nla_tracks.new()
    track.name = BAKE_TRACK
    nla_strip = track.strips.new(action.name, int(first), action)
    nla_strip.action_slot = slot
    nla_strip.extrapolation = "HOLD"


def clear_keys(obj: bpy.types.Object) -> None:
    """Remove the bake's keys and their animation."""
    keys = obj.data.shape_keys
    if keys is None or not can_edit_before_modifiers(obj):
        return
    index = int(obj.active_shape_key_index or 0)
    _remove_animation(keys)
    ours = [key for key in keys.key_blocks if is_dampsim_name(key.name)]
    if len(ours) == len(keys.key_blocks):
        obj.shape_key_clear()
        return
    if is_dampsim_name(keys.reference_key.name):
        # Keys that the user added after the bake need a basis.
        ours.remove(keys.reference_key)
        keys.reference_key.name = "Basis"
        keys.use_relative = True
    for key in ours:
        obj.shape_key_remove(key)
    obj.active_shape_key_index = min(index, len(keys.key_blocks) - 1)


def _remove_animation(keys: bpy.types.Key) -> None:
    data = keys.animation_data
    if data is None:
        return
    for track in list(data.nla_tracks):
        actions = {strip.action for strip in track.strips if strip.action is not None}
        if is_dampsim_name(track.name) and all(is_tagged_action(action) for action in actions):
            data.nla_tracks.remove(track)
            for action in actions:
                _remove_unused_action(action)
    action = data.action
    if action is not None and is_tagged_action(action):
        bags = [bag for layer in action.layers for strip in layer.strips for bag in strip.channelbags]
        if all(is_dampsim_fcurve(action, curve.data_path) for bag in bags for curve in bag.fcurves):
            data.action = None
            _remove_unused_action(action)
        else:
            # The user has added keyframes to the action, so keep it without our curves.
            for bag in bags:
                for curve in [curve for curve in bag.fcurves if is_dampsim_fcurve(action, curve.data_path)]:
                    bag.fcurves.remove(curve)
            untag_action(action)
            action.name = f"{keys.name}Action"
    if data.action is None and not data.nla_tracks and not data.drivers:
        keys.animation_data_clear()


def _remove_unused_action(action: bpy.types.Action) -> None:
    # A duplicate of the object may use it too.
    if action.users == 0:
        bpy.data.actions.remove(action)


class KeyTarget(Target):
    """Target that creates shape keys. A subclass defines name, number, label, description and write()."""

    storage: ClassVar[Storage] = Storage.KEYS

    @classmethod
    def check(cls, obj: bpy.types.Object) -> None:
        check_shape_keys(obj)

    @classmethod
    def cost(cls, vertices: int, frames: int) -> Cost:
        return key_cost(vertices, frames)

    @classmethod
    def collect(cls, shot: Shot) -> Generator[int, None, SinglePrecisionArray]:
        return collect_offsets(shot)

    @classmethod
    def clear(cls, obj: bpy.types.Object) -> None:
        clear_keys(obj)

    @classmethod
    def remove_files(cls, folder: Path) -> None:
        """Do nothing: shape keys are stored in the .blend file."""
