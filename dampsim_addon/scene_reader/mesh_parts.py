"""Parts of an object's mesh: pieces that pins and links reach or not, and vertices without bone weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import bpy
import numpy as np

from ...core import Array, Body, DampSimError, Index, Pieces, Surface, find_pieces, kind_by_name
from ...core.base.arrays import Mask
from ...core.bodies.pieces import label_pieces
from ...core.geometry.mesh.rigid_motion import transform_points
from ...core.geometry.mesh.triangles import nearest_source
from ..blender.animation import animated_paths
from ..blender.bone_envelopes import enveloped_vertices
from ..blender.modifiers import has_weight_modifier, simulated_topology_modifiers, trailing_solidify
from ..blender.sampler import read_array
from ..blender.vertex_groups import MAX_EXPORTED_BONES, keep_largest_weights, read_weights, sum_weights
from ..model.groups import group_of
from ..model.properties import read_settings
from .bone_chains import bone_influences, influence_names
from .muscles import build_controller
from .pin_proposals import modelled_world_vertices
from .scene_builder import (
    check_pin_weights,
    edges_and_seams,
    has_animated_pressure,
    local_axes,
    mesh_edges,
    mesh_triangles,
    painted_maps,
)

# Difference from weight 1 that is a rounding error.
_PIN_ROUNDING = 1e-5
# Distance from the simulated parts, relative to their size, beyond which a vertex without an element is far away.
_FAR_DISTANCE = 1.0


@dataclass(frozen=True)
class MeshParts:
    """Parts of a mesh as modelled, without vertices that modifiers generate.

    boneless: (v,) vertices that no bone moves, if bones move others.
    enveloped: (v,) vertices that bones move by envelopes instead of weights.
    overweighted: (v,) vertices that more than MAX_EXPORTED_BONES bones move.
    faceless: (v,) vertices without faces.
    far: (v,) vertices without an element that are far from all others, so that they set the size of the object.
    is_fully_pinned: whether the pin group holds every vertex.
    """

    pieces: Pieces
    boneless: Mask
    enveloped: Mask
    overweighted: Mask
    faceless: Mask
    far: Mask
    is_fully_pinned: bool


def read_mesh_parts(obj: bpy.types.Object, labels: Index | None = None) -> MeshParts | None:
    """Return the parts of an object's mesh; None if it has no vertices.

    labels: pieces of the vertices, if they are known.  Raises DampSimError if it cannot be simulated as it is.
    """
    if not len(obj.data.vertices):
        return None
    body = checked_body(obj)
    total, bone_count = sum_weights(obj, _skin_bones(obj))
    pieces, enveloped = find_pieces(body, _link_points(obj), labels), enveloped_vertices(obj)
    return MeshParts(
        pieces,
        _boneless_vertices(total) & ~enveloped,
        enveloped,
        bone_count > MAX_EXPORTED_BONES,
        _faceless_vertices(obj.data),
        _far_vertices(body.surface.vertices, pieces.unconnected_vertices),
        is_fully_pinned(body) and not has_changing_pins(obj),
    )


def is_fully_pinned(body: Body) -> bool:
    """Return whether pins always hold every vertex of a body, so that it only follows its animation."""
    return not body.has_changing_pins and bool((body.pins >= 1.0 - _PIN_ROUNDING).all())


def has_changing_pins(obj: bpy.types.Object) -> bool:
    """Return whether Hold or modifiers change the weights of the pin group."""
    return (
        obj.dampsim.hold != 1.0
        or "dampsim.hold" in animated_paths(obj)
        or has_weight_modifier(obj, obj.dampsim.pin_group)
    )


def checked_body(obj: bpy.types.Object) -> Body:
    """Return modelled_body(). Raises DampSimError also if its pins or its kind do not allow a simulation."""
    body = modelled_body(obj)
    if obj.dampsim.pin_group in obj.vertex_groups:
        check_pin_weights(obj, body.pins)
    if not simulated_topology_modifiers(obj):
        kind_by_name(body.kind).check(body)
    return body


def modelled_body(obj: bpy.types.Object) -> Body:
    """Return the body of an object as modelled, with its pins only. Raises DampSimError."""
    solidify = trailing_solidify(obj)
    surface = Surface(
        obj.name, modelled_world_vertices(obj), mesh_triangles(obj.data), solidify.name if solidify else ""
    )
    name = obj.dampsim.pin_group
    return Body(
        surface,
        read_weights(obj, [name])[0] if name in obj.vertex_groups else np.zeros(len(surface.vertices)),
        read_settings(obj),
        obj.dampsim.kind,
        has_animated_pressure=has_animated_pressure(obj),
        **edges_and_seams(obj, obj, surface),
    )


def complete_body(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> Body:
    """Return the body of an object as modelled, with its maps and muscles. Raises DampSimError.

    It has all inputs of its model, except for vertices that modifiers generate.
    """
    body, maps = modelled_body(obj), painted_maps(obj, obj)
    model_maps = {one: maps.get(one) for one in ("stiffness_map", "length_map", "fibre_map", "fibre_direction")}
    axes = local_axes(np.array(obj.matrix_world))
    return replace(body, **model_maps, axes=axes, controller=build_controller(obj, obj, scene, layer))


def modelled_labels(obj: bpy.types.Object) -> Index | None:
    """Return the piece (v,) of each vertex, see label_pieces(); None if the mesh cannot be simulated as it is."""
    try:
        return label_pieces(modelled_body(obj))
    except DampSimError:
        return None


def _link_points(obj: bpy.types.Object) -> Array:
    """Return the points (k, 3) in world space at which links hold an object."""
    places = [list(point.place) for link in obj.dampsim.links for point in link.points]
    for member in group_of(obj).members:
        places += [list(point.there) for link in member.dampsim.links if link.other == obj for point in link.points]
    return transform_points(np.array(obj.matrix_world), np.array(places, dtype=float).reshape(-1, 3))


def _skin_bones(obj: bpy.types.Object) -> list[str]:
    """Return the names of the bones that move an object through weights."""
    return influence_names(one for one in bone_influences(obj) if one.is_skinned)


def _boneless_vertices(total: Array) -> Mask:
    """Return the vertices (v,) without bone weights, if others have some. total: (v,) sums of the weights."""
    return np.asarray(total == 0.0) if total.any() else np.zeros(len(total), dtype=bool)


def _faceless_vertices(mesh: bpy.types.Mesh) -> Mask:
    found = np.ones(len(mesh.vertices), dtype=bool)
    found[read_array(mesh.loops, "vertex_index", np.int32)] = False
    return found


def _far_vertices(vertices: Array, unconnected: Mask) -> Mask:
    """Return the vertices (v,) without an element that are far from the others. vertices: (v, 3) m."""
    if unconnected.all() or not unconnected.any():
        return np.zeros(len(vertices), dtype=bool)
    low, high = vertices[~unconnected].min(axis=0), vertices[~unconnected].max(axis=0)
    gaps = np.linalg.norm(vertices - np.clip(vertices, low, high), axis=1)
    return np.asarray(unconnected & (gaps > _FAR_DISTANCE * np.linalg.norm(high - low)))


def limit_bone_weights(obj: bpy.types.Object) -> None:
    """Keep the MAX_EXPORTED_BONES largest bone weights of each vertex, and scale them to the old sum."""
    keep_largest_weights(obj, _skin_bones(obj), MAX_EXPORTED_BONES)


def weight_like_neighbours(obj: bpy.types.Object) -> None:
    """Give each vertex without bone weights those of the nearest vertex along edges that has some."""
    names = _skin_bones(obj)
    boneless = _boneless_vertices(sum_weights(obj, names)[0])
    if not boneless.any():
        return
    sources = nearest_source(modelled_world_vertices(obj), mesh_edges(obj.data), ~boneless)
    vertices = np.flatnonzero(boneless)
    for name, weights in zip(names, read_weights(obj, names), strict=True):
        for vertex in vertices[weights[sources[vertices]] > 0.0].tolist():
            obj.vertex_groups[name].add([vertex], float(weights[sources[vertex]]), "REPLACE")
