"""Conversion of simulated objects and their surroundings to a core scene."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import bpy
import numpy as np

from ...core import (
    Array,
    Body,
    Collider,
    ColliderSettings,
    ExternalForces,
    Index,
    MeshError,
    PinError,
    Scene,
    SceneError,
    Surface,
    kind_by_name,
)
from ..blender.animation import animated_paths
from ..blender.collider_reader import ColliderReader
from ..blender.fields import is_gravity_animated, read_external_forces
from ..blender.modifiers import has_deform_modifier, simulated_topology_modifiers
from ..blender.sampler import GroupSampler, Sampler, check_scale, frame_rate, gravity
from ..blender.vertex_groups import read_weights
from ..model.colliders import active_colliders, active_colliders_by_member, read_collider_dials
from ..model.force_fields import fields_acting_on
from ..model.groups import Group, cache_ids
from ..model.links import check_links, scene_anchors, scene_links
from ..model.properties import read_settings
from .muscles import build_controller, read_controller_inputs
from .seams import seam_pairs


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


# Properties of DampSimObject that name a vertex group.
VERTEX_GROUP_ROLES = (
    "pin_group", "settle_group", "stiffness_group", "length_group", "centre_group", "friction_group", "front_group",
    "fibre_group", "direction_group",
)  # fmt: skip


def check_object(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> None:
    """Raise MeshError, SceneError or PinError if an object cannot be simulated in its current state."""
    if obj.type != "MESH":
        raise MeshError(f"{obj.name}: only meshes can be simulated. Convert the object to a mesh first.")
    if obj.mode != "OBJECT":
        raise SceneError(f"{obj.name}: leave {obj.mode.title()} Mode before baking.")
    if obj.library is not None:
        raise SceneError(f"{obj.name}: the object is linked from another file. Bake it there, or make it local.")
    if not obj.visible_get(view_layer=view_layer):
        # Blender does not evaluate hidden objects, so their pins would not move.
        raise SceneError(f"{obj.name}: the object is hidden. Show it in the outliner before baking.")
    faces = len(obj.data.polygons) > 0 or bool(simulated_topology_modifiers(obj))
    if kind_by_name(obj.dampsim.kind).needs_faces and not faces:
        raise MeshError(f"{obj.name}: the mesh has no faces. Choose an object with a closed surface.")
    for role in VERTEX_GROUP_ROLES:
        group = getattr(obj.dampsim, role)
        if group and group not in obj.vertex_groups:
            what = role.replace("_", " ")
            raise PinError(f"{obj.name}: {what} '{group}' is missing. Choose another {what}.")
    check_scale(obj, np.array(obj.matrix_world))


def group_weights(obj: bpy.types.Object, mesh: bpy.types.Mesh | None = None) -> dict[str, Array]:
    """Return the weights (v,) of the chosen vertex groups, by role. mesh: see read_weights().

    Raises PinError if no vertex has a weight in the pin group.
    """
    chosen = {role: name for role in VERTEX_GROUP_ROLES if (name := getattr(obj.dampsim, role))}
    found = dict(zip(chosen, read_weights(obj, list(chosen.values()), mesh), strict=True))
    if "pin_group" in found and not found["pin_group"].max(initial=0.0) > 0.0:
        raise PinError(
            f"{obj.name}: no vertex has a weight in pin group '{chosen['pin_group']}'. "
            "Assign vertices to it, or choose another group."
        )
    return found


def mesh_triangles(mesh: bpy.types.Mesh) -> Index:
    """Return the triangulated faces (t, 3) of a mesh."""
    mesh.calc_loop_triangles()
    flat = np.empty(3 * len(mesh.loop_triangles), dtype=np.int32)
    mesh.loop_triangles.foreach_get("vertices", flat)
    return flat.reshape(-1, 3).astype(np.int64)


def mesh_edges(mesh: bpy.types.Mesh) -> Index:
    """Return the edges (e, 2) of a mesh."""
    flat = np.empty(2 * len(mesh.edges), dtype=np.int32)
    mesh.edges.foreach_get("vertices", flat)
    return flat.reshape(-1, 2).astype(np.int64)


def build_scene(sampler: GroupSampler) -> Scene:
    """Build the core scene of a group. Raises a DampSimError before anything is changed."""
    scene, members = sampler.scene, [member.obj for member in sampler.members]
    for obj in members:
        check_object(obj, sampler.view_layer)
    check_links(members)
    first_frame = float(scene.frame_start)
    bodies, matrices = [], {}
    identifiers = cache_ids(Group(tuple(members)))
    for member in sampler.members:
        bodies.append(_build_body(sampler, member, identifiers[member.obj.name]))
        # rest_pose() has set the scene to the first frame.
        matrices[member.obj.name] = member.matrix()
    sampler.invalidate_frame()
    links_and_anchors = scene_links(members, matrices)
    anchors = scene_anchors(links_and_anchors.anchors, sampler.view_layer, sampler.set_frame, first_frame)
    scene_colliders, sampler.collider_readers = read_colliders(sampler, first_frame)
    bodies = [
        replace(body, colliders=collider_names(obj, sampler.view_layer, sampler.collider_readers))
        for body, obj in zip(bodies, members, strict=True)
    ]
    return Scene(
        tuple(bodies),
        frame_rate(scene),
        np.array(gravity(scene)),
        scene.frame_start,
        scene.frame_end,
        links_and_anchors.links,
        anchors,
        scene_colliders,
    )


def _build_body(sampler: GroupSampler, member: Sampler, cache_id: str) -> Body:
    obj = member.obj
    body_kind = kind_by_name(obj.dampsim.kind)
    solidify = member.trailing_solidify
    with member.rest_pose() as (rest, mesh):
        surface = Surface(obj.name, rest, mesh_triangles(mesh), solidify)
        edge_pairs = mesh_edges(mesh) if body_kind.uses_edges else np.zeros((0, 2), dtype=np.int64)
        seam_edges = seam_pairs(obj, mesh, surface) if body_kind.supports_seams else np.zeros((0, 2), dtype=np.int64)
        controller = build_controller(obj, mesh, sampler.scene, sampler.view_layer)
        # The scene is at the first frame, so keyframed dials have their initial values.
        settings = read_settings(obj)
        weight_maps = group_weights(obj, mesh)
        columns = member.matrix()[:3, :3]
        axes = (columns / np.linalg.norm(columns, axis=0)).T

    def motion(frame: float) -> Array:
        sampler.set_frame(frame)
        return member.world_positions()

    field_objects = fields_acting_on(obj, sampler.view_layer)

    def external_forces(frame: float) -> ExternalForces:
        return read_external_forces(sampler.scene, sampler.view_layer, field_objects)

    has_fibres = "fibres" in body_kind.sections(settings)
    body = Body(
        surface,
        weight_maps.get("pin_group", np.zeros(len(surface.vertices))),
        settings,
        motion,
        body_kind.name,
        edge_pairs,
        weight_maps.get("settle_group"),
        weight_maps.get("stiffness_group"),
        weight_maps.get("length_group"),
        (lambda frame: read_settings(obj)) if has_animated_dials(obj) else None,
        is_deformed(obj),
        cache_id,
        weight_maps.get("centre_group"),
        external_forces if field_objects or is_gravity_animated(sampler.scene) else None,
        weight_maps.get("friction_group"),
        weight_maps.get("front_group"),
        axes,
        seams=seam_edges,
        controller=controller,
        sensor_inputs=None if controller is None else lambda frame: read_controller_inputs(obj, sampler.view_layer),
        fibre_map=weight_maps.get("fibre_group") if has_fibres else None,
        fibre_direction=weight_maps.get("direction_group") if has_fibres else None,
    )
    body_kind.check(body)
    return body


def is_deformed(obj: bpy.types.Object) -> bool:
    """Return whether deforming modifiers or animated shape keys change the user's mesh."""
    if has_deform_modifier(obj):
        return True
    keys = obj.data.shape_keys
    return keys is not None and bool(animated_paths(keys))


def has_animated_dials(obj: bpy.types.Object) -> bool:
    """Return whether keyframes, drivers or NLA strips animate the object's dials."""
    return any(path.startswith("dampsim.") for path in animated_paths(obj))
