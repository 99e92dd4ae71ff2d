"""Conversion of simulated objects and their surroundings to a core scene."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import bpy
import numpy as np

from ...core import (
    Anchor,
    Array,
    Body,
    Collider,
    FibreDirection,
    FrontDirection,
    Index,
    MeshError,
    ParameterError,
    PinError,
    Scene,
    SceneError,
    SceneSample,
    SensorType,
    Surface,
    find_pieces,
    kind_by_name,
)
from ...core.base.arrays import Mask
from ...core.base.wording import closest_name
from ...core.bodies.solid import SolidKind
from ...core.bodies.weave import WeaveKind
from ...core.simulation.method_selection import supports_damping_map, torque_schemes
from ..blender.animation import animated_paths, has_keyed_points
from ..blender.collider_reader import ColliderReader
from ..blender.modifiers import has_deform_modifier, simulated_topology_modifiers
from ..blender.sampler import GroupSampler, Sampler, check_scale, frame_rate, gravity
from ..blender.vertex_groups import read_weights
from ..model.colliders import (
    active_colliders,
    active_colliders_by_member,
    check_roughness_group,
    roughness_group,
)
from ..model.groups import Group, cache_ids
from ..model.links import anchor_points, check_links, scene_links
from ..model.properties import effective_value, read_settings
from .muscles import build_controller, has_muscles, read_dampers
from .parts import assigned_parts, part_problem, read_parts
from .sample_reader import SampleReader, has_evaluated_pins
from .seams import seam_pairs


def find_colliders(sampler: GroupSampler) -> list[ColliderReader]:
    """Return readers of the colliders of all members, sorted by name."""
    by_member = active_colliders_by_member([member.obj for member in sampler.members], sampler.view_layer)
    collider_objects = sorted({other for stops in by_member for other in stops}, key=lambda other: str(other.name_full))
    return [ColliderReader(obj, obj.dampsim_collider.plane) for obj in collider_objects]


def collider_names(
    obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, known: Iterable[str]
) -> tuple[str, ...] | None:
    """Return the names of the colliders that act on a member; None for all known ones."""
    names = tuple(str(other.name_full) for other in active_colliders(obj, view_layer))
    # Objects that do not collide are marked in their settings.
    return None if not obj.dampsim.collide or set(names) == set(known) else names


# Properties of DAMPSIM_PG_object that name a vertex group.
VERTEX_GROUP_ROLES = (
    "pin_group", "settle_group", "stiffness_group", "length_group", "centre_group", "friction_group", "front_group",
    "fibre_group", "direction_group", "damping_group",
)  # fmt: skip


def has_group_effect(obj: bpy.types.Object, role: str) -> bool:
    """Return whether a vertex group has an effect with the other settings of an object. role: of the group."""
    group = obj.dampsim
    has_fibres = group.kind == SolidKind.name and bool(group.fibre_group)
    conditions: dict[str, bool] = {
        "stiffness_group": kind_by_name(group.kind).has_stiffness,
        "length_group": group.kind not in (SolidKind.name, WeaveKind.name),
        "front_group": group.front == FrontDirection.PAINTED,
        "fibre_group": has_fibres,
        "direction_group": has_fibres and group.fibres_along == FibreDirection.PAINTED,
        "damping_group": supports_damping_map(effective_value(group, "damping_by")),
    }
    if role != "centre_group":
        return conditions.get(role, True)
    try:
        return "RAYS" in torque_schemes(read_settings(obj))
    except ParameterError:
        # The bake refuses the invalid value.
        return True


def effective_groups(obj: bpy.types.Object) -> dict[str, str]:
    """Return the names of the chosen vertex groups that have an effect, by role."""
    chosen = {role: name for role in VERTEX_GROUP_ROLES if (name := getattr(obj.dampsim, role))}
    return {role: name for role, name in chosen.items() if has_group_effect(obj, role)}


def used_groups(obj: bpy.types.Object) -> dict[tuple[bpy.types.PropertyGroup, str], str]:
    """Return the names of the vertex groups whose weights a bake reads, by owner and name of the setting."""
    found = {(obj.dampsim, role): name for role, name in effective_groups(obj).items()}
    found |= {(part, "vertex_group"): part.vertex_group for part in assigned_parts(obj)}
    sensors = obj.dampsim.sensors if has_muscles(obj) else ()
    return found | {(one, "vertex_group"): one.vertex_group for one in sensors if one.sense != SensorType.LENGTH}


def missing_groups(obj: bpy.types.Object) -> dict[str, str]:
    """Return the names of the chosen vertex groups that have an effect, but do not exist, by role."""
    return {role: name for role, name in effective_groups(obj).items() if name not in obj.vertex_groups}


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
    for role, group in missing_groups(obj).items():
        role_label, closest = role.replace("_", " "), closest_name(group, obj.vertex_groups.keys())
        hint = f"Did you mean '{closest}'?" if closest else f"Choose another {role_label}."
        raise PinError(f"{obj.name}: {role_label} '{group}' is missing. {hint}")
    read_dampers(obj, obj.data)
    problem = part_problem(obj)
    if problem:
        raise PinError(f"{obj.name}: {problem}")
    check_scale(obj, np.array(obj.matrix_world))


def group_weights(obj: bpy.types.Object, rest: bpy.types.Object) -> dict[str, Array]:
    """Return the weights (v,) of the vertex groups that have an effect, by role. rest: see Sampler.rest_pose().

    Raises PinError if no vertex has a weight in the pin group.
    """
    chosen = effective_groups(obj)
    found = dict(zip(chosen, read_weights(rest, list(chosen.values())), strict=True))
    if "pin_group" in found:
        check_pin_weights(obj, found["pin_group"])
    return found


def check_pin_weights(obj: bpy.types.Object, weights: Array) -> None:
    """Raise PinError if no vertex has a weight in the pin group. weights: (v,)."""
    if not weights.max(initial=0.0) > 0.0:
        raise PinError(
            f"{obj.name}: no vertex has a weight in pin group '{obj.dampsim.pin_group}'. "
            "Assign vertices to it, or choose another group."
        )


def has_animated_pressure(obj: bpy.types.Object) -> bool:
    """Return whether the air pressure in a sheet is animated."""
    return obj.dampsim.kind == "CLOTH" and "dampsim.pressure" in animated_paths(obj)


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
    return read_scene(sampler)[0]


def read_scene(sampler: GroupSampler) -> tuple[Scene, SampleReader]:
    """Build the core scene of a group, and the reader of its samples. Raises a DampSimError before changes."""
    scene, layer, members = sampler.scene, sampler.view_layer, [member.obj for member in sampler.members]
    for obj in members:
        check_object(obj, layer)
    check_links(members)
    first_frame = float(scene.frame_start)
    bodies, matrices = [], {}
    identifiers = cache_ids(Group(tuple(members)))
    for member in sampler.members:
        bodies.append(_build_body(member, identifiers[member.obj.name]))
        # rest_pose() has set the scene to the first frame.
        matrices[member.obj.name] = member.matrix()
    sampler.invalidate_frame()
    links, collider_readers = scene_links(members, matrices), find_colliders(sampler)
    if links.anchors or collider_readers:
        sampler.set_frame(first_frame)
    reader = SampleReader(sampler, bodies, links.anchors, collider_readers)

    def sample(frame: float) -> SceneSample:
        sampler.set_frame(frame)
        return reader.read(sampler, frame)

    names = [one.name for one in collider_readers]
    core_scene = Scene(
        tuple(
            replace(body, colliders=collider_names(obj, layer, names))
            for body, obj in zip(bodies, members, strict=True)
        ),
        frame_rate(scene),
        np.array(gravity(scene)),
        scene.frame_start,
        scene.frame_end,
        links.links,
        tuple(Anchor(name, anchor_points(layer, *place)) for name, place in links.anchors.items()),
        tuple(_build_collider(one, layer, first_frame) for one in collider_readers),
        sample,
    )
    followers = (
        _follower_mask(core_scene, body) if obj.dampsim.unpinned_pieces == "FOLLOW" else None
        for body, obj in zip(core_scene.bodies, members, strict=True)
    )
    with_followers = (
        replace(body, follower_mask=mask) for body, mask in zip(core_scene.bodies, followers, strict=True)
    )
    return replace(core_scene, bodies=tuple(with_followers)), reader


def _build_collider(reader: ColliderReader, view_layer: bpy.types.ViewLayer, frame: float) -> Collider:
    """Build a collider at the current frame, which is the first one."""
    check_roughness_group(reader.obj, view_layer)
    vertices, triangles = reader.read_first_frame(view_layer, frame)
    roughness = reader.read_roughness(view_layer, roughness_group(reader.obj))
    return Collider(reader.name, vertices, triangles, reader.plane, roughness_map=roughness)


def _follower_mask(core_scene: Scene, body: Body) -> Mask | None:
    """Return the vertices (v,) of the pieces of a body that no pin or link reaches; None if there are none."""
    pieces = find_pieces(body, core_scene.link_points(body.name))
    return pieces.unreached_vertices if pieces.unreached_count else None


def _build_body(member: Sampler, cache_id: str) -> Body:
    obj = member.obj
    body_kind = kind_by_name(obj.dampsim.kind)
    solidify = member.trailing_solidify
    with member.rest_pose() as (vertices, rest):
        mesh = rest.data
        surface = Surface(obj.name, vertices, mesh_triangles(mesh), solidify)
        edge_pairs = mesh_edges(mesh) if body_kind.uses_edges else np.zeros((0, 2), dtype=np.int64)
        seam_edges = seam_pairs(obj, rest, surface) if body_kind.supports_seams else np.zeros((0, 2), dtype=np.int64)
        controller = build_controller(obj, rest, member.scene, member.view_layer)
        # The scene is at the first frame, so keyframed dials have their initial values.
        settings = read_settings(obj)
        weight_maps, parts, dampers = group_weights(obj, rest), read_parts(obj, rest), read_dampers(obj, mesh)
        columns = member.matrix()[:3, :3]
        axes = (columns / np.linalg.norm(columns, axis=0)).T

    body = Body(
        surface,
        weight_maps.get("pin_group", np.zeros(len(surface.vertices))),
        settings,
        body_kind.name,
        edge_pairs,
        settle_map=weight_maps.get("settle_group"),
        stiffness_map=weight_maps.get("stiffness_group"),
        length_map=weight_maps.get("length_group"),
        has_animated_settings=has_animated_dials(obj),
        has_animated_pressure=has_animated_pressure(obj),
        has_animated_pins="dampsim.hold" in animated_paths(obj) or has_evaluated_pins(obj),
        is_deforming=is_deformed(obj),
        cache_id=cache_id,
        centre_map=weight_maps.get("centre_group"),
        friction_map=weight_maps.get("friction_group"),
        front_map=weight_maps.get("front_group"),
        axes=axes,
        seams=seam_edges,
        controller=controller,
        fibre_map=weight_maps.get("fibre_group"),
        fibre_direction=weight_maps.get("direction_group"),
        parts=parts,
        dampers=dampers,
        damping_map=weight_maps.get("damping_group"),
    )
    body_kind.check(body)
    return body


def is_deformed(obj: bpy.types.Object) -> bool:
    """Return whether deforming modifiers, animated shape keys or keyed vertices change the user's mesh."""
    if has_deform_modifier(obj) or has_keyed_points(obj.data):
        return True
    keys = obj.data.shape_keys
    return keys is not None and bool(animated_paths(keys))


def has_animated_dials(obj: bpy.types.Object) -> bool:
    """Return whether keyframes, drivers or NLA strips animate the object's dials."""
    return any(path.startswith("dampsim.") for path in animated_paths(obj))
