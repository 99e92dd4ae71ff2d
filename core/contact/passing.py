"""Whether a step has carried one thing into another: an exact look, for steps that were hard."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..arrays import Array
from ..geometry.crossings import depth_between
from ..geometry.triangles import cross_rows
from .moment import Moment
from .rows import PART, ContactEnergy, Rows

# Less of the smaller one's size cannot be seen; a tenth is left to what rounds it for the screen.
DEEP = 0.9e-3

# Places of two surfaces, of which the second may be an obstacle.
Pair = tuple[int, int]


def looked_at(moment: Moment) -> list[Pair]:
    """The pairs of closed surfaces, and of such and planes, that are looked at exactly."""
    model, found = moment.model, []
    for a, b in model.facing:
        first, second = model.surfaces[a], model.surfaces[b]
        if model.seen[a] == a and model.seen[b] == b and first.closed and (second.closed or second.plane):
            found.append((a, b))
    return found


def passes(moment: Moment, positions: Array) -> list[Pair]:
    """Pairs of surfaces that were in front of each other when the step began and are not at positions (n, 3) m.

    Rows tell of features that are near; where a search went far, a tip may have come to lie beyond all of them.
    """
    end = moment.points(positions)
    return [pair for pair in looked_at(moment) if depth(moment, end, pair) > DEEP >= begun(moment, pair)]


def doubtful(moment: Moment, rows: Rows, positions: Array, excused: Collection[int] = ()) -> bool:
    """Whether contacts at positions (n, 3) m are pressed so far that one thing may be in another where one sees it.

    On a plane that is told by the points alone. Elsewhere something may be deeper beside them: where edges that hardly
    turn cross, nothing is looked for. What is asked of all steps is cheap.

    excused: blocks (places) for which obstacles with triangles do not count.
    """
    if not len(rows):
        return False
    behind = -ContactEnergy(rows, np.zeros(len(rows))).at(positions).gap - rows.out
    model, mine, other = moment.model, rows.key[:, 0], rows.key[:, 3]
    plane = np.array([one.plane for one in model.surfaces])[other]
    least = np.where(plane, DEEP * model.sizes[mine], -PART * rows.distance)
    free = np.array([not one.is_obstacle and one.block in excused for one in model.surfaces])
    led = (model.is_obstacle[mine] & free[other]) | (free[mine] & model.is_obstacle[other] & ~plane)
    return bool(((behind > least) & ~led).any())


def begun(moment: Moment, pair: Pair) -> float:
    """As depth(), where the step began."""
    known = moment.kept.get(("begun", pair))
    if not isinstance(known, float):
        known = moment.kept[("begun", pair)] = depth(moment, moment.start, pair)
    return known


def depth(moment: Moment, points: Array, pair: Pair) -> float:
    """How deep the deepest place of either of a pair is in the other, in parts of the smaller one's size.

    points: (N, 3) m of all surfaces.
    """
    model = moment.model
    (first, here), (second, there) = ((model.surfaces[k], points[model.points_of(k)]) for k in pair)
    if second.plane:
        return max(-_above(here, there), 0.0) / first.size
    if (here.max(axis=0) < there.min(axis=0)).any() or (there.max(axis=0) < here.min(axis=0)).any():
        return 0.0
    return depth_between(here, first.triangles, there, second.triangles) / min(first.size, second.size)


def _above(points: Array, plane: Array) -> float:
    """m, of the lowest of points (p, 3) above a plane that a triangle (3, 3) gives."""
    a, b, c = plane
    normal = cross_rows(b - a, c - a)
    return float(((points - a) @ normal).min() / np.sqrt(normal @ normal))


def grouped(pairs: Sequence[Pair]) -> list[set[int]]:
    """The surfaces of pairs, those together that pairs join."""
    groups: list[set[int]] = []
    for pair in pairs:
        mine = [one for one in groups if one & {*pair}]
        groups = [one for one in groups if not one & {*pair}] + [set(pair).union(*mine)]
    return groups
