"""Surfaces of several bodies kept as one, so that what is asked of all of them is asked at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Index
from ..geometry.proximity import Topology
from .touchable import Touchable

# A surface whose points touch, and the one that is touched.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Joint:
    """The surfaces of some pairs as one: what touches and what is touched in each of them.

    points: (p,) of the stack, and pair: (p,) which pair each is of, ascending.
    triangles: (t, 3) of the stack, of all surfaces; topology: of all of them.
    among: (u,) those of what is touched, pair by pair; counts: (pairs,) how many each pair has.
    around: (n, d) the triangles at each point of a closed surface that touches, see Touchable.around.
    last: n, points of the stack beyond which there are none of these.
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
        """starts: (s + 1,) where the points of each of the surfaces begin in the stack, and its end."""
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
                # What is left of a row is its first triangle again.
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
