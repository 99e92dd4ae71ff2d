"""How deep, and in which direction, the points of one body are in another, consistently over the body.

After [MSS], but weights are inverse squares of the distances, what is carried inwards is divided by the weights of the
points that it comes from, and directions are of unit length, as in public implementations. The closest point of the
surface turns over where a body is pushed in by more than half; depths that begin at crossing edges do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from .crossings import passages
from .proximity import Triangles, nearest, signed
from .triangles import unit

# Nearer than this (m²) is at the place.
_LEAST = 1e-18


@dataclass(frozen=True)
class Depths:
    """depth: (n,) m, 0 outside.  direction: (n, 3) unit, the way out; zero outside.

    reached: (n,) whether the depth came from edges that cross the surface; of points inside that none leads to, it is
    the distance of the closest point.
    """

    depth: Array
    direction: Array
    reached: Mask


def consistent_depth(points: Array, edges: Index, inside: Mask, surface: Triangles) -> Depths:
    """Depths of the points (n, 3) that are inside (n,) of a closed surface. edges: (e, 2), all of the body's mesh."""
    inside = np.asarray(inside, dtype=bool)
    depth, direction = np.zeros(len(points)), np.zeros((len(points), 3))
    known = _border(points, edges, inside, surface, depth, direction)
    inner = edges[inside[edges].all(axis=1)]
    pairs = np.concatenate([inner, inner[:, ::-1]])
    while True:
        # From points that are known to those that are not; a layer never uses itself.
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
    """Give depths and directions to the inner ends of edges that cross the surface; whether a point is one, (n,)."""
    known = np.zeros(len(points), dtype=bool)
    cut = edges[inside[edges[:, 0]] != inside[edges[:, 1]]]
    first = inside[cut[:, 0]]
    inner, outer = np.where(first, cut[:, 0], cut[:, 1]), np.where(first, cut[:, 1], cut[:, 0])
    found = passages(points[inner], points[outer], surface)
    order = np.lexsort((found.part, found.segment))
    # The crossing nearest to the inner end; of two triangles that meet there, either.
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
    """Write the weighted means of what is given (k,) and of the ways out (k, 3) to their takers, which are returned."""
    count = len(depth)
    weight = 1.0 / np.maximum((way * way).sum(axis=1), _LEAST)
    sums = np.stack([np.bincount(taker, weight * row, minlength=count) for row in ways_out.T], axis=1)
    total = np.bincount(taker, weight, minlength=count)
    lengths = np.sqrt((sums * sums).sum(axis=1))
    # Where the ways out cancel there is none.
    which = np.flatnonzero((total > 0.0) & (lengths > 1e-9 * total))
    depth[which] = np.bincount(taker, weight * given, minlength=count)[which] / total[which]
    direction[which] = sums[which] / lengths[which][:, None]
    return which
