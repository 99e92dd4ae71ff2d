"""Over-under pattern of a plain weave: the upper yarn of each crossing."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from .woven_cloth import WovenCloth


def over_under_pattern(cloth: WovenCloth) -> Array:
    """Return for each passing (p,) 1 above, -1 below, 0 without another yarn.

    Some crossings violate the pattern if the mesh allows none, such as a tube with an odd number of yarns.
    """
    count = np.bincount(cloth.node, minlength=cloth.count)
    crossing_partner: dict[int, int] = {}
    last_passing: dict[int, int] = {}
    for passing, node in enumerate(cloth.node.tolist()):
        if count[node] == 2:
            if node in last_passing:
                crossing_partner[passing], crossing_partner[last_passing[node]] = last_passing[node], passing
            last_passing[node] = passing
    neighbours: list[list[int]] = [[] for _ in cloth.node]
    for a, b in cloth.segments.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    pattern = np.zeros(len(cloth.node))
    for start in sorted(crossing_partner):
        if pattern[start]:
            continue
        pattern[start], waiting = 1.0, [start]
        while waiting:
            one = waiting.pop()
            for other in (crossing_partner[one], *(k for k in neighbours[one] if k in crossing_partner)):
                if not pattern[other]:
                    pattern[other] = -pattern[one]
                    waiting.append(other)
    return pattern
