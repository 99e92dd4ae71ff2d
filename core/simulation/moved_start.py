"""Start of bodies outside the colliders that their animation puts them into at the first frame."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..bodies.registry import kind_by_name
from ..contact.collision_surface import CONTACT_DISTANCE_RATIO
from ..geometry.collision.move_out import Obstacle, move_out
from ..geometry.mesh.surface import weld_vertices
from ..geometry.mesh.triangles import Topology, Triangles, is_closed, unit_vectors
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..scene.sample import SceneSample
from ..scene.scene import Scene
from .contact_setup import weld_coincident


def moved_sample(scene: Scene, sample: SceneSample) -> SceneSample:
    """Return a sample in which the bodies with Move Out are outside their colliders."""
    for k, body in enumerate(scene.bodies):
        if can_move_out(body) and body.settings.move_out:
            vertices = sample.bodies[k].vertices
            offsets = start_offsets(scene, sample, k)
            if offsets.any():
                sample = sample.with_body(k, vertices=vertices + offsets)
    return sample


def can_move_out(body: Body) -> bool:
    """Return whether the parts of a body can move out: those of sheets, whose normals give the direction."""
    return kind_by_name(body.kind).moves_out


def start_offsets(scene: Scene, sample: SceneSample, body: int) -> Array:
    """Return the offsets (v, 3) in m that move the free vertices of a body out of its colliders in a sample."""
    one, vertices = scene.bodies[body], sample.bodies[body].vertices
    settings = sample.settings[body]
    distance = settings.contact_distance or CONTACT_DISTANCE_RATIO * one.surface.size
    obstacles = []
    for k in scene.collider_indices(one):
        collider, there = scene.colliders[k], sample.colliders[k]
        margin = distance + there.settings.thickness
        if collider.is_plane:
            origin, along, across = there.vertices
            normal = unit_vectors(np.cross(along - origin, across - origin)[None])[0]
            obstacles.append(Obstacle(None, margin, origin, normal))
            continue
        triangles = weld_coincident(there.vertices, collider.triangles)
        if is_closed(triangles):
            obstacles.append(Obstacle(Triangles(there.vertices, triangles), margin))
    if not obstacles:
        return np.zeros_like(vertices)
    first, label = weld_vertices(one.surface.vertices)
    # Coincident vertices, as along seams, move together.
    representative = first[label]
    triangles, wires = representative[one.surface.triangles], np.sort(representative[one.edges], axis=1)
    edges = np.unique(np.concatenate([Topology.from_triangles(triangles).edges, wires]), axis=0)
    is_free = _free_vertices(one, one.pins_at(sample.bodies[body]), label)
    offsets = move_out(vertices, triangles, edges, is_free, obstacles)
    return np.asarray(offsets[representative])


def _free_vertices(body: Body, pins: Array, label: Index) -> Mask:
    """Return the vertices (v,) that are not pinned, nor coincide with one that is.

    pins: (v,) weights.  label: (v,) of coincident vertices.
    """
    is_held = pins >= HARD_PIN_WEIGHT
    if body.follower_mask is not None:
        is_held = is_held | body.follower_mask
    return ~np.isin(label, label[is_held])
