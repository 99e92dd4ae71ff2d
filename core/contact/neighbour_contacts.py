"""Contacts between points and triangles of one sheet that are neighbours at rest.

Neighbours have a smaller contact distance, in proportion to their distance at rest, see sheet_edge_contacts.py. Without
these contacts, a point next to a small triangle would pass through it.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, Mask, take_rows
from ..geometry.collision.ccd import point_pair_crossings
from ..geometry.mesh.triangles import cross_rows, dot_rows
from .collision_state import CollisionState
from .collision_surface import CollisionSurface, NeighbourPairs
from .collisions import SEARCH_FACTOR, Collisions, no_collisions, relative_motion
from .contact_history import NEIGHBOUR, ContactHistory
from .sheet_edge_contacts import tangled_edges


def neighbour_contacts(
    state: CollisionState, a: int, points: Array, history: ContactHistory, limit: float
) -> Collisions:
    """Return the contacts between points and triangles of a sheet that are neighbours.

    points: (N, 3) m at the step's end.  history: of the last step.  limit: m, distance of neighbours at rest.

    As those of edges, points touch on the side on which they were before the step, or before they crossed.
    """
    model, surface, part = state.model, state.model.surfaces[a], state.model.points_of(a)
    pairs, scales = surface.neighbours.within(limit)
    start, end, distance = state.start[part], points[part], state.pair_distances[a, a]
    near = _close_pairs(pairs, surface, start, end, SEARCH_FACTOR * distance * scales)
    weights, normal, height = _heights(end, pairs.point[near], surface.triangles[pairs.triangle[near]])
    inside = np.flatnonzero((weights > 0.0).all(axis=1))
    weights, normal, height, near = weights[inside], normal[inside], height[inside], near[inside]
    point, triangle, scale = pairs.point[near], pairs.triangle[near], scales[near]
    stencil = np.column_stack([point, surface.triangles[triangle]]) + part.start
    reach = SEARCH_FACTOR * scale * distance + relative_motion(state, stencil, points, 1)
    feature = point * len(surface.triangles) + triangle
    was_behind = np.isin(feature, history.neighbours_behind(a))
    is_kept = (np.abs(height) < reach) & model.is_dynamic[stencil].any(axis=1)
    is_kept &= was_behind | ~_is_tangled(state, a, point, triangle)
    kept = np.flatnonzero(is_kept)
    if not len(kept):
        return no_collisions()
    point, triangle, stencil, is_behind = point[kept], triangle[kept], stencil[kept], was_behind[kept]
    sides = np.where(height[kept] < 0.0, -1.0, 1.0)
    is_below = _heights(start, point, surface.triangles[triangle])[2] < 0.0
    # If the point has changed sides, it either crossed the triangle or went around it.
    changed = np.flatnonzero(is_below != (sides < 0.0))
    crossings = point_pair_crossings(start, end, surface.triangles, point[changed], triangle[changed])
    is_behind[changed[crossings.pair]] ^= True
    normal = normal[kept] * np.where(is_behind, -sides, sides)[:, None]
    all_weights = np.column_stack([np.ones(len(kept)), -weights[kept]])
    surfaces, area = np.full((len(kept), 2), a), model.areas[stencil[:, 0]]
    return Collisions(surfaces, stencil, all_weights, normal, feature[kept], NEIGHBOUR, area, scale[kept])


def _close_pairs(pairs: NeighbourPairs, surface: CollisionSurface, start: Array, end: Array, reach: Array) -> Index:
    """Return the indices of neighbours that may end the step within their reach, by the triangles' spheres.

    start, end: (v, 3) m.  reach: (k,) m, enlarged by the relative motion of each pair.
    """
    if not len(pairs.point):
        return np.zeros(0, dtype=np.int64)
    motion = end - start
    (middle, radius), (mean_way, spread) = (_bounding_spheres(rows, surface.triangles) for rows in (end, motion))
    offset = take_rows(end, pairs.point) - take_rows(middle, pairs.triangle)
    way = take_rows(motion, pairs.point) - take_rows(mean_way, pairs.triangle)
    square, way_square = (np.einsum("ki,ki->k", x, x) for x in (offset, way))
    # The foot is inside of the triangle's sphere, and the height within the reach.
    height = reach + spread[pairs.triangle] + np.sqrt(way_square)
    return np.flatnonzero(square <= (radius * radius)[pairs.triangle] + height * height)


def _bounding_spheres(vertices: Array, triangles: Index) -> tuple[Array, Array]:
    """Return the centres (t, 3) and radii (t,) of spheres around triangles (t, 3) of vertices (v, 3)."""
    corners = [take_rows(vertices, triangles[:, k]) for k in range(3)]
    middle = (corners[0] + corners[1] + corners[2]) / 3.0
    squares = [np.einsum("ti,ti->t", x, x) for x in (corner - middle for corner in corners)]
    return middle, np.sqrt(np.maximum(np.maximum(squares[0], squares[1]), squares[2]))


def _heights(vertices: Array, point: Index, corners: Index) -> tuple[Array, Array, Array]:
    """Return the weights (k, 3) of the feet of points in triangles with corners (k, 3), normals (k, 3), heights (k,).

    vertices: (v, 3) m.  The weights of a foot outside of its triangle, or of a degenerate one, are not all positive.
    """
    a, b, c = (vertices[corners[:, k]].T for k in range(3))
    u, v, w = b - a, c - a, vertices[point].T - a
    normal = cross_rows(u, v)
    square = dot_rows(normal, normal)
    is_flat = square <= 1e-24 * dot_rows(u, u) * dot_rows(v, v)
    safe = np.where(is_flat, 1.0, square)
    second, third = dot_rows(normal, cross_rows(w, v)) / safe, dot_rows(normal, cross_rows(u, w)) / safe
    weights = np.stack([np.where(is_flat, -1.0, 1.0 - second - third), second, third], axis=1)
    normal = normal / np.sqrt(safe)
    return weights, np.ascontiguousarray(normal.T), dot_rows(w, normal)


def _is_tangled(state: CollisionState, a: int, point: Index, triangle: Index) -> Mask:
    """Return which points (k,) or triangles (k,) of a sheet have an edge that crosses it at the step's start."""
    surface, is_tangled = state.model.surfaces[a], tangled_edges(state, a, a)
    is_end = np.zeros(len(surface.rest), dtype=bool)
    is_end[surface.touching_edges[is_tangled]] = True
    return np.asarray(is_end[point] | is_tangled[surface.topology.triangle_edges[triangle]].any(axis=1))
