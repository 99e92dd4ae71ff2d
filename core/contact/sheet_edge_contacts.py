"""Contacts between edges of one sheet, or of two.

Points and triangles alone would let a fold pass through another one between their vertices. Edges touch on the side on
which they were before the step, or before they crossed.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Mask
from ..geometry.collision.ccd import edge_pair_crossings
from ..geometry.collision.edge_pairs import EdgePairs, meeting_edge_pairs
from ..geometry.collision.intersections import segment_triangle_hits
from ..geometry.mesh.triangles import Triangles
from .collision_state import CollisionState
from .collision_surface import CollisionSurface
from .collisions import SEARCH_FACTOR, Collisions
from .contact_history import EDGE, ContactHistory
from .edge_contacts import common_normals, edge_pair_areas


def sheet_edge_contacts(
    state: CollisionState, a: int, b: int, points: Array, history: ContactHistory, min_rest_distance: float
) -> Collisions:
    """Return the contacts between edges of two sheets, or of one with itself if a equals b.

    points: (N, 3) m at the step's end.  history: of the last step.
    min_rest_distance: m, edges of one sheet that are closer at rest do not touch.
    """
    model, places = state.model, (a,) if a == b else (a, b)
    edges = np.concatenate([model.surfaces[k].touching_edges + model.point_starts[k] for k in places])
    # Index of the first edge of b.
    begin = len(edges) - len(model.surfaces[b].touching_edges)
    pairs = meeting_edge_pairs(state.start, points, edges, SEARCH_FACTOR * state.pair_distances[a, b])
    features = pairs.first * (len(edges) - begin) + pairs.second - begin
    was_behind, is_tangled = np.isin(features, history.edges_behind(a, b)), tangled_edges(state, a, b)
    # Contacts push edges back that have just crossed, but not the others of a crossing.
    is_kept = was_behind | ~(is_tangled[pairs.first] | is_tangled[pairs.second])
    is_kept &= model.is_dynamic[edges[pairs.first]].any(axis=1) | model.is_dynamic[edges[pairs.second]].any(axis=1)
    if a == b:
        is_kept &= _rest_distances(model.surfaces[a], pairs) >= min_rest_distance
    else:
        is_kept &= (pairs.first < begin) & (pairs.second >= begin)
    kept = np.flatnonzero(is_kept)
    pairs, feature, is_behind = pairs.select(kept), features[kept], was_behind[kept]
    stencil = np.concatenate([edges[pairs.first], edges[pairs.second]], axis=1)
    normal = common_normals(points[stencil])
    # The sign of the offset from the second edge to the first one along the normal, at the end.
    sides = np.where((normal * pairs.offset).sum(axis=1) < 0.0, -1.0, 1.0)
    began = state.start[stencil]
    is_below = (common_normals(began) * (began[:, 0] - began[:, 2])).sum(axis=1) < 0.0
    # If the lines have changed sides, the edges either crossed or only turned.
    changed = np.flatnonzero(is_below != (sides < 0.0))
    crossings = edge_pair_crossings(state.start, points, edges, pairs.first[changed], pairs.second[changed])
    is_behind[changed[crossings.pair]] ^= True
    normal *= np.where(is_behind, -sides, sides)[:, None]
    surfaces, area = np.tile((a, b), (len(pairs), 1)), edge_pair_areas(model, stencil)
    return Collisions(surfaces, stencil, pairs.weights, normal, feature, EDGE, area)


def tangled_edges(state: CollisionState, a: int, b: int) -> Mask:
    """Return which edges (e,) of two sheets cross triangles of the other, or bound crossed ones, at the step's start.

    If a equals b, the edges of that sheet and its own triangles count. Contacts of such edges would hold both sides of
    the crossing, which then never comes to rest.
    """
    known = state.cache.get(("tangled", a, b))
    if not isinstance(known, np.ndarray):
        masks = {k: np.zeros(len(state.model.surfaces[k].touching_edges), dtype=bool) for k in (a, b)}
        for one, other in {(a, b), (b, a)}:
            _mark_tangled_edges(state, one, other, masks[one], masks[other])
        known = np.concatenate([*masks.values()])
        state.cache["tangled", a, b] = known
    return known


def _mark_tangled_edges(state: CollisionState, a: int, b: int, first: Mask, second: Mask) -> None:
    """Mark the edges of sheet a in first (e,) that cross triangles of sheet b, and those of the triangles in second."""
    model = state.model
    edges, surface = model.surfaces[a].touching_edges, model.surfaces[b]
    if not len(surface.triangles):
        return
    # Sewn vertices pull the faces along a seam through each other, which is no tangle.
    labels = (surface.seam_vertices[edges], surface.seam_vertices[surface.triangles]) if a == b else None
    start, end = state.start[model.points_of(a)][edges.T]
    mesh = Triangles(state.start[model.points_of(b)], surface.triangles, surface.topology)
    hits = segment_triangle_hits(start, end, mesh, labels=labels)
    first[hits.segment] = True
    second[surface.topology.triangle_edges[hits.triangle].ravel()] = True


def _rest_distances(surface: CollisionSurface, pairs: EdgePairs) -> Array:
    """Return how far pairs (k,) of edges of a surface are from each other at rest, m."""
    edges, rest = surface.touching_edges, surface.rest
    first, second = edges[pairs.first], edges[pairs.second]
    distance = np.linalg.norm(rest[first][:, :, None] - rest[second][:, None], axis=3).min(axis=(1, 2))
    if surface.seam is not None:
        # The shortest distance at rest may lead across a seam.
        sewn, along = surface.seam
        for one, other in ((first, second), (second, first)):
            across = np.linalg.norm(rest[sewn[one]][:, :, None] - rest[other][:, None], axis=3) + along[one][:, :, None]
            distance = np.minimum(distance, across.min(axis=(1, 2)))
    return np.asarray(distance)
