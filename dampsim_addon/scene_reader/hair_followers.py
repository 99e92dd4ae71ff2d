"""Update of hair that follows simulated guides."""

from __future__ import annotations

from ..blender.hair import find_hair, hair_colliders, update_hair
from ..blender.sampler import GroupSampler
from ..model.colliders import active_colliders_by_member


def update_followers(sampler: GroupSampler) -> None:
    """Bring the hair that follows members of a group up to date with its guides and their colliders."""
    members = [member.obj for member in sampler.members]
    followers = [find_hair(obj) for obj in members]
    if not any(followers):
        return
    depsgraph = sampler.view_layer.depsgraph
    for hair, colliders in zip(followers, active_colliders_by_member(members, sampler.view_layer), strict=True):
        if hair:
            found = hair_colliders([(one, one.dampsim_collider.plane) for one in colliders], depsgraph)
            for obj in hair:
                update_hair(obj, found)
