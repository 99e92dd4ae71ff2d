"""Last-resort handling of a step that ends in an intersection: truncate the motion before it is visible.

Contacts are penalties. Where a body is crushed, the minimum may lie beyond all detected contacts, however short the
step is. The step began without intersections, so a part of the motion is free. At worst, a body stands still for a
frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from ..contact.moment import Moment
from ..contact.passing import DEEP, Pair, begun, depth, grouped, looked_at, passes
from ..system.system import System
from .touching import Meeting

# Bisection steps to find the intersection-free fraction of the motion.
_HALVINGS = 8
# The depth left after truncation, as a fraction of the depth that becomes visible.
_BEFORE = 0.5


def cut_back(
    system: System, moment: Moment, problem: Meeting, v: Array, crossing: Sequence[Pair]
) -> tuple[Array, frozenset[int]]:
    """Truncate the motion of blocks that end in an intersection.

    Returns velocities (f, 3) m/s, changed only for these blocks, and the indices of these blocks.
    Intersecting blocks move on with their mean velocity, which conserves their momentum, and a fraction of the
    remaining
    motion. If that is not free of intersections, they move by a fraction of their whole motion. An intersection caused
    by
    a block's own animation remains.

    intersecting_pairs: pairs of surfaces that intersect at the end, see new_intersections().
    """
    surfaces, known = moment.model.surfaces, list(crossing)
    while True:
        changed, blocks = v, frozenset[int]()
        for group in grouped([(a, a if surfaces[b].is_obstacle else b) for a, b in known]):
            mine = [(a, b) for a, b in known if a in group]
            among = frozenset(surfaces[k].block for k in group)
            found = _free(system, moment, problem, changed, among, mine)
            if found is not None:
                changed, blocks = found, blocks | among
        # Truncated blocks may block the way of other ones.
        more = [pair for pair in passes(moment, problem.positions(changed)) if pair not in known]
        if not more:
            return changed, blocks
        known += more


def _free(
    system: System, moment: Moment, problem: Meeting, v: Array, blocks: frozenset[int], crossing: Sequence[Pair]
) -> Array | None:
    """Return velocities (f, 3) m/s with some blocks truncated to the last intersection-free motion.

    Returns None if the pairs intersect even without motion.

    intersecting_pairs: intersecting pairs of the surfaces of these blocks.
    """
    surfaces = moment.model.surfaces
    nodes = np.concatenate([np.arange(len(system.rest))[system.slices[block]] for block in sorted(blocks)])
    slots = problem.slots[nodes]
    nodes, slots = nodes[slots >= 0], slots[slots >= 0]
    if not len(nodes):
        return None

    def going(part: float, way: Array) -> Array:
        found = v.copy()
        found[slots] = way + part * (v[slots] - way)
        return found

    def clear(pairs: Sequence[Pair], found: Array) -> list[Pair]:
        there = moment.points(problem.positions(found))
        return [pair for pair in pairs if depth(moment, there, pair) <= max(begun(moment, pair), _BEFORE * DEEP)]

    asked = [
        (a, b)
        for a, b in looked_at(moment)
        if surfaces[a].block in blocks and (surfaces[b].is_obstacle or surfaces[b].block in blocks)
    ]
    stay = np.zeros(3)
    asked = clear([pair for pair in asked if begun(moment, pair) <= DEEP], going(0.0, stay))
    if not {*asked} & {*crossing}:
        return None
    mean = system.mass[nodes] @ v[slots] / system.mass[nodes].sum()
    alone = not any(surfaces[b].is_obstacle for _, b in crossing)
    way = mean if alone and clear(asked, going(0.0, mean)) == asked else stay
    least, most = (1.0, 1.0) if clear(asked, v) == asked else (0.0, 1.0)
    for _ in range(_HALVINGS if least < most else 0):
        middle = 0.5 * (least + most)
        least, most = (middle, most) if clear(asked, going(middle, way)) == asked else (least, middle)
    return going(least, way)
