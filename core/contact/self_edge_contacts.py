"""Contacts between edges of one sheet.

Points and triangles alone would let a fold pass through another one between their vertices. Edges touch on the side on
which they were before the step, or before they crossed.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.ccd import edge_pair_crossings
from ..geometry.collision.edge_pairs import EdgePairs, meeting_edge_pairs
from ..geometry.collision.intersections import segment_triangle_hits
from ..geometry.mesh.triangles import Triangles, cross_rows
from .collision_state import CollisionState
from .collision_surface import CollisionSurface
from .collisions import SEARCH_FACTOR, Collisions, pair_distance
from .contact_history import EDGE, ContactHistory


def self_edge_contacts(
    state: CollisionState, a: int, points: Array, history: ContactHistory, min_rest_distance: float
) -> Collisions:
    """Return the contacts between edges of a sheet.

    points: (N, 3) m at the step's end.  history: of the last step.
    min_rest_distance: m, edges that are closer at rest do not touch.
    """
    surface, own = state.model.surfaces[a], state.model.points_of(a)
    edges = surface.touching_edges
    start, end = state.start[own], points[own]
    distance = pair_distance(state, a, a)
    pairs = meeting_edge_pairs(start, end, edges, SEARCH_FACTOR * distance)
    features = pairs.first * len(edges) + pairs.second
    was_behind, is_tangled = np.isin(features, history.edges_behind(a)), _tangled_edges(state, a)
    # Contacts push edges back that have just crossed, but not the others of a crossing.
    is_free = was_behind | ~(is_tangled[pairs.first] | is_tangled[pairs.second])
    kept = np.flatnonzero(is_free & _may_touch(state, a, surface, pairs, min_rest_distance))
    pairs, feature, is_behind = pairs.select(kept), features[kept], was_behind[kept]
    stencil = np.concatenate([edges[pairs.first], edges[pairs.second]], axis=1)
    normal = _common_normals(end[stencil])
    # The sign of the offset from the second edge to the first one along the normal, at the end.
    sides = np.where((normal * pairs.offset).sum(axis=1) < 0.0, -1.0, 1.0)
    began = start[stencil]
    is_below = (_common_normals(began) * (began[:, 0] - began[:, 2])).sum(axis=1) < 0.0
    # Where the lines have changed sides, the edges may have crossed, or only turned.
    changed = np.flatnonzero(is_below != (sides < 0.0))
    crossings = edge_pair_crossings(start, end, edges, pairs.first[changed], pairs.second[changed])
    is_behind[changed[crossings.pair]] ^= True
    normal *= np.where(is_behind, -sides, sides)[:, None]
    weights = np.stack([1.0 - pairs.s, pairs.s, pairs.t - 1.0, -pairs.t], axis=1)
    areas = surface.areas[stencil]
    return Collisions(
        np.full((len(pairs), 2), a),
        stencil + own.start,
        weights,
        normal,
        feature,
        EDGE,
        0.5 * np.minimum(areas[:, 0] + areas[:, 1], areas[:, 2] + areas[:, 3]),
    )


def _tangled_edges(state: CollisionState, a: int) -> Mask:
    """Return which edges (e,) of a surface cross its triangles, or bound crossed triangles, at the start of the step.

    Their contacts would hold both sides of the crossing, which then never comes to rest.
    """
    known = state.cache.get(("tangled", a))
    if not isinstance(known, np.ndarray):
        surface, own = state.model.surfaces[a], state.model.points_of(a)
        edges, points, triangles = surface.touching_edges, state.start[own], surface.triangles
        known = np.zeros(len(edges), dtype=bool)
        if len(triangles):
            # Sewn vertices pull the faces along a seam through each other, which is no tangle.
            sewn = surface.seam_vertices

            def is_neighbour(edge: Index, triangle: Index) -> Mask:
                ends, corners = sewn[edges[edge]], sewn[triangles[triangle]]
                return np.asarray((ends[:, :, None] == corners[:, None]).any(axis=(1, 2)))

            start, end = points[edges.T]
            mesh = Triangles(points, triangles, surface.topology)
            hits = segment_triangle_hits(start, end, mesh, is_excluded=is_neighbour)
            known[hits.segment] = True
            known[surface.topology.triangle_edges[hits.triangle].ravel()] = True
        state.cache["tangled", a] = known
    return known


def _common_normals(ends: Array) -> Array:
    """Return unit normals (k, 3) of pairs of edges, from their ends (k, 4, 3) m; zero for parallel edges."""
    normal = cross_rows((ends[:, 1] - ends[:, 0]).T, (ends[:, 3] - ends[:, 2]).T)
    return np.asarray((normal / np.maximum(np.sqrt((normal * normal).sum(axis=0)), 1e-300)).T)


def _may_touch(
    state: CollisionState, a: int, surface: CollisionSurface, pairs: EdgePairs, min_rest_distance: float
) -> Mask:
    """Return which pairs (k,) of edges of a surface can move, and are far enough from each other at rest."""
    edges, is_dynamic = surface.touching_edges, state.model.is_dynamic[state.model.points_of(a)]
    first, second = edges[pairs.first], edges[pairs.second]
    can_move = is_dynamic[first].any(axis=1) | is_dynamic[second].any(axis=1)
    rest = surface.rest
    distance = np.linalg.norm(rest[first][:, :, None] - rest[second][:, None], axis=3).min(axis=(1, 2))
    if surface.seam is not None:
        # The shortest distance at rest may lead across a seam.
        sewn, along = surface.seam
        for one, other in ((first, second), (second, first)):
            across = np.linalg.norm(rest[sewn[one]][:, :, None] - rest[other][:, None], axis=3) + along[one][:, :, None]
            distance = np.minimum(distance, across.min(axis=(1, 2)))
    return np.asarray(can_move & (distance >= min_rest_distance))
