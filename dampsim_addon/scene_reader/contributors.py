"""Contributors to the motion of a group, objects that Blender evaluates, its simulations, and untracked inputs.

Blender's own simulations only advance from whole frame to whole frame and keep their results in a cache. Between two
frames, Blender interpolates the cache. Without cached frames it holds the last one until the next whole frame, so that
all of the motion seems to happen in one substep. A simulation that was not baked must therefore run once before it is
sampled, with an empty cache: jumps between frames can leave frames of cloth in it that do not follow from each other.

Untracked inputs can change without a depsgraph update: images, files, Python drivers, and handlers of other add-ons.
Live cannot know whether frames that depend on them still match the scene.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import bpy

from ...core import SceneError
from ..blender.animation import driver_targets, drivers_of
from ..blender.dampsim_names import is_bake_cache_file, is_output_modifier
from ..blender.geometry_nodes import modifier_effect, node_effect
from ..blender.hair import find_hair, hair_colliders, update_hair
from ..blender.modifiers import is_read_by_others
from ..blender.movers import PARTICLE_USERS, References, has_object
from ..blender.sampler import GroupSampler
from ..model.colliders import active_colliders_by_member
from ..model.force_fields import fields_acting_on
from ..model.object_index import ObjectIndex
from ..model.objects import is_simulated
from ..session import SessionState, Subscriber, has_frame_handlers_of_others


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
        affected = references.influenced([one for cache in caches for one in cache.owners], members)
        caches = [cache for cache in caches if affected.intersection(cache.owners)]
    first, last = min((cache.first for cache in caches), default=0), sampler.scene.frame_end
    if not caches or first > last:
        return
    early = next((cache for cache in caches if cache.label == _RIGID_BODIES and cache.first < 0), None)
    if early is not None:
        raise SceneError(
            f"{sampler.members[0].obj.name}: it depends on rigid bodies that start at frame {early.first}, but Blender "
            "keeps no rigid bodies before frame 0. Bake them, or set Simulation Start of the rigid body world to 1."
        )
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
    scene_drivers = [target.id for curve in drivers_of(sampler.scene) for target in driver_targets(curve.driver)]
    roots = [*direct_contributors(sampler), *filter(None, scene_drivers)]
    # Drivers of the scene change gravity, and other drivers read its properties.
    blocks = {*references.reachable(roots), sampler.scene}
    objects = [block for block in blocks if isinstance(block, bpy.types.Object)]
    caches = unbaked_simulations(sampler.scene, objects, members)
    return untracked_inputs(blocks) + [f"{cache.label} that are not baked" for cache in caches]


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


def is_in_viewports(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> bool:
    """Return whether an object is enabled in viewports, where Blender evaluates it. The eye icon has no effect."""
    is_in_layer = has_object(layer.objects, obj)
    return is_in_layer and not obj.hide_viewport and any(not one.hide_viewport for one in obj.users_collection)


def is_evaluated_for_others(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> bool:
    """Return whether Blender evaluates an object even while it is disabled, because an enabled one depends on it.

    Blender does not evaluate the targets of an object's own links and sensors for that object.
    """
    enabled = [one for one in filter(None, layer.objects) if one != obj and is_in_viewports(one, layer)]
    simulated = [one for one in enabled if is_simulated(one)]
    roots: list[bpy.types.ID] = [one for one in enabled if one not in simulated]
    for one in simulated:
        roots += _motion_references(one)
    return obj in References().reachable(roots)


def _motion_references(obj: bpy.types.Object) -> list[bpy.types.ID]:
    """Return the datablocks that move an object: parent, targets of constraints, modifiers and drivers."""
    pointers = [obj, *obj.constraints, *obj.modifiers]
    found = [
        getattr(owner, prop.identifier)
        for owner in pointers
        for prop in owner.bl_rna.properties
        if prop.type == "POINTER" and prop.identifier not in ("original", "dampsim", "dampsim_collider")
    ]
    found += [target.id for curve in drivers_of(obj) for target in driver_targets(curve.driver)]
    return [one for one in found if isinstance(one, bpy.types.ID)]


_RIGID_BODIES = "rigid bodies"


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
        found.append(SimulationCache(_RIGID_BODIES, bodies, world.point_cache.frame_start))
    uses_particles = any(m.type in PARTICLE_USERS for obj in objects for m in obj.modifiers)
    for obj in objects:
        for modifier in obj.modifiers:
            is_sampled = modifier.show_viewport and not is_output_modifier(modifier)
            if is_sampled and (obj not in members or modifier.type == "NODES" or is_read_by_others(modifier)):
                caches = unbaked_caches(modifier, scene, uses_particles)
                found += [SimulationCache(label, (obj,), first) for label, first in caches]
    return found


def unbaked_caches(modifier: Any, scene: bpy.types.Scene, uses_particles: bool) -> Iterator[tuple[str, int]]:
    """Iterate over a modifier's unbaked caches: (name of the simulation, first frame).

    uses_particles: whether particles move vertices.
    """
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


# Types of datablocks whose content is read from files.
_FILE_TYPES = (bpy.types.Image, bpy.types.MovieClip, bpy.types.CacheFile, bpy.types.Sound, bpy.types.Volume)


def untracked_inputs(blocks: Iterable[bpy.types.ID]) -> list[str]:
    """Return the untracked inputs among some datablocks, in words."""
    found = []
    for block in sorted(blocks, key=lambda one: str(one.name_full)):
        if isinstance(block, _FILE_TYPES) and not (
            isinstance(block, bpy.types.CacheFile) and is_bake_cache_file(block)
        ):
            found.append(f"{block.bl_rna.name.lower()} {block.name}")
        elif isinstance(block, bpy.types.NodeTree) and block.bl_idname == "GeometryNodeTree":
            if node_effect(block).reads_files:
                found.append(f"a file of {block.name}")
        elif isinstance(block, bpy.types.Object):
            found += [f"the file of {m.name}" for m in block.modifiers if _plays_file(m) and not is_output_modifier(m)]
            if SteppedRigIndex.is_match(block):
                found.append(f"the iTaSC solver of {block.name}")
        if any(not is_tracked_driver(curve.driver) for curve in drivers_of(block)):
            found.append(f"a Python driver of {block.name}")
    return found


def _plays_file(modifier: Any) -> bool:
    """Return whether a modifier plays a motion or a simulation from files beside the .blend file."""
    if modifier.type == "FLUID":
        domain = modifier.domain_settings
        return modifier.fluid_type == "DOMAIN" and domain is not None and domain.cache_type != "REPLAY"
    owner = modifier.particle_system if modifier.type == "PARTICLE_SYSTEM" else modifier
    cache = getattr(owner, "point_cache", None)
    return modifier.type == "MESH_CACHE" or (cache is not None and cache.use_external)


class SteppedRigIndex(ObjectIndex):
    """Index of the rigs whose inverse kinematics depend on the frames that were evaluated before."""

    @staticmethod
    def is_match(obj: bpy.types.Object) -> bool:
        pose = obj.pose
        if pose is None or pose.ik_solver != "ITASC" or pose.ik_param.mode != "SIMULATION":
            return False
        return any(one.type == "IK" and not one.mute for bone in pose.bones for one in bone.constraints)


def stepped_rig(objects: Iterable[bpy.types.Object]) -> bpy.types.Object | None:
    """Return a rig of SteppedRigIndex that may move some objects, or None."""
    rigs = SteppedRigIndex.current().objects()
    reached = References().reachable(objects) if rigs else set()
    return next((rig for rig in rigs if rig in reached), None)


class _KnownRigs(SessionState, dict[tuple[tuple[int, ...], ...], int | None]):
    """Session uids of the results of stepped_rig() since the last update, by those of the rigs and the objects."""

    survives_undo = False


def known_stepped_rig(objects: Iterable[bpy.types.Object]) -> bpy.types.Object | None:
    """Return the result of stepped_rig(), which is searched once after each update: panels are drawn more often."""
    rigs, objects = SteppedRigIndex.current().objects(), list(objects)
    if not rigs:
        return None
    known = _KnownRigs.current()
    key = tuple(tuple(one.session_uid for one in found) for found in (rigs, objects))
    if key not in known:
        found = stepped_rig(objects)
        known[key] = None if found is None else found.session_uid
    return next((rig for rig in rigs if rig.session_uid == known[key]), None)


def _forget_rigs(*_: object) -> None:
    _KnownRigs.current().clear()


def is_tracked_driver(driver: bpy.types.Driver) -> bool:
    """Return whether a driver depends only on its variables and the frame.

    Blender evaluates simple expressions without Python. In any other one, scripts can replace each name, even `sin`.
    """
    return driver.type != "SCRIPTED" or bool(driver.is_simple_expression)


def frame_handler_inputs() -> list[str]:
    """Return in words that scripts or other add-ons have handlers of frame changes, which may move anything."""
    return ["a script that runs at each frame"] if has_frame_handlers_of_others() else []


SUBSCRIBER = Subscriber("contributors", {"depsgraph_update_post": _forget_rigs})
