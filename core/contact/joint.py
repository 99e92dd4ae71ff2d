"""Surfaces of several bodies combined into one, so that one query serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Index
from ..geometry.proximity import Topology
from .touchable import Touchable

# A surface whose points touch, and the surface whose triangles are touched.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Joint:
    """Surfaces of several pairs combined into one: the touching points and touched triangles of each pair.

    points: (p,) indices of points.  point_pair: (p,) the pair of each, ascending.
    triangles: (t, 3) point indices of all surfaces' triangles.  topology: of the combined triangles.
    target_triangles: (u,) touched triangles, pair by pair.  target_counts: (pairs,) their number in each pair.
    vertex_triangles: (n, d) triangles at each point of a closed surface, see CollisionSurface.vertex_triangles.
    point_end: n, one more than the largest point index.
    """

    points: Index
    pair: Index
    triangles: Index
    topology: Topology
    among: Index
    counts: Index
    around: Index
    last: int

    @staticmethod
    def of(surfaces: Sequence[Touchable], starts: Index, pairs: Sequence[Pair]) -> Joint:
        """Return the combined surfaces of pairs.

        starts: (s + 1,) first point of each surface in the stack of all points, and its end.
        """
        places = sorted({place for pair in pairs for place in pair})
        first, triangles, ends, sides, done, edges = {}, [], [], [], 0, 0
        last = int(starts[places[-1] + 1])
        closed = [place for place in places if surfaces[place].closed]
        around = np.zeros((last, max(surfaces[place].around.shape[1] for place in closed)), dtype=np.int64)
        for place in places:
            one, start = surfaces[place], starts[place]
            first[place] = done
            triangles.append(one.triangles + start)
            ends.append(one.topology.ends + start)
            sides.append(one.topology.sides + edges)
            if one.closed:
                # Rows are padded with their first triangle.
                around[start : starts[place + 1]] = one.around[:, :1] + done
                around[start : starts[place + 1], : one.around.shape[1]] = one.around + done
            done, edges = done + len(one.triangles), edges + len(one.topology.ends)
        points = [surfaces[a].points + starts[a] for a, _ in pairs]
        among = [first[b] + np.arange(len(surfaces[b].triangles)) for _, b in pairs]
        return Joint(
            np.concatenate(points),
            np.repeat(np.arange(len(pairs)), [len(one) for one in points]),
            np.concatenate(triangles),
            Topology(np.concatenate(ends), np.concatenate(sides)),
            np.concatenate(among),
            np.array([len(one) for one in among]),
            around,
            last,
        )  # fmt: skip
