"""Collision detection between points and triangles of many small bodies at once.

For surfaces of a few hundred triangles, the overhead of numpy calls dominates. Batching makes all pairs of a heap of
bodies about as cheap as one pair.
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

# For surfaces with more triangles, or pairs with more candidates than this, the overhead does not dominate.
_SMALL, _MANY = 1_000, 6_000
# Number of cached batches, for the pairs that were near each other in recent steps.
_JOINTS = 8


def suits(model: ContactModel, a: int, b: int) -> bool:
    """Return whether the pair of points of surface a and triangles of surface b can be batched with others."""
    one, other = model.surfaces[a], model.surfaces[b]
    if a == b or one.is_obstacle or other.is_obstacle or not other.closed:
        return False
    return max(len(one.triangles), len(other.triangles)) <= _SMALL


class Together:
    """Batched detection of one step. history: contacts of the last step."""

    def __init__(self, moment: Moment, memory: ContactMemory) -> None:
        self._moment, self._memory = moment, memory
        self._began: dict[tuple[Pair, ...], Triangles] = {}

    def __call__(self, pairs: Sequence[Pair], points: Array, moves: tuple[Array, Array]) -> tuple[Meeting, Mask]:
        """Return the collisions of pairs at points (N, 3) m, the step's end, and which pairs (pairs,) need a single
        detection.

        pairs: that can_batch() accepts.  bounds: see CollisionState.displacement_bounds.

        Pairs need single detection if a point is deep, started inside, or is fast enough to have tunnelled.
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
        """Return the batch's surface at the step's start."""
        if key not in self._began:
            self._began[key] = Triangles(self._moment.start[: joint.last], joint.triangles, joint.topology)
        return self._began[key]

    def _inside(self, pairs: Sequence[Pair]) -> Mask:
        """Return which pairs (pairs,) have a point that lay behind the other surface at the end of the last step."""
        keys = self._memory.keys[(self._memory.keys[:, 1] == POINT) & (self._memory.depths > 0.0)]
        behind = set(zip(keys[:, 0].tolist(), keys[:, 3].tolist(), strict=True))
        return np.array([pair in behind for pair in pairs], dtype=bool)


def _candidates(ended: Triangles, joint: Joint, there: Array, reach: Array) -> tuple[Index, Index, Mask]:
    """Return candidate points (k,) and triangles (k,) whose boxes overlap, and the pairs (pairs,) that have too many.

    Those pairs are left out of the candidates.
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
    # Pairs without such points keep empty boxes.
    bottom, top = np.full((3, many), np.inf), np.full((3, many), -np.inf)
    far = np.maximum.reduceat(reach[near], begin)
    bottom[:, some] = np.minimum.reduceat(rows[:, near], begin, axis=1) - far
    top[:, some] = np.maximum.reduceat(rows[:, near], begin, axis=1) + far
    whose = np.repeat(np.arange(many), joint.counts)
    kept = np.flatnonzero(((high >= bottom[:, whose]) & (low <= top[:, whose])).all(axis=0))
    # Combine each point with each triangle of its pair.
    each = np.bincount(whose[kept], minlength=many)
    start, crowded = np.cumsum(each) - each, each * counts > _MANY
    repeated = np.where(crowded, 0, each)[pair]
    offset = np.arange(int(repeated.sum())) - (np.cumsum(repeated) - repeated).repeat(repeated)
    return near.repeat(repeated), kept[start[pair].repeat(repeated) + offset], crowded


def _sizes(ended: Triangles, joint: Joint) -> Array:
    """Return the box diagonals (pairs,) m of the touched surfaces."""
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
