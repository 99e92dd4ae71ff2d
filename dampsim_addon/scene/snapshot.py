"""Conversion of simulated objects and their surroundings to a core scene."""

from __future__ import annotations

from dataclasses import replace

import bpy
import numpy as np

from ...core.arrays import Array, Index
from ...core.bodies.registry import kind
from ...core.errors import MeshError, PinError, SceneError
from ...core.fields.field import Outside
from ...core.geometry.surface import Surface
from ...core.scene.body import Body
from ...core.scene.scene import Scene
from ..blender.animation import animated_paths
from ..blender.fields import gravity_moves, outside_now
from ..blender.modifiers import deforms, simulated_makers
from ..blender.sampler import GroupSampler, Sampler, check_scale, frame_rate, gravity
from ..blender.vertex_groups import weights
from .anchors import check_links, colliders, joined
from .force_fields import reaching
from .groups import Group, marks
from .muscles import controller_of, watched
from .obstacles import obstacles, stopping_names
from .properties import read_settings
from .seams import seams

# Properties of DampSimObject that name a vertex group.
GROUPS = (
    "pin_group", "settle_group", "stiffness_group", "length_group", "centre_group", "friction_group", "front_group",
    "fibre_group", "direction_group",
)  # fmt: skip


def check_object(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> None:
    """Raise MeshError, SceneError or PinError where an object cannot be simulated in its current state."""
    if obj.type != "MESH":
        raise MeshError(f"{obj.name}: only meshes can be simulated. Convert the object to a mesh first.")
    if obj.mode != "OBJECT":
        raise SceneError(f"{obj.name}: leave {obj.mode.title()} Mode before baking.")
    if obj.library is not None:
        raise SceneError(f"{obj.name}: the object is linked from another file. Bake it there, or make it local.")
    if not obj.visible_get(view_layer=view_layer):
        # Blender does not evaluate hidden objects, so their pins would not move.
        raise SceneError(f"{obj.name}: the object is hidden. Show it in the outliner before baking.")
    faces = len(obj.data.polygons) > 0 or bool(simulated_makers(obj))
    if kind(obj.dampsim.kind).needs_faces and not faces:
        raise MeshError(f"{obj.name}: the mesh has no faces. Choose an object with a closed surface.")
    for role in GROUPS:
        group = getattr(obj.dampsim, role)
        if group and group not in obj.vertex_groups:
            what = role.replace("_", " ")
            raise PinError(f"{obj.name}: {what} '{group}' is missing. Choose another {what}.")
    check_scale(obj, np.array(obj.matrix_world))


def group_weights(obj: bpy.types.Object, mesh: bpy.types.Mesh | None = None) -> dict[str, Array]:
    """Return the weights (v,) of the chosen vertex groups, by role. mesh: see read_weights().

    Raises PinError where the pin group is empty.
    """
    chosen = {role: name for role in GROUPS if (name := getattr(obj.dampsim, role))}
    found = dict(zip(chosen, weights(obj, list(chosen.values()), mesh), strict=True))
    if "pin_group" in found and not found["pin_group"].max(initial=0.0) > 0.0:
        raise PinError(
            f"{obj.name}: no vertex has a weight in pin group '{chosen['pin_group']}'. "
            "Assign vertices to it, or choose another group."
        )
    return found


def triangles(mesh: bpy.types.Mesh) -> Index:
    """Return the triangulated faces (t, 3) of a mesh."""
    mesh.calc_loop_triangles()
    flat = np.empty(3 * len(mesh.loop_triangles), dtype=np.int32)
    mesh.loop_triangles.foreach_get("vertices", flat)
    return flat.reshape(-1, 3).astype(np.int64)


def edges(mesh: bpy.types.Mesh) -> Index:
    """Return the edges (e, 2) of a mesh."""
    flat = np.empty(2 * len(mesh.edges), dtype=np.int32)
    mesh.edges.foreach_get("vertices", flat)
    return flat.reshape(-1, 2).astype(np.int64)


def take(sampler: GroupSampler) -> Scene:
    """Build the core scene of a group. Raises errors for the user before anything is changed."""
    scene, members = sampler.scene, [member.obj for member in sampler.members]
    for obj in members:
        check_object(obj, sampler.view_layer)
    check_links(members)
    first = float(scene.frame_start)
    bodies, matrices = [], {}
    known = marks(Group(tuple(members)))
    for member in sampler.members:
        bodies.append(_body(sampler, member, known[member.obj.name]))
        # rest_pose() has left the scene at the first frame.
        matrices[member.obj.name] = member.matrix()
    sampler.leave()
    found = joined(members, matrices)
    anchors = colliders(found.anchors, sampler.view_layer, sampler.go, first)
    stops, sampler.obstacles = obstacles(sampler, first)
    bodies = [
        replace(body, obstacles=stopping_names(obj, sampler.view_layer, sampler.obstacles))
        for body, obj in zip(bodies, members, strict=True)
    ]
    return Scene(
        tuple(bodies),
        frame_rate(scene),
        np.array(gravity(scene)),
        scene.frame_start,
        scene.frame_end,
        found.links,
        anchors,
        stops,
    )


def _body(sampler: GroupSampler, member: Sampler, mark: str) -> Body:
    obj = member.obj
    what = kind(obj.dampsim.kind)
    thick = member.thickener
    with member.resting() as (rest, mesh):
        surface = Surface(obj.name, rest, triangles(mesh), thick)
        lines = edges(mesh) if what.looks_at_edges else np.zeros((0, 2), dtype=np.int64)
        sewn = seams(obj, mesh, surface) if what.sews else np.zeros((0, 2), dtype=np.int64)
        controller = controller_of(obj, mesh, sampler.scene, sampler.view_layer)
        # Settings are read at the first frame, where keyframed dials have their initial values.
        settings = read_settings(obj)
        painted = group_weights(obj, mesh)
        columns = member.matrix()[:3, :3]
        axes = (columns / np.linalg.norm(columns, axis=0)).T

    def motion(frame: float) -> Array:
        sampler.go(frame)
        return member.here()

    others = reaching(obj, sampler.view_layer)

    def outside(frame: float) -> Outside:
        return outside_now(sampler.scene, sampler.view_layer, others)

    fibrous = "fibres" in what.sections(settings)
    body = Body(
        surface,
        painted.get("pin_group", np.zeros(len(surface.vertices))),
        settings,
        motion,
        what.name,
        lines,
        painted.get("settle_group"),
        painted.get("stiffness_group"),
        painted.get("length_group"),
        (lambda frame: read_settings(obj)) if has_keyed_dials(obj) else None,
        deforming(obj),
        mark,
        painted.get("centre_group"),
        outside if others or gravity_moves(sampler.scene) else None,
        painted.get("friction_group"),
        painted.get("front_group"),
        axes,
        seams=sewn,
        controller=controller,
        watched=None if controller is None else lambda frame: watched(obj, sampler.view_layer),
        fibre_map=painted.get("fibre_group") if fibrous else None,
        fibre_direction=painted.get("direction_group") if fibrous else None,
    )
    what.check(body)
    return body


def deforming(obj: bpy.types.Object) -> bool:
    """Return whether deforming modifiers or animated shape keys change the user's mesh."""
    if deforms(obj):
        return True
    keys = obj.data.shape_keys
    return keys is not None and bool(animated_paths(keys))


def has_keyed_dials(obj: bpy.types.Object) -> bool:
    """Return whether keyframes, drivers or NLA strips animate the object's dials."""
    return any(path.startswith("dampsim.") for path in animated_paths(obj))
