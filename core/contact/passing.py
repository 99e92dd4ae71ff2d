"""Exact intersection tests between closed surfaces, for steps that may have tunnelled."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..arrays import Array
from ..geometry.crossings import depth_between
from ..geometry.triangles import cross_rows
from .moment import Moment
from .rows import PART, ContactEnergy, Rows

# Relative depth that is invisible, as a fraction of the smaller body's size: 10% below the limit of 0.1%, to allow for
# display rounding.
DEEP = 0.9e-3

# Indices of two surfaces; the second may be an obstacle.
Pair = tuple[int, int]


def looked_at(moment: Moment) -> list[Pair]:
    """Return the pairs of closed surfaces, and of closed surfaces and planes, that are tested exactly."""
    model, found = moment.model, []
    for a, b in model.facing:
        first, second = model.surfaces[a], model.surfaces[b]
        if model.seen[a] == a and model.seen[b] == b and first.closed and (second.closed or second.plane):
            found.append((a, b))
    return found


def passes(moment: Moment, positions: Array) -> list[Pair]:
    """Return pairs of surfaces that intersect at positions (n, 3) m but did not at the step's start.

    Contacts cover only nearby features. After a long search step, a tip may lie beyond all of them.
    """
    end = moment.points(positions)
    return [pair for pair in looked_at(moment) if depth(moment, end, pair) > DEEP >= begun(moment, pair)]


def doubtful(moment: Moment, rows: Rows, positions: Array, excused: Collection[int] = ()) -> bool:
    """Return whether contacts at positions (n, 3) m are so deep that surfaces may intersect visibly.

    On a plane, the points alone decide. Elsewhere the intersection may be deeper between the points, because edges of
    nearly coplanar triangles are not detected. This test is cheap, and runs after every step.

    excluded_blocks: block indices whose contacts with triangulated obstacles are ignored.
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
    """Return relative_depth() at the step's start; cached."""
    known = moment.kept.get(("begun", pair))
    if not isinstance(known, float):
        known = moment.kept[("begun", pair)] = depth(moment, moment.start, pair)
    return known


def depth(moment: Moment, points: Array, pair: Pair) -> float:
    """Return the largest penetration of a pair of surfaces, as a fraction of the smaller one's size.

    points: (N, 3) m, of all surfaces.
    """
    model = moment.model
    (first, here), (second, there) = ((model.surfaces[k], points[model.points_of(k)]) for k in pair)
    if second.plane:
        return max(-_above(here, there), 0.0) / first.size
    if (here.max(axis=0) < there.min(axis=0)).any() or (there.max(axis=0) < here.min(axis=0)).any():
        return 0.0
    return depth_between(here, first.triangles, there, second.triangles) / min(first.size, second.size)


def _above(points: Array, plane: Array) -> float:
    """Return the height in m of the lowest of points (p, 3) above a plane through a triangle (3, 3)."""
    a, b, c = plane
    normal = cross_rows(b - a, c - a)
    return float(((points - a) @ normal).min() / np.sqrt(normal @ normal))


def grouped(pairs: Sequence[Pair]) -> list[set[int]]:
    """Return the surfaces of pairs, grouped by connection."""
    groups: list[set[int]] = []
    for pair in pairs:
        mine = [one for one in groups if one & {*pair}]
        groups = [one for one in groups if not one & {*pair}] + [set(pair).union(*mine)]
    return groups
