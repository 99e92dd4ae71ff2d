"""Which of two yarns lies above where they cross: each goes over and under by turns, as in plain weave."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .woven import Woven


def sides(cloth: Woven) -> Array:
    """(p,) 1 above, -1 below, 0 where no other yarn is.

    Where a mesh's loops make that impossible, as a tube of an odd number of yarns does, it fails somewhere.
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
