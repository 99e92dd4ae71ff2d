"""Consistent penetration depths and directions of the points of one body inside another.

After [MSS], but weights are inverse squares of the distances, the values propagated inwards are divided by the weights
of their source points, and directions are normalised, as in public implementations. Closest points switch to the far
side when a body penetrates by more than half; depths propagated from intersecting edges do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from .crossings import passages
from .proximity import Triangles, nearest, signed
from .triangles import unit

# Smallest squared distance (m²) in the weights.
_LEAST = 1e-18


@dataclass(frozen=True)
class Depths:
    """Penetration depths of points.

    depth: (n,) m, 0 outside.  direction: (n, 3) unit, towards the outside; zero outside.
    is_propagated: (n,) whether the depth was propagated from edges that intersect the surface. Points inside that are
    not reached from such edges get the distance of their closest point instead.
    """

    depth: Array
    direction: Array
    reached: Mask


def consistent_depth(points: Array, edges: Index, inside: Mask, surface: Triangles) -> Depths:
    """Return depths of points (n, 3) that are inside (n,) a closed surface. edges: (e, 2), all of the body's mesh."""
    inside = np.asarray(inside, dtype=bool)
    depth, direction = np.zeros(len(points)), np.zeros((len(points), 3))
    known = _border(points, edges, inside, surface, depth, direction)
    inner = edges[inside[edges].all(axis=1)]
    pairs = np.concatenate([inner, inner[:, ::-1]])
    while True:
        # Propagate layer by layer from known to unknown points; a layer does not depend on itself.
        new = pairs[known[pairs[:, 0]] & ~known[pairs[:, 1]]]
        if len(new) == 0:
            break
        giver, taker = new.T
        way = points[giver] - points[taker]
        given = (way * direction[giver]).sum(axis=1) + depth[giver]
        layer = _mean(taker, way, given, direction[giver], depth, direction)
        if len(layer) == 0:
            break
        known[layer] = True
        pairs = pairs[~known[pairs[:, 1]]]
    rest = np.flatnonzero(inside & ~known)
    found = nearest(surface, points[rest], np.inf)
    depth[rest[found.point]] = found.distance
    direction[rest[found.point]] = signed(surface, found)[1]
    return Depths(depth, direction, known)


def _border(points: Array, edges: Index, inside: Mask, surface: Triangles, depth: Array, direction: Array) -> Mask:
    """Write depths and directions of the inner ends of edges that intersect the surface, and return their mask (n,)."""
    known = np.zeros(len(points), dtype=bool)
    cut = edges[inside[edges[:, 0]] != inside[edges[:, 1]]]
    first = inside[cut[:, 0]]
    inner, outer = np.where(first, cut[:, 0], cut[:, 1]), np.where(first, cut[:, 1], cut[:, 0])
    found = passages(points[inner], points[outer], surface)
    order = np.lexsort((found.part, found.segment))
    # The intersection nearest to the inner end; on a shared edge, that of either triangle.
    segment, place = np.unique(found.segment[order], return_index=True)
    place = order[place]
    corners = surface.triangles[found.triangle[place]]
    weights = found.weights[place][:, :, None]
    normal = unit((weights * surface.vertex_normals[corners]).sum(axis=1))
    there = (weights * surface.vertices[corners]).sum(axis=1)
    point = inner[segment]
    way = there - points[point]
    known[_mean(point, way, (way * normal).sum(axis=1), normal, depth, direction)] = True
    return known


def _mean(taker: Index, way: Array, given: Array, ways_out: Array, depth: Array, direction: Array) -> Index:
    """Write weighted means of depths (k,) and directions (k, 3) at the target points, and return those points."""
    count = len(depth)
    weight = 1.0 / np.maximum((way * way).sum(axis=1), _LEAST)
    sums = np.stack([np.bincount(taker, weight * row, minlength=count) for row in ways_out.T], axis=1)
    total = np.bincount(taker, weight, minlength=count)
    lengths = np.sqrt((sums * sums).sum(axis=1))
    # Directions that cancel define no way out.
    which = np.flatnonzero((total > 0.0) & (lengths > 1e-9 * total))
    depth[which] = np.bincount(taker, weight * given, minlength=count)[which] / total[which]
    direction[which] = sums[which] / lengths[which][:, None]
    return which
