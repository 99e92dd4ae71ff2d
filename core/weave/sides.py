"""Over-under pattern of a plain weave: the upper yarn of each crossing."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .woven import Woven


def sides(cloth: Woven) -> Array:
    """Return for each passing (p,) 1 above, -1 below, 0 without another yarn.

    Some crossings violate the pattern if the mesh allows none, such as a tube with an odd number of yarns.
    """
    count = np.bincount(cloth.node, minlength=cloth.count)
    mates: dict[int, int] = {}
    last: dict[int, int] = {}
    for passing, node in enumerate(cloth.node.tolist()):
        if count[node] == 2:
            if node in last:
                mates[passing], mates[last[node]] = last[node], passing
            last[node] = passing
    near: list[list[int]] = [[] for _ in cloth.node]
    for a, b in cloth.segments.tolist():
        near[a].append(b)
        near[b].append(a)
    found = np.zeros(len(cloth.node))
    for start in sorted(mates):
        if found[start]:
            continue
        found[start], waiting = 1.0, [start]
        while waiting:
            one = waiting.pop()
            for other in (mates[one], *(k for k in near[one] if k in mates)):
                if not found[other]:
                    found[other] = -found[one]
                    waiting.append(other)
    return found
