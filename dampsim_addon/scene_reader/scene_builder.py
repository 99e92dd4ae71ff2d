"""Conversion of simulated objects, with their seams, and their surroundings to a core scene."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from ...core.base.wording import closest_name
from ...core.bodies.solid import SolidKind
from ...core.bodies.weave import WeaveKind
from ...core.geometry.mesh.rigid_motion import transform_points
from ...core.geometry.mesh.seams import SeamError, pair_border_vertices
from ...core.scene.scene import MAX_COORDINATE
from ...core.simulation.method_selection import supports_damping_map, torque_schemes
from ..blender.animation import animated_paths, has_keyed_points
from ..blender.collider_reader import ColliderReader
from ..blender.modifiers import has_deform_modifier, simulated_topology_modifiers
from ..blender.sampler import GroupSampler, Sampler, check_scale, frame_rate, gravity, mode_name, read_array
from ..blender.vertex_groups import read_weights
from ..model.colliders import active_colliders_by_member, check_roughness_group, roughness_group
from ..model.groups import Group, cache_ids
from ..model.links import anchor_points, check_links, scene_links
from ..model.properties import VERTEX_GROUP_ROLES, effective_value, read_settings
from .muscles import build_controller, has_muscles, read_dampers
from .parts import assigned_parts, find_wrong_part, read_parts
from .sample_reader import SampleReader, has_evaluated_pins

# Prefix of the names of seam groups, in lower case.
_SEAM_PREFIX = "seam"


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


def reaches_too_far(obj: bpy.types.Object) -> bool:
    """Return whether an object reaches farther from the world origin than a simulation allows."""
    corners = transform_points(np.array(obj.matrix_world), np.array(obj.bound_box))
    return bool(np.isfinite(corners).all()) and not np.abs(corners).max() < MAX_COORDINATE


def check_object(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> None:
    """Raise MeshError, SceneError or PinError if an object cannot be simulated in its current state."""
    if obj.type != "MESH":
        raise MeshError(f"{obj.name}: only meshes can be simulated. Convert the object to a mesh first.")
    if obj.mode != "OBJECT":
        mode = mode_name(obj)
        raise SceneError(f"{obj.name}: leave {mode} Mode before baking.")
    if obj.library is not None:
        raise SceneError(f"{obj.name}: the object is linked from another file. Bake it there, or make it local.")
    if not obj.visible_get(view_layer=view_layer):
        # Blender does not evaluate hidden objects, so their pins would not move.
        raise SceneError(f"{obj.name}: the object is hidden. Show it in the outliner before baking.")
    faces = len(obj.data.polygons) > 0 or bool(simulated_topology_modifiers(obj))
    if kind_by_name(obj.dampsim.kind).needs_faces and not faces:
        raise MeshError(f"{obj.name}: the mesh has no faces. Add faces, or choose Rope or Springs as its Kind.")
    for role, group in missing_groups(obj).items():
        role_label, closest = role.replace("_", " "), closest_name(group, obj.vertex_groups.keys())
        hint = f"Did you mean '{closest}'?" if closest else f"Choose another {role_label}."
        raise PinError(f"{obj.name}: {role_label} '{group}' is missing. {hint}")
    read_dampers(obj, obj.data)
    wrong_part = find_wrong_part(obj)
    if wrong_part is not None:
        raise PinError(f"{obj.name}: {wrong_part[1]}")
    matrix = np.array(obj.matrix_world)
    check_scale(obj, matrix)
    if reaches_too_far(obj):
        raise SceneError(
            f"{obj.name}: it reaches farther than a million km from the world origin. Move it closer or scale it down."
        )


def painted_maps(obj: bpy.types.Object, rest: bpy.types.Object) -> dict[str, Any]:
    """Return the weights (v,) of the vertex groups that have an effect, by the attribute of Body that holds them.

    rest: see Sampler.rest_pose().  Raises PinError if no vertex has a weight in the pin group.
    """
    chosen, special = effective_groups(obj), {"pin_group": "pins", "direction_group": "fibre_direction"}
    names = [special.get(role, role.replace("_group", "_map")) for role in chosen]
    found = dict(zip(names, read_weights(rest, list(chosen.values())), strict=True))
    if "pins" in found:
        check_pin_weights(obj, found["pins"])
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
    return read_array(mesh.loop_triangles, "vertices", np.int32, 3).astype(np.int64)


def mesh_edges(mesh: bpy.types.Mesh) -> Index:
    """Return the edges (e, 2) of a mesh."""
    return read_array(mesh.edges, "vertices", np.int32, 2).astype(np.int64)


def edges_and_seams(obj: bpy.types.Object, rest: bpy.types.Object, surface: Surface) -> dict[str, Any]:
    """Return the edges and seams of a body, as far as its kind uses them. rest: see Sampler.rest_pose()."""
    kind = kind_by_name(obj.dampsim.kind)
    edges = {"edges": mesh_edges(rest.data)} if kind.uses_edges else {}
    return {**edges, "seams": seam_pairs(obj, rest, surface)} if kind.supports_seams else edges


def local_axes(matrix: Array) -> Array:
    """Return the local axes of an object in world space, one per row. matrix: (4, 4) to world space."""
    columns = matrix[:3, :3]
    return np.asarray((columns / np.linalg.norm(columns, axis=0)).T)


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
    links, anchors = scene_links(members, matrices)
    by_member = active_colliders_by_member(members, layer)
    collider_objects = sorted({other for stops in by_member for other in stops}, key=lambda other: str(other.name_full))
    collider_readers = [ColliderReader(obj, obj.dampsim_collider.plane) for obj in collider_objects]
    if anchors or collider_readers:
        sampler.set_frame(first_frame)
    reader = SampleReader(sampler, bodies, anchors, collider_readers)

    def sample(frame: float) -> SceneSample:
        sampler.set_frame(frame)
        return reader.read(sampler, frame)

    for place, stops in enumerate(by_member):
        # None stands for all. Objects that do not collide are marked in their settings.
        if members[place].dampsim.collide and set(stops) != set(collider_objects):
            names = tuple(str(other.name_full) for other in stops)
            bodies[place] = replace(bodies[place], colliders=names)
    core_scene = Scene(
        tuple(bodies),
        frame_rate(scene),
        np.array(gravity(scene)),
        scene.frame_start,
        scene.frame_end,
        links,
        tuple(Anchor(name, anchor_points(layer, *place)) for name, place in anchors.items()),
        tuple(_build_collider(one, layer, first_frame) for one in collider_readers),
        sample,
    )
    for place, obj in enumerate(members):
        if obj.dampsim.unpinned_pieces == "FOLLOW":
            pieces = find_pieces(bodies[place], core_scene.link_points(obj.name))
            followers = pieces.unreached_vertices if pieces.unreached_count and pieces.can_follow else None
            bodies[place] = replace(bodies[place], follower_mask=followers)
    return replace(core_scene, bodies=tuple(bodies)), reader


def _build_collider(reader: ColliderReader, view_layer: bpy.types.ViewLayer, frame: float) -> Collider:
    """Build a collider at the current frame, which is the first one."""
    check_roughness_group(reader.obj, view_layer)
    vertices, triangles = reader.read_first_frame(view_layer, frame)
    roughness = reader.read_roughness(view_layer, roughness_group(reader.obj))
    return Collider(reader.name, vertices, triangles, reader.plane, roughness_map=roughness)


def _build_body(member: Sampler, cache_id: str) -> Body:
    obj, animated = member.obj, animated_paths(member.obj)
    solidify = member.trailing_solidify
    with member.rest_pose() as (vertices, rest):
        surface = Surface(obj.name, vertices, mesh_triangles(rest.data), solidify)
        pairs = edges_and_seams(obj, rest, surface)
        controller = build_controller(obj, rest, member.scene, member.view_layer)
        # The scene is at the first frame, so keyframed dials have their initial values.
        settings = read_settings(obj)
        maps, parts, dampers = painted_maps(obj, rest), read_parts(obj, rest), read_dampers(obj, rest.data)
        axes = local_axes(member.matrix())

    body = Body(
        surface,
        maps.pop("pins", np.zeros(len(surface.vertices))),
        settings,
        obj.dampsim.kind,
        # Keyframes, drivers and NLA strips of the object's dials.
        has_animated_settings=any(path.startswith("dampsim.") for path in animated),
        has_animated_pressure=has_animated_pressure(obj),
        has_animated_pins="dampsim.hold" in animated or has_evaluated_pins(obj),
        is_deforming=is_deformed(obj),
        cache_id=cache_id,
        axes=axes,
        controller=controller,
        parts=parts,
        dampers=dampers,
        **maps,
        **pairs,
    )
    kind_by_name(body.kind).check(body)
    return body


def is_deformed(obj: bpy.types.Object) -> bool:
    """Return whether deforming modifiers, animated shape keys or keyed vertices change the user's mesh."""
    if has_deform_modifier(obj) or has_keyed_points(obj.data):
        return True
    keys = obj.data.shape_keys
    return keys is not None and bool(animated_paths(keys))


def seam_groups(obj: bpy.types.Object) -> list[str]:
    """Return the names of the vertex groups that mark seams."""
    return [group.name for group in obj.vertex_groups if group.name.lower().startswith(_SEAM_PREFIX)]


def seam_pairs(obj: bpy.types.Object, rest: bpy.types.Object, surface: Surface) -> Index:
    """Return pairs (s, 2) of sewn vertices. Raises MeshError where the borders of a group do not match.

    rest: see Sampler.rest_pose().
    """
    loose = _loose_edges(rest.data) if obj.dampsim.sew_loose_edges else np.zeros((0, 2), np.int64)
    names, found = seam_groups(obj), [loose]
    for name, painted in zip(names, read_weights(rest, names), strict=True):
        found.append(_group_seam_pairs(obj.name, name, surface, painted))
    return np.concatenate(found)


def _group_seam_pairs(owner: str, name: str, surface: Surface, painted: Array) -> Index:
    try:
        return pair_border_vertices(surface.vertices, surface.triangles, painted > 0.0)
    except SeamError as error:
        raise MeshError(
            f"{owner}: vertex group '{name}' {error}. Assign the vertices of both borders to be sewn, "
            "or rename the group."
        ) from error


def _loose_edges(mesh: bpy.types.Mesh) -> Index:
    """Return the edges (e, 2) without faces."""
    ends = np.empty(2 * len(mesh.edges), dtype=np.int32)
    mesh.edges.foreach_get("vertices", ends)
    used = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("edge_index", used)
    is_loose = np.ones(len(mesh.edges), dtype=bool)
    is_loose[used] = False
    return np.asarray(ends.reshape(-1, 2)[is_loose], dtype=np.int64)
