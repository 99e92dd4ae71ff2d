"""Conversion of the colliders of a group to those of a core scene."""

from __future__ import annotations

from collections.abc import Iterable

import bpy

from ...core.base.arrays import Array
from ...core.scene.collider import Collider
from ...core.scene.parameters import ColliderSettings
from ..blender.collider_reader import ColliderReader
from ..blender.sampler import GroupSampler
from ..model.colliders import active_colliders, active_colliders_by_member, read_collider_dials


def read_colliders(sampler: GroupSampler, first_frame: float) -> tuple[tuple[Collider, ...], dict[str, ColliderReader]]:
    """Return the colliders of all members, read through their sampler, and their readers by name."""
    by_member = active_colliders_by_member([member.obj for member in sampler.members], sampler.view_layer)
    collider_objects = sorted({other for stops in by_member for other in stops}, key=lambda other: str(other.name_full))
    readers = [ColliderReader(obj, obj.dampsim_collider.plane) for obj in collider_objects]
    if readers:
        sampler.set_frame(first_frame)
    return tuple(_read_collider(sampler, reader, first_frame) for reader in readers), {one.name: one for one in readers}


def _read_collider(sampler: GroupSampler, reader: ColliderReader, first_frame: float) -> Collider:
    vertices, triangles = reader.read_first_frame(sampler.view_layer, first_frame)

    def motion(frame: float) -> Array:
        sampler.set_frame(frame)
        return reader.world_positions(sampler.view_layer, frame)

    def dials(frame: float) -> ColliderSettings:
        return read_collider_dials(reader.obj)

    return Collider(reader.name, vertices, triangles, motion, dials, reader.plane)


def collider_names(
    obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, known: Iterable[str]
) -> tuple[str, ...] | None:
    """Return the names of the colliders that act on a member; None for all known ones."""
    names = tuple(str(other.name_full) for other in active_colliders(obj, view_layer))
    # Objects that do not collide are marked in their settings.
    return None if not obj.dampsim.collide or set(names) == set(known) else names
