"""Consistent penetration depths and directions of the points of one body inside another.

After [MSS], but weights are inverse squares of the distances, the values propagated inwards are divided by the weights
of their source points, and directions are normalised, as in public implementations. Closest points switch to the far
side when a body penetrates by more than half; depths propagated from intersecting edges do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.arrays import Array, Index, Mask
from ..mesh.triangles import Triangles, unit_vectors
from .intersections import segment_triangle_hits
from .proximity import nearest_triangles, side_of_surface

# Smallest squared distance (m²) in the weights.
_MIN_SQUARED_DISTANCE = 1e-18


@dataclass(frozen=True)
class PenetrationDepths:
    """Penetration depths of points.

    depth: (n,) m, 0 outside.  direction: (n, 3) unit, towards the outside; zero outside.
    is_propagated: (n,) whether the depth was propagated from edges that intersect the surface. Points inside that are
    not reached from such edges get the distance of their closest point instead.
    """

    depth: Array
    direction: Array
    is_propagated: Mask


def consistent_penetration_depths(points: Array, edges: Index, inside: Mask, surface: Triangles) -> PenetrationDepths:
    """Return depths of points (n, 3) that are inside (n,) a closed surface. edges: (e, 2), all of the body's mesh."""
    inside = np.asarray(inside, dtype=bool)
    depth, direction = np.zeros(len(points)), np.zeros((len(points), 3))
    is_known = _seed_border_points(points, edges, inside, surface, depth, direction)
    inner = edges[inside[edges].all(axis=1)]
    pairs = np.concatenate([inner, inner[:, ::-1]])
    while True:
        # Propagate layer by layer from known to unknown points; a layer does not depend on itself.
        new = pairs[is_known[pairs[:, 0]] & ~is_known[pairs[:, 1]]]
        if len(new) == 0:
            break
        source, target = new.T
        offset = points[source] - points[target]
        depth_estimates = (offset * direction[source]).sum(axis=1) + depth[source]
        layer = _write_weighted_means(target, offset, depth_estimates, direction[source], depth, direction)
        if len(layer) == 0:
            break
        is_known[layer] = True
        pairs = pairs[~is_known[pairs[:, 1]]]
    rest = np.flatnonzero(inside & ~is_known)
    found = nearest_triangles(surface, points[rest], np.inf)
    depth[rest[found.point]] = found.distance
    direction[rest[found.point]] = side_of_surface(surface, found)[1]
    return PenetrationDepths(depth, direction, is_known)


def _seed_border_points(
    points: Array, edges: Index, inside: Mask, surface: Triangles, depth: Array, direction: Array
) -> Mask:
    """Write depths and directions of the inner ends of edges that intersect the surface, and return their mask (n,)."""
    is_known = np.zeros(len(points), dtype=bool)
    crossing_edges = edges[inside[edges[:, 0]] != inside[edges[:, 1]]]
    starts_inside = inside[crossing_edges[:, 0]]
    inner, outer = np.where(starts_inside, crossing_edges.T, crossing_edges.T[::-1])
    found = segment_triangle_hits(points[inner], points[outer], surface)
    order = np.lexsort((found.parameter, found.segment))
    # The intersection nearest to the inner end; on a shared edge, that of either triangle.
    segment, nearest_hit = np.unique(found.segment[order], return_index=True)
    nearest_hit = order[nearest_hit]
    corners = surface.triangles[found.triangle[nearest_hit]]
    weights = found.weights[nearest_hit][:, :, None]
    normal = unit_vectors((weights * surface.vertex_normals[corners]).sum(axis=1))
    hit_points = (weights * surface.vertices[corners]).sum(axis=1)
    point = inner[segment]
    offset = hit_points - points[point]
    is_known[_write_weighted_means(point, offset, (offset * normal).sum(axis=1), normal, depth, direction)] = True
    return is_known


def _write_weighted_means(
    target: Index, offset: Array, depth_estimates: Array, normals: Array, depth: Array, direction: Array
) -> Index:
    """Write weighted means of depths (k,) and directions (k, 3) at the target points, and return those points."""
    count = len(depth)
    weight = 1.0 / np.maximum((offset * offset).sum(axis=1), _MIN_SQUARED_DISTANCE)
    sums = np.stack([np.bincount(target, weight * row, minlength=count) for row in normals.T], axis=1)
    total = np.bincount(target, weight, minlength=count)
    lengths = np.sqrt((sums * sums).sum(axis=1))
    # Directions that cancel define no way out.
    valid = np.flatnonzero((total > 0.0) & (lengths > 1e-9 * total))
    depth[valid] = np.bincount(target, weight * depth_estimates, minlength=count)[valid] / total[valid]
    direction[valid] = sums[valid] / lengths[valid][:, None]
    return valid
