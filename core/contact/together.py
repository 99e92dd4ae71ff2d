"""Points of small bodies near triangles of others, all pairs of bodies at once.

Where a surface has some hundred triangles, what it takes to ask about a pair is numpy's calls, whatever is in them: a
heap of bodies asks about all its pairs for about what one costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array, Index, Mask
from ..geometry.proximity import Triangles, nearest_among, signed
from .joint import Joint, Pair
from .meeting import BEHIND, DEEP, REACH, Meeting, faced
from .memory import POINT, ContactMemory
from .model import ContactModel
from .moment import Moment

# Of surfaces of more triangles, or where so many pairs of points and triangles are near, the calls are not what takes
# time.
_SMALL, _MANY = 1_000, 6_000
# So many are kept as one, for the pairs that were near each other in one step or the other.
_JOINTS = 8


def suits(model: ContactModel, a: int, b: int) -> bool:
    """Whether points of surface a near surface b can be looked for together with those of other pairs."""
    one, other = model.surfaces[a], model.surfaces[b]
    if a == b or one.is_obstacle or other.is_obstacle or not other.closed:
        return False
    return max(len(one.triangles), len(other.triangles)) <= _SMALL


class Together:
    """Of one step. memory: what the last one left."""

    def __init__(self, moment: Moment, memory: ContactMemory) -> None:
        self._moment, self._memory = moment, memory
        self._began: dict[tuple[Pair, ...], Triangles] = {}

    def __call__(self, pairs: Sequence[Pair], points: Array, moves: tuple[Array, Array]) -> tuple[Meeting, Mask]:
        """What pairs that suit touch where the step ends at points (N, 3) m, and (pairs,) which have to be asked alone.

        moves: how far each surface goes in the mean, (s, 3) m, and at most beside that, (s,) m.

        Alone: of which something is deep or so fast that it may have gone through, or began inside.
        """
        moment, model, key = self._moment, self._moment.model, tuple(pairs)
        joint = model.joints.get(key)
        if joint is None:
            if len(model.joints) == _JOINTS:
                model.joints.clear()
            model.joints[key] = joint = Joint.of(model.surfaces, model.starts, pairs)
        ended = Triangles(points[: joint.last], joint.triangles, joint.topology)
        a, b = np.array(pairs).T
        mine, distance = joint.pair, moment.pair_distances[a, b]
        there, before = points[joint.points], moment.start[joint.points]
        way = there - before - moves[0][b][mine]
        moved = np.sqrt((way * way).sum(axis=1)) + moves[1][b][mine]
        reach = REACH * distance[mine] + moved
        if ended.degenerate.any():
            return _nothing(), np.ones(len(pairs), dtype=bool)
        began = self._start(key, joint)
        point, among, many = _candidates(ended, joint, there, reach)
        closed = np.array([model.surfaces[k].closed for k in a])[mine]
        behind = -BEHIND * distance[mine]

        def forbidden(point: Index, triangle: Index) -> Mask:
            corner = began.vertices[joint.triangles[triangle, 0]]
            no = np.einsum("ki,ki->k", before[point] - corner, began.normals[triangle]) < behind[point]
            ask = np.flatnonzero(closed[point] & ~no)
            no[ask] = ~faced(ended, joint.around, joint.points[point[ask]], ended.normals[triangle[ask]])
            return np.asarray(no)

        sizes = _sizes(ended, joint)
        near = nearest_among(ended, there, reach, sizes[mine], joint.among, (point, among), forbidden)
        sign, normal = signed(ended, near, sizes[mine[near.point]])
        of = mine[near.point]
        alone = many | self._inside(pairs) | _any(of[sign * near.distance < -DEEP * distance[of]], len(pairs))
        alone |= _any(mine[moved > model.thicknesses[b][mine]], len(pairs))
        some = np.flatnonzero(~alone[of])
        of, place = of[some], joint.points[near.point[some]]
        return Meeting(
            np.stack([a[of], b[of]], axis=1),
            np.column_stack([place, joint.triangles[near.triangle[some]]]),
            np.column_stack([np.ones(len(some)), -near.weights[some]]),
            normal[some],
            place - model.starts[a[of]],
            POINT,
            model.areas[place],
        ), alone

    def _start(self, key: tuple[Pair, ...], joint: Joint) -> Triangles:
        if key not in self._began:
            self._began[key] = Triangles(self._moment.start[: joint.last], joint.triangles, joint.topology)
        return self._began[key]

    def _inside(self, pairs: Sequence[Pair]) -> Mask:
        """(pairs,) of which a point lay behind the other surface when the last step ended."""
        keys = self._memory.keys[(self._memory.keys[:, 1] == POINT) & (self._memory.depths > 0.0)]
        behind = set(zip(keys[:, 0].tolist(), keys[:, 3].tolist(), strict=True))
        return np.array([pair in behind for pair in pairs], dtype=bool)


def _candidates(ended: Triangles, joint: Joint, there: Array, reach: Array) -> tuple[Index, Index, Mask]:
    """Pairs of points and triangles among those of a pair, (k,) and (k,), that boxes leave, as proximity has it.

    And of which pairs of surfaces these are too many, (pairs,), and left out.
    """
    many = len(joint.counts)
    first = np.cumsum(joint.counts) - joint.counts
    rows = np.ascontiguousarray(there.T)
    low, high = ended.low.take(joint.among, axis=1), ended.high.take(joint.among, axis=1)
    bottom = np.minimum.reduceat(low, first, axis=1)[:, joint.pair] - reach
    top = np.maximum.reduceat(high, first, axis=1)[:, joint.pair] + reach
    near = np.flatnonzero(((rows >= bottom) & (rows <= top)).all(axis=0))
    pair = joint.pair[near]
    counts = np.bincount(pair, minlength=many)
    some = np.flatnonzero(counts)
    if not len(some):
        return near, near, np.zeros(many, dtype=bool)
    begin = (np.cumsum(counts) - counts)[some]
    # Of pairs without such points nothing is in their box.
    bottom, top = np.full((3, many), np.inf), np.full((3, many), -np.inf)
    far = np.maximum.reduceat(reach[near], begin)
    bottom[:, some] = np.minimum.reduceat(rows[:, near], begin, axis=1) - far
    top[:, some] = np.maximum.reduceat(rows[:, near], begin, axis=1) + far
    whose = np.repeat(np.arange(many), joint.counts)
    kept = np.flatnonzero(((high >= bottom[:, whose]) & (low <= top[:, whose])).all(axis=0))
    # Every point with every triangle of its pair.
    each = np.bincount(whose[kept], minlength=many)
    start, crowded = np.cumsum(each) - each, each * counts > _MANY
    repeated = np.where(crowded, 0, each)[pair]
    offset = np.arange(int(repeated.sum())) - (np.cumsum(repeated) - repeated).repeat(repeated)
    return near.repeat(repeated), kept[start[pair].repeat(repeated) + offset], crowded


def _sizes(ended: Triangles, joint: Joint) -> Array:
    """(pairs,) m, diagonals of the boxes of what is touched."""
    first = np.cumsum(joint.counts) - joint.counts
    low = np.minimum.reduceat(ended.low.take(joint.among, axis=1), first, axis=1)
    high = np.maximum.reduceat(ended.high.take(joint.among, axis=1), first, axis=1)
    return np.asarray(np.sqrt(((high - low) ** 2).sum(axis=0)))


def _any(which: Index, count: int) -> Mask:
    found = np.zeros(count, dtype=bool)
    found[which] = True
    return found


def _nothing() -> Meeting:
    none = np.zeros(0, dtype=np.int64)
    return Meeting(none.reshape(0, 2), none.reshape(0, 4), np.zeros((0, 4)), np.zeros((0, 3)), none, POINT, np.zeros(0))
