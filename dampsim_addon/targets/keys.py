"""Base class and helpers of targets that create shape keys: checks, creation of the keys, and their removal."""

from __future__ import annotations

import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.base.arrays import SinglePrecisionArray
from ..blender.animation import has_keyed_points
from ..blender.dampsim_names import (
    BASIS,
    bake_keys,
    is_bake_basis,
    is_tagged_action,
    joined_bake_keys,
    mark_bake_key,
    restore_key_names,
    unmark_bake_keys,
)
from ..blender.modifiers import simulated_topology_modifiers
from ..blender.movers import count_mesh_users
from ..blender.sampler import Sampler, read_array
from .bake_tracks import KeptStrips, remove_bake_animation
from .pre_modifier_shapes import (
    InvertibilityCheck,
    can_edit_before_modifiers,
    key_vertices,
    pre_modifier_offsets,
    set_key_vertices,
)
from .target import VERTEX_BYTES, Cost, KeptBake, MotionCheck, Shot, Storage, Target, apply_settings, read_settings_of

# Custom property of shape keys with the digests of the basis and of the keys of the bake, as they were written.
_SHAPES_TAG = "dampsim_shapes"
# Settings of shape keys and strips that return with a kept bake.
_KEY_SETTINGS = ("value", "mute", "slider_min", "slider_max", "vertex_group", "interpolation", "lock_shape")


def check_shape_keys(obj: bpy.types.Object) -> None:
    """Raise SceneError if shape keys cannot store the bake, or if the scene would mute them."""
    makers = simulated_topology_modifiers(obj)
    if makers:
        raise SceneError(
            f"{obj.name}: shape keys cannot move vertices that {makers[0].name} creates; apply it or bake to PC2 Cache."
        )
    if not can_edit_before_modifiers(obj):
        raise SceneError(
            f"{obj.name}: its mesh is linked and would lose shape keys; bake to PC2 Cache, or make the mesh local."
        )
    users = count_mesh_users(obj.data)
    if users > 1:
        raise SceneError(
            f"{obj.name}: its mesh is shared by {users} objects; make it a single-user copy or bake to PC2 Cache."
        )
    if obj.show_only_shape_key:
        raise SceneError(f"{obj.name}: Solo Active Shape Key is on; switch off the pin beside the shape keys.")
    keys = obj.data.shape_keys
    # Blender plays the shape keys of the user instead of the vertices.
    if (keys is None or is_bake_basis(keys)) and has_keyed_points(obj.data):
        raise SceneError(f"{obj.name}: its vertices are keyed, and shape keys would replace them; bake to PC2 Cache.")
    if keys is None:
        return
    if not keys.use_relative and not is_bake_basis(keys):
        raise SceneError(f"{obj.name}: its shape keys are absolute; make them relative or bake to PC2 Cache.")
    check_nla(obj, keys, "its shape keys", "bake to PC2 Cache")


def check_nla(obj: bpy.types.Object, owner: Any, words: str, alternative: str) -> None:
    """Raise SceneError if the NLA of a datablock would not play a bake. words: its name.  alternative: other fix."""
    data = owner.animation_data
    if data is None:
        return
    if not data.use_nla:
        raise SceneError(f"{obj.name}: the NLA is off for {words}; switch it on or {alternative}.")
    if any(track.is_solo for track in data.nla_tracks):
        raise SceneError(
            f"{obj.name}: a solo NLA track of {words} would mute the bake; switch its star off or {alternative}."
        )
    if data.use_tweak_mode:
        raise SceneError(f"{obj.name}: an NLA strip of {words} is being edited; leave Tweak Mode with Tab.")
    # Blender ignores these two settings until there are tracks.
    is_plain = data.action_influence == 1.0 and data.action_blend_type == "REPLACE"
    if data.action is not None and not is_tagged_action(data.action) and not data.nla_tracks and not is_plain:
        raise SceneError(
            f"{obj.name}: the tracks of a bake would change how the action {data.action.name} of {words} plays; set "
            f"its Influence to 1 and its Blending to Replace, or {alternative}."
        )


def key_cost(vertices: int, keys: int) -> Cost:
    """Return the cost of shape keys. vertices, keys: their numbers."""
    return Cost(keys, VERTEX_BYTES * vertices * keys)


def check_shared_mesh(obj: bpy.types.Object) -> None:
    """Raise SceneError if the shape keys of a bake belong to other objects, too, or to another file."""
    if not bake_keys(obj.data.shape_keys):
        return
    if not can_edit_before_modifiers(obj):
        library = obj.data.library or obj.data.override_library.reference.library
        raise SceneError(
            f"{obj.name}: its mesh is baked in {Path(library.filepath).name}, and a bake here would add to its shape "
            "keys; make the mesh local first."
        )
    users = count_mesh_users(obj.data)
    if users > 1:
        raise SceneError(
            f"{obj.name}: its mesh is baked and shared by {users} objects; make it a single-user copy first."
        )


def has_shared_mesh(obj: bpy.types.Object) -> bool:
    """Return whether other objects use the mesh of an object."""
    return count_mesh_users(obj.data) > 1


def prepare_basis(obj: bpy.types.Object) -> Array:
    """Remove the keys of the previous bake, create a basis key if needed, and return the basis (v, 3).

    The animation of the previous bake stays, for animate_keys() to rewrite.
    """
    remove_baked_keys(obj)
    if obj.data.shape_keys is None:
        # By the mark of the basis, clear_keys() recognises that the mesh had no keys before.
        mark_bake_key(obj.shape_key_add(name=BASIS, from_mix=False))
        obj.active_shape_key_index = 0
    return key_vertices(obj.data.shape_keys.reference_key)


def add_key(obj: bpy.types.Object, name: str, shape: Array) -> bpy.types.ShapeKey:
    """Add a shape key with vertices (v, 3), without changing the active key."""
    index = obj.active_shape_key_index
    key = obj.shape_key_add(name=name, from_mix=False)
    mark_bake_key(key)
    set_key_vertices(key, shape)
    obj.active_shape_key_index = index
    return key


def record_key_shapes(obj: bpy.types.Object) -> None:
    """Store digests of the shape keys of a bake, by which edited_keys() recognises edits."""
    keys = obj.data.shape_keys
    if keys is not None:
        shapes = [keys.reference_key, *bake_keys(keys)]
        keys[_SHAPES_TAG] = " ".join(map(_shape_digest, shapes))


def edited_keys(obj: bpy.types.Object) -> list[bpy.types.ShapeKey]:
    """Return the shape keys of a bake whose vertices were edited since; none if the basis was edited with them."""
    keys = getattr(obj.data, "shape_keys", None)
    known = str(keys.get(_SHAPES_TAG, "")).split() if keys is not None else []
    if not known or _shape_digest(keys.reference_key) != known[0]:
        return []
    return [key for key in bake_keys(keys) if key != keys.reference_key and _shape_digest(key) not in known]


def _shape_digest(key: bpy.types.ShapeKey) -> str:
    return f"{zlib.crc32(read_array(key.points, 'co', np.float32, 3)):08x}"


def copy_edited_keys(obj: bpy.types.Object) -> None:
    """Copy edited shape keys of a bake to keys of the user with value 0, which bakes keep."""
    index = obj.active_shape_key_index
    for key in edited_keys(obj):
        copy = obj.shape_key_add(name=f"{key.name} Edited", from_mix=False)
        set_key_vertices(copy, key_vertices(key))
        # Blender 5.0 adds keys with value 1.
        copy.value = 0.0
    obj.active_shape_key_index = index
    record_key_shapes(obj)


def value_path(key: bpy.types.ShapeKey) -> str:
    """Return the data path of the value of a shape key."""
    return f'key_blocks["{bpy.utils.escape_identifier(key.name)}"].value'


def clear_keys(obj: bpy.types.Object) -> None:
    """Remove the bake's keys and their animation."""
    keys = obj.data.shape_keys
    if keys is None or not can_edit_before_modifiers(obj):
        return
    restore_key_names(keys)
    is_alone = len(bake_keys(keys)) == len(keys.key_blocks)
    if not is_alone:
        # Before the animation, by which the keys of earlier versions are recognised.
        remove_baked_keys(obj)
    remove_bake_animation(keys)
    if is_alone:
        obj.shape_key_clear()


def remove_joined_keys(obj: bpy.types.Object) -> None:
    """Remove the shape keys of a baked object that was joined into this one; see joined_bake_keys()."""
    keys = obj.data.shape_keys
    joined = joined_bake_keys(keys)
    if not joined or not can_edit_before_modifiers(obj):
        return
    if len(joined) == len(keys.key_blocks):
        obj.shape_key_clear()
        return
    if keys.reference_key in joined:
        # The user's keys are relative to it.
        keys.reference_key.name, keys.reference_key.slider_max = "Basis", 1.0
    _remove_keys(obj, [key for key in joined if key != keys.reference_key])


def _remove_keys(obj: bpy.types.Object, unwanted: list[bpy.types.ShapeKey]) -> None:
    """Remove some shape keys, but not all, without changing the index of the active one where possible."""
    index = int(obj.active_shape_key_index or 0)
    for key in unwanted:
        obj.shape_key_remove(key)
    obj.active_shape_key_index = min(index, len(obj.data.shape_keys.key_blocks) - 1)


def remove_baked_keys(obj: bpy.types.Object) -> None:
    """Remove the bake's keys, but not the basis. Keys that the user added after the bake give it their usual name."""
    keys = obj.data.shape_keys
    if keys is None:
        return
    restore_key_names(keys)
    ours, basis = bake_keys(keys), keys.reference_key
    if has_bake_basis := basis in ours:
        ours.remove(basis)
        keys.use_relative = True
    _remove_keys(obj, ours)
    unmark_bake_keys(keys)
    keys.pop(_SHAPES_TAG, None)
    if has_bake_basis and len(keys.key_blocks) > 1:
        basis.name = "Basis"
    elif has_bake_basis:
        mark_bake_key(basis)


class KeptKeys(KeptBake):
    """Shape keys of a bake. Strips stay in place while a bake replaces their actions."""

    def __init__(self, obj: bpy.types.Object) -> None:
        self._obj = obj
        block = obj.data.shape_keys
        baked = [key for key in bake_keys(block) if key != block.reference_key]
        self._has_bake_basis = block is not None and is_bake_basis(block)
        self._settings = read_settings_of(block, ("use_relative", "eval_time"))
        self._basis = read_settings_of(block.reference_key, ("name", "interpolation")) if block is not None else []
        shapes = [key_vertices(key).astype(np.float32) for key in baked]
        settings = [(key.name, read_settings_of(key, _KEY_SETTINGS)) for key in baked]
        self._keys = list(zip(shapes, settings, strict=True))
        self._shapes = str(block.get(_SHAPES_TAG, "")) if block is not None else ""
        self._strips = KeptStrips(block)

    def restore(self) -> None:
        if not self._keys:
            self.discard()
            clear_keys(self._obj)
            return
        prepare_basis(self._obj)
        block: Any = self._obj.data.shape_keys
        apply_settings(block.reference_key, self._basis)
        if self._has_bake_basis and not is_bake_basis(block):
            mark_bake_key(block.reference_key)
        for shape, (name, settings) in self._keys:
            apply_settings(add_key(self._obj, name, shape), settings)
        apply_settings(block, self._settings)
        if self._shapes:
            block[_SHAPES_TAG] = self._shapes
        self._strips.restore(block, self._obj.name)

    def discard(self) -> None:
        self._strips.discard()


class KeyTarget(Target):
    """Target that creates shape keys. A subclass defines name, number, label, description and write()."""

    storage = Storage.KEYS

    def check(self, obj: bpy.types.Object) -> None:
        check_shape_keys(obj)

    def motion_check(self, sampler: Sampler) -> MotionCheck:
        return InvertibilityCheck(sampler)

    def cost(self, vertices: int, frames: int) -> Cost:
        return key_cost(vertices, frames)

    def collect(self, shot: Shot) -> Generator[int, None, SinglePrecisionArray]:
        """Return the offsets (f, v, 3) of the shape keys in object space."""
        offsets = np.empty((len(shot.numbers), len(shot.sampler.obj.data.vertices), 3), dtype=np.float32)
        for done, move in enumerate(pre_modifier_offsets(shot.sampler, shot.cache, shot.numbers)):
            offsets[done] = move
            yield done + 1
        return offsets

    def keep(self, obj: bpy.types.Object, folder: Path) -> KeptBake:
        return KeptKeys(obj)

    def clear(self, obj: bpy.types.Object) -> None:
        clear_keys(obj)
