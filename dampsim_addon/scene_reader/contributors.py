"""Objects that contribute to the motion of a group, and simulations of Blender among them."""

from __future__ import annotations

from collections.abc import Generator

import bpy

from ..blender.dependencies import References
from ..blender.sampler import GroupSampler
from ..blender.simulation_caches import unbaked_simulations
from ..blender.untracked_inputs import untracked_inputs
from ..model.colliders import active_colliders_by_member
from ..model.force_fields import fields_acting_on


def direct_contributors(sampler: GroupSampler) -> list[bpy.types.Object]:
    """Return the members of a group, their colliders, and the force fields that act on them."""
    members, layer = [member.obj for member in sampler.members], sampler.view_layer
    colliders = [other for stops in active_colliders_by_member(members, layer) for other in stops]
    fields = [other for obj in members for other in fields_acting_on(obj, layer)]
    return list(dict.fromkeys([*members, *colliders, *fields]))


def run_simulations(sampler: GroupSampler, affected_only: bool = False) -> Generator[tuple[int, int, str]]:
    """Visit whole frames until all unbaked simulations on which a group depends are cached.

    affected_only: leave out simulations that do not depend on the group themselves.  Yields the number of visited
    frames, their total, and the names of the simulations.
    """
    references, members = References(), {member.obj for member in sampler.members}
    objects = references.reachable_objects(direct_contributors(sampler))
    caches = unbaked_simulations(sampler.scene, objects, members)
    if affected_only:
        caches = [cache for cache in caches if members & references.reachable(cache.owners)]
    first, last = min((cache.first for cache in caches), default=0), sampler.scene.frame_end
    if not caches or first > last:
        return
    # Jumps between frames may have left frames in a cache that do not follow from each other.
    for cache in caches:
        for obj in cache.owners:
            obj.update_tag()
    names = " and ".join(dict.fromkeys(cache.label for cache in caches))
    for done, frame in enumerate(range(first, last + 1), 1):
        sampler.set_frame(float(frame))
        yield done, last + 1 - first, names
    sampler.invalidate_frame()


def untracked_group_inputs(sampler: GroupSampler) -> list[str]:
    """Return the inputs of a group, in words, that may change without a depsgraph update."""
    references, members = References(), {member.obj for member in sampler.members}
    blocks = references.reachable(direct_contributors(sampler))
    objects = [block for block in blocks if isinstance(block, bpy.types.Object)]
    caches = unbaked_simulations(sampler.scene, objects, members)
    return untracked_inputs(blocks) + [f"{cache.label} that are not baked" for cache in caches]
