"""Conversion of the colliders of a group to those of a core scene."""

from __future__ import annotations

from collections.abc import Iterable

import bpy

from ...core.arrays import Array
from ...core.scene.collider import Obstacle
from ...core.scene.parameters import ColliderDials
from ..blender.obstacles import ObstacleReader
from ..blender.sampler import GroupSampler
from .colliders import read_dials, stopping, stopping_each


def obstacles(sampler: GroupSampler, first: float) -> tuple[tuple[Obstacle, ...], dict[str, ObstacleReader]]:
    """Return the colliders of all members, read through their sampler, and their readers by name."""
    each = stopping_each([member.obj for member in sampler.members], sampler.view_layer)
    others = sorted({other for stops in each for other in stops}, key=lambda other: str(other.name_full))
    readers = [ObstacleReader(obj, obj.dampsim_collider.plane) for obj in others]
    if readers:
        sampler.go(first)
    return tuple(_obstacle(sampler, reader, first) for reader in readers), {one.name: one for one in readers}


def _obstacle(sampler: GroupSampler, reader: ObstacleReader, first: float) -> Obstacle:
    vertices, triangles = reader.begin(sampler.view_layer, first)

    def motion(frame: float) -> Array:
        sampler.go(frame)
        return reader.here(sampler.view_layer, frame)

    def dials(frame: float) -> ColliderDials:
        return read_dials(reader.obj)

    return Obstacle(reader.name, vertices, triangles, motion, dials, reader.plane)


def stopping_names(
    obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, known: Iterable[str]
) -> tuple[str, ...] | None:
    """Return the names of the colliders that act on a member; None for all known ones."""
    own = tuple(str(other.name_full) for other in stopping(obj, view_layer))
    # Objects that do not collide are marked in their settings.
    return None if not obj.dampsim.collide or set(own) == set(known) else own
