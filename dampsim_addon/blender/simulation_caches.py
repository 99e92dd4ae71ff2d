"""Blender's own simulations, which only advance from whole frame to whole frame and keep their results in a cache.

Between two frames, Blender interpolates the cache. Without cached frames it holds the last one until the next whole
frame, so that all of the motion seems to happen in one substep. A simulation that was not baked must therefore run once
before it is sampled, with an empty cache: jumps between frames can leave frames of cloth in it that do not follow from
each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import bpy

from .dampsim_names import is_output_modifier
from .geometry_nodes import modifier_effect

# Modifiers through which particles move vertices.
_PARTICLE_USERS = {"DYNAMIC_PAINT", "EXPLODE", "FLUID", "PARTICLE_INSTANCE"}


@dataclass(frozen=True)
class SimulationCache:
    """Simulation that is not baked. owners: its objects.  first: first frame of its cache."""

    label: str
    owners: tuple[bpy.types.Object, ...]
    first: int


def unbaked_simulations(
    scene: bpy.types.Scene, objects: Iterable[bpy.types.Object], members: Iterable[bpy.types.Object]
) -> list[SimulationCache]:
    """Return the unbaked simulations of some objects. members: objects of which only sampled modifiers count."""
    objects, found = list(objects), []
    members = set(members)
    world = scene.rigidbody_world
    if (
        world is not None
        and world.enabled
        and not world.point_cache.is_baked
        and any(obj.rigid_body is not None or obj.rigid_body_constraint is not None for obj in objects)
    ):
        bodies = () if world.collection is None else tuple(world.collection.objects)
        found.append(SimulationCache("rigid bodies", bodies, world.point_cache.frame_start))
    uses_particles = any(m.type in _PARTICLE_USERS for obj in objects for m in obj.modifiers)
    for obj in objects:
        for modifier in obj.modifiers:
            is_sampled = modifier.show_viewport and not is_output_modifier(modifier)
            if is_sampled and (obj not in members or modifier.type == "NODES"):
                caches = _modifier_caches(modifier, scene, uses_particles)
                found += [SimulationCache(label, (obj,), first) for label, first in caches]
    return found


def _modifier_caches(modifier: Any, scene: bpy.types.Scene, uses_particles: bool) -> Iterator[tuple[str, int]]:
    """Iterate over a modifier's unbaked caches: (name of the simulation, first frame)."""
    if modifier.type in ("CLOTH", "SOFT_BODY"):
        if not modifier.point_cache.is_baked:
            yield "cloth" if modifier.type == "CLOTH" else "soft bodies", modifier.point_cache.frame_start
    elif modifier.type == "PARTICLE_SYSTEM":
        cache = modifier.particle_system.point_cache
        if uses_particles and not cache.is_baked:
            yield "particles", cache.frame_start
    elif modifier.type == "DYNAMIC_PAINT":
        canvas = modifier.canvas_settings
        for surface in canvas.canvas_surfaces if canvas is not None else ():
            if surface.is_active and surface.surface_format == "VERTEX" and not surface.point_cache.is_baked:
                yield "dynamic paint", surface.frame_start
    elif modifier.type == "FLUID":
        domain = modifier.domain_settings
        if modifier.fluid_type == "DOMAIN" and domain is not None and domain.cache_type == "REPLAY":
            yield "fluid", domain.cache_frame_start
    elif modifier.type == "NODES" and modifier_effect(modifier).has_simulation:
        yield "simulation nodes", scene.frame_start
