"""Surfaces of several bodies combined into one, so that one query serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Index
from ..geometry.collision.proximity import Topology
from .collision_surface import CollisionSurface

# A surface whose points touch, and the surface whose triangles are touched.
DirectedPair = tuple[int, int]


@dataclass(frozen=True)
class SurfaceBatch:
    """Surfaces of several pairs combined into one: the touching points and touched triangles of each pair.

    points: (p,) indices of points.  point_pair: (p,) the pair of each, ascending.
    triangles: (t, 3) point indices of all surfaces' triangles.  topology: of the combined triangles.
    target_triangles: (u,) touched triangles, pair by pair.  target_counts: (pairs,) their number in each pair.
    vertex_triangles: (n, d) triangles at each point of a closed surface, see CollisionSurface.vertex_triangles.
    point_end: n, one more than the largest point index.
    """

    points: Index
    point_pair: Index
    triangles: Index
    topology: Topology
    target_triangles: Index
    target_counts: Index
    vertex_triangles: Index
    point_end: int

    @staticmethod
    def of(surfaces: Sequence[CollisionSurface], starts: Index, pairs: Sequence[DirectedPair]) -> SurfaceBatch:
        """Return the combined surfaces of pairs.

        starts: (s + 1,) first point of each surface in the stack of all points, and its end.
        """
        used = sorted({place for pair in pairs for place in pair})
        first_triangle, triangles, ends, sides, triangle_count, edge_count = {}, [], [], [], 0, 0
        point_end = int(starts[used[-1] + 1])
        closed_surfaces = [place for place in used if surfaces[place].is_closed]
        vertex_triangles = np.zeros(
            (point_end, max(surfaces[place].vertex_triangles.shape[1] for place in closed_surfaces)), dtype=np.int64
        )
        for place in used:
            one, start = surfaces[place], starts[place]
            first_triangle[place] = triangle_count
            triangles.append(one.triangles + start)
            ends.append(one.topology.edges + start)
            sides.append(one.topology.triangle_edges + edge_count)
            if one.is_closed:
                # Rows are padded with their first triangle.
                vertex_triangles[start : starts[place + 1]] = one.vertex_triangles[:, :1] + triangle_count
                vertex_triangles[start : starts[place + 1], : one.vertex_triangles.shape[1]] = (
                    one.vertex_triangles + triangle_count
                )
            triangle_count, edge_count = triangle_count + len(one.triangles), edge_count + len(one.topology.edges)
        points = [surfaces[a].used_vertices + starts[a] for a, _ in pairs]
        target_triangles = [first_triangle[b] + np.arange(len(surfaces[b].triangles)) for _, b in pairs]
        return SurfaceBatch(
            np.concatenate(points),
            np.repeat(np.arange(len(pairs)), [len(one) for one in points]),
            np.concatenate(triangles),
            Topology(np.concatenate(ends), np.concatenate(sides)),
            np.concatenate(target_triangles),
            np.array([len(one) for one in target_triangles]),
            vertex_triangles,
            point_end,
        )  # fmt: skip
