"""The last resort of a step that ends with one thing in another: they go only as far as nobody sees it.

Contacts are penalties, and where a body is crushed a search may end beyond all that it looked for, however short its
step is. As all were in front of each other when it began, a part of their way is free. What one sees then is at most a
body that waits for a frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from ..contact.moment import Moment
from ..contact.passing import DEEP, Pair, begun, depth, grouped, looked_at, passes
from ..system.system import System
from .touching import Meeting

# How often the way is cut in halves to find how much of it is free.
_HALVINGS = 8
# What is cut back ends in front of where it could be seen by this part.
_BEFORE = 0.5


def cut_back(
    system: System, moment: Moment, problem: Meeting, v: Array, crossing: Sequence[Pair]
) -> tuple[Array, frozenset[int]]:
    """Velocities (f, 3) m/s as v (f, 3), but for blocks that end in something; and which blocks (places) these are.

    Those that are in each other go on together as they do in the mean, which keeps their momentum, and by a part of
    what is beside it; where that is not free, by a part of all. What its animation moves into a body stays in it.

    crossing: the pairs of surfaces that end in each other, see passes().
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
        # What is held back may be in the way of others.
        more = [pair for pair in passes(moment, problem.positions(changed)) if pair not in known]
        if not more:
            return changed, blocks
        known += more


def _free(
    system: System, moment: Moment, problem: Meeting, v: Array, blocks: frozenset[int], crossing: Sequence[Pair]
) -> Array | None:
    """Velocities as v (f, 3) but for some blocks, which go as far as nothing of them ends in another one.

    crossing: pairs of surfaces of theirs.  None where these are in each other even if they stay.
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
