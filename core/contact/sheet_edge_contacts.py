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
from ..geometry.mesh.primitives import closest_points_of_lines
from ..geometry.mesh.triangles import Triangles, unit_vectors
from .collision_state import CollisionState
from .collision_surface import MIN_DISTANCE_SCALE, CollisionSurface, layer_factors
from .collisions import SEARCH_FACTOR, Collisions, relative_motion
from .contact_history import EDGE, ContactHistory
from .edge_contacts import common_normals, edge_pair_areas


def sheet_edge_contacts(
    state: CollisionState, a: int, b: int, points: Array, history: ContactHistory, neighbour_distance: float
) -> Collisions:
    """Return the contacts between edges of two sheets, or of one with itself if a equals b.

    points: (N, 3) m at the step's end.  history: of the last step.
    neighbour_distance: m, edges of one sheet that are closer at rest are neighbours.

    Neighbours have a smaller contact distance, in proportion to their distance at rest. Without contacts, small
    triangles next to larger ones would fold through each other.
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
    scale = np.ones(len(pairs))
    if a == b:
        scale = _distance_scales(state, a, pairs, points, neighbour_distance)
        is_kept &= scale > 0.0
    else:
        is_kept &= (pairs.first < begin) & (pairs.second >= begin)
    kept = np.flatnonzero(is_kept)
    pairs, feature, is_behind, scale = pairs.select(kept), features[kept], was_behind[kept], scale[kept]
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
    return Collisions(surfaces, stencil, pairs.weights, normal, feature, EDGE, area, scale)


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


def _are_woven_neighbours(surface: CollisionSurface, pairs: EdgePairs) -> Mask:
    """Return which pairs (k,) of edges of a woven surface are joined by an edge, as opposite sides of a mesh are.

    Yarns that lie side by side in the weave jam where they are pushed together.
    """
    edges, count = surface.touching_edges, len(surface.rest)
    keys = np.sort(edges[:, 0] * count + edges[:, 1])
    first, second = edges[pairs.first][:, :, None], edges[pairs.second][:, None]
    joining = np.minimum(first, second) * count + np.maximum(first, second)
    return np.asarray(np.isin(joining, keys).any(axis=(1, 2)))


def _distance_scales(
    state: CollisionState, a: int, pairs: EdgePairs, points: Array, neighbour_distance: float
) -> Array:
    """Return the factors (k,) on the contact distance of pairs of edges of a sheet; 0 for pairs that do not touch.

    points: (N, 3) m at the step's end.  neighbour_distance: see sheet_edge_contacts().
    """
    surface = state.model.surfaces[a]
    scale = np.ones(len(pairs))
    # The shortest way at rest may lead across a seam.
    scale[_seam_distances(surface, pairs) < neighbour_distance] = 0.0
    is_near = _rest_distances(surface, pairs) < neighbour_distance
    if surface.is_thread:
        scale[is_near | _are_woven_neighbours(surface, pairs)] = 0.0
        return scale
    asked = np.flatnonzero(scale > 0.0)
    scales, is_layer = _rest_scales(surface, pairs.select(asked), neighbour_distance)
    # The ends of edges that cross each other in a layer and the next one may be far apart.
    is_near = is_near[asked] | (is_layer & (scales < 1.0))
    near = asked[is_near]
    if not len(near):
        return scale
    scale[near] = scales[is_near]
    edges = surface.touching_edges + state.model.point_starts[a]
    stencil = np.concatenate([edges[pairs.first[near]], edges[pairs.second[near]]], axis=1)
    # Most neighbours are near each other, but far beyond their smaller distance.
    reach = SEARCH_FACTOR * scale[near] * state.pair_distances[a, a] + relative_motion(state, stencil, points, 2)
    scale[near[(scale[near] < MIN_DISTANCE_SCALE) | (pairs.distance[near] > reach)]] = 0.0
    return scale


def _rest_scales(surface: CollisionSurface, pairs: EdgePairs, limit: float) -> tuple[Array, Mask]:
    """Return the factors (k,) on the contact distance, see NeighbourPairs.within(), and whether pairs are layers (k,).

    limit: m.
    """
    offset = _rest_offsets(surface, pairs)
    ends, normals = surface.touching_edges, surface.rest_surface.vertex_normals
    factor = layer_factors(
        offset, *(unit_vectors(normals[ends[side]].sum(axis=1)) for side in (pairs.first, pairs.second))
    )
    return np.minimum(factor * np.linalg.norm(offset, axis=1) / limit, 1.0), factor > 1.0


def _rest_offsets(surface: CollisionSurface, pairs: EdgePairs) -> Array:
    """Return the shortest offsets (k, 3) m at rest between the edges of pairs (k,)."""
    edges, rest = surface.touching_edges, surface.rest
    first, second = edges[pairs.first], edges[pairs.second]
    starts, others = rest[first[:, 0]].T, rest[second[:, 0]].T
    directions, other_directions = rest[first[:, 1]].T - starts, rest[second[:, 1]].T - others
    s, t, _ = closest_points_of_lines(starts, directions, others, other_directions)
    is_inside = (s >= 0.0) & (s <= 1.0) & (t >= 0.0) & (t <= 1.0)
    shortest = np.where(is_inside, starts - others + s * directions - t * other_directions, np.inf).T
    for one, other in ((first, second), (second, first)):
        for k in (0, 1):
            offset = _offsets_from_segments(rest[one[:, k]], rest[other[:, 0]], rest[other[:, 1]])
            is_shorter = (offset * offset).sum(axis=1) < (shortest * shortest).sum(axis=1)
            shortest = np.where(is_shorter[:, None], offset, shortest)
    return np.asarray(shortest)


def _offsets_from_segments(points: Array, starts: Array, ends: Array) -> Array:
    """Return the offsets (k, 3) m of points (k, 3) from segments between (k, 3) and (k, 3)."""
    way = ends - starts
    along = ((points - starts) * way).sum(axis=1) / np.maximum((way * way).sum(axis=1), 1e-300)
    return np.asarray(points - starts - np.clip(along, 0.0, 1.0)[:, None] * way)


def _rest_distances(surface: CollisionSurface, pairs: EdgePairs) -> Array:
    """Return how far the ends of pairs (k,) of edges of a surface are from each other at rest, m."""
    first, second = surface.touching_edges[pairs.first], surface.touching_edges[pairs.second]
    ways = surface.rest[first][:, :, None] - surface.rest[second][:, None]
    return np.asarray(np.linalg.norm(ways, axis=3).min(axis=(1, 2)))


def _seam_distances(surface: CollisionSurface, pairs: EdgePairs) -> Array:
    """Return how far pairs (k,) of edges of a surface are from each other at rest across a seam, m; inf without."""
    distance = np.full(len(pairs), np.inf)
    if surface.seam is not None:
        edges, rest, (sewn, along) = surface.touching_edges, surface.rest, surface.seam
        first, second = edges[pairs.first], edges[pairs.second]
        for one, other in ((first, second), (second, first)):
            across = np.linalg.norm(rest[sewn[one]][:, :, None] - rest[other][:, None], axis=3) + along[one][:, :, None]
            distance = np.minimum(distance, across.min(axis=(1, 2)))
    return np.asarray(distance)
