"""Which sharp edges of surfaces meet edges of others: between vertices nothing else would stop them."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Mask
from ..geometry.box import around
from ..geometry.closest import closest_of_lines
from ..geometry.edge_pairs import near_edges
from ..geometry.proximity import Triangles
from .meeting import Meeting, pair_distance
from .memory import EDGE
from .model import Touchable
from .moment import Moment

# Contact distances within which edges are looked for, beside the way that is made; how far behind they may have begun.
_REACH, _BEHIND = 2.0, 2.0
# Deeper than so many contact distances another face is what is met.
_DEEP = 4.0
# An edge touches in the directions between its two faces' normals, to this part more.
_ROUND = 0.05
# The cosine between the faces of an edge over which a sheet folds, and its least length, in edges of the sheet.
_FOLDS, _LONG = 0.5, 2.0
# Edges that met at most this part of their lengths beyond their ends did meet.
_BORDER = 0.02


def meeting_edges(moment: Moment, a: int, b: int, ended: dict[int, Triangles]) -> list[Meeting]:
    """Contacts of edges of two surfaces, at least one of each two being sharp. ended: surfaces at the step's end."""
    first, second = moment.model.surfaces[a], moment.model.surfaces[b]
    found = []
    all_a, all_b = (np.arange(len(one.sides[0])) for one in (first, second))
    # A thread that goes deeper than what is closed is thick goes through it; smooth edges met on the way there, as a
    # fine mesh has thousands of, are found where it comes to next.
    deep = second.thickness if first.strung and second.closed else 0.0
    for mine, theirs, passed in ((all_a, second.sharp, 0.0), (first.sharp, all_b, deep)):
        # Of two sharp edges the first turn has taken care.
        one = _meeting(moment, a, b, mine, theirs, ended, passed)
        if one is not None:
            found.append(one)
    if len(found) == 2:
        fresh = ~np.isin(found[1].feature, found[0].feature)
        found[1] = found[1].some(np.flatnonzero(fresh))
    return found


def _meeting(
    moment: Moment, a: int, b: int, mine: Index, theirs: Index, ended: dict[int, Triangles], passed: float
) -> Meeting | None:
    """mine, theirs: which sides of the surfaces.  passed: m, of the way that is made, how much is not looked for."""
    model = moment.model
    one, two = model.surfaces[a], model.surfaces[b]
    if not len(mine) or not len(theirs):
        return None
    distance = pair_distance(moment, a, b)
    parts = model.points_of(a), model.points_of(b)
    own, other = ended[a].vertices, ended[b].vertices
    moved = [points - moment.start[part] for points, part in zip((own, other), parts, strict=True)]
    mean = moved[1].mean(axis=0)
    motion = float(np.linalg.norm(moved[0] - mean, axis=1).max()) + float(np.linalg.norm(moved[1] - mean, axis=1).max())
    motion = max(motion - passed, 0.0)
    reach = _REACH * distance + min(motion, 0.25 * min(model.surfaces[a].size or np.inf, model.surfaces[b].size))
    mine = mine[_boxed(own, one.sides[0][mine], other, two.sides[0][theirs], reach)]
    if not len(mine):
        return None
    theirs = theirs[_boxed(other, two.sides[0][theirs], own, one.sides[0][mine], reach)]
    if not len(theirs):
        return None
    pairs = near_edges(own, one.sides[0][mine], other, two.sides[0][theirs], reach)
    if not len(pairs.first):
        return None
    mine, theirs = mine[pairs.first], theirs[pairs.second]
    edge_a, edge_b = one.sides[0][mine], two.sides[0][theirs]
    across = np.cross(own[edge_a[:, 1]] - own[edge_a[:, 0]], other[edge_b[:, 1]] - other[edge_b[:, 0]])
    normal = across / np.maximum(np.linalg.norm(across, axis=1), 1e-30)[:, None]
    out_a, out_b = _outward(one, ended[a], mine), _outward(two, ended[b], theirs)
    # A sheet has no outside: over a long sharp edge that says which way it is pushed, and either of its sides may be.
    long_b = _long(two, other[edge_b], out_b, one)[:, None]
    long_a = _long(one, own[edge_a], out_a, two)[:, None]
    facing = (np.where(long_a, 0.0, out_b.sum(axis=1)) - np.where(long_b, 0.0, out_a.sum(axis=1))) * normal
    normal = normal * np.where(facing.sum(axis=1) < 0.0, -1.0, 1.0)[:, None]
    stack = np.column_stack([edge_a + parts[0].start, edge_b + parts[1].start])
    weights = np.column_stack([1.0 - pairs.s, pairs.s, pairs.t - 1.0, -pairs.t])
    before = np.einsum("ki,ki->k", np.einsum("kj,kji->ki", weights, moment.start[stack]), normal)
    after = np.einsum("ki,ki->k", pairs.way, normal)
    keep = _within(out_b, normal) | (long_a[:, 0] & _within(-out_b, normal))
    keep &= _within(out_a, -normal) | (long_b[:, 0] & _within(-out_a, -normal))
    keep &= model.moved[stack].any(axis=1)
    if one.strung:
        # A thread along the one face of an edge is not behind the other one.
        keep &= (after > 0.0) | _within(out_b, normal, -_ROUND)
    keep &= before > -_BEHIND * distance
    # What ended deep must have met on its way.
    deep = np.flatnonzero(keep & (after < -_DEEP * distance))
    if len(deep):
        end = np.concatenate([own[edge_a[deep]], other[edge_b[deep]]], axis=1)
        heights = before[deep], after[deep]
        keep[deep], weights[deep] = _passed(moment.start[stack[deep]], end, heights, weights[deep])
    some = np.flatnonzero(keep)
    if not len(some):
        return None
    feature = mine * len(two.sides[0]) + theirs
    area = np.minimum(_areas(one, edge_a), _areas(two, edge_b))
    return Meeting((a, b), stack[some], weights[some], normal[some], feature[some], EDGE, area[some])


def _passed(start: Array, end: Array, heights: tuple[Array, Array], weights: Array) -> tuple[Mask, Array]:
    """Whether edges that move along straight lines met, and where on them: (k,), (k, 4) as in a Meeting.

    start, end: (k, 4, 3) m, their ends.  heights: (k,) m of one above the other, before and after.  weights: (k, 4).
    """
    before, after = heights
    time = np.clip(before / np.where(before > after, before - after, 1.0), 0.0, 1.0)
    there = start + time[:, None, None] * (end - start)
    way_a, way_b = there[:, 1] - there[:, 0], there[:, 3] - there[:, 2]
    s, t, _ = closest_of_lines(there[:, 0].T, way_a.T, there[:, 2].T, way_b.T)
    inside = (s >= -_BORDER) & (s <= 1.0 + _BORDER) & (t >= -_BORDER) & (t <= 1.0 + _BORDER)
    return inside, np.where(inside[:, None], np.column_stack([1.0 - s, s, t - 1.0, -t]), weights)


def _boxed(points: Array, edges: Index, others: Array, other_edges: Index, reach: float) -> Mask:
    """The edges that reach into the box around others."""
    used = np.zeros(len(others), dtype=bool)
    used[other_edges.ravel()] = True
    low, high = around(others[used])
    rows, beyond = np.ascontiguousarray(points.T), np.zeros(len(points), dtype=np.uint8)
    for axis in range(3):
        beyond |= (rows[axis] < low[axis] - reach).astype(np.uint8) << (2 * axis)
        beyond |= (rows[axis] > high[axis] + reach).astype(np.uint8) << (2 * axis + 1)
    # Both ends of what does not are beyond the same side.
    return np.asarray((beyond[edges[:, 0]] & beyond[edges[:, 1]]) == 0)


def _long(surface: Touchable, ends: Array, out: Array, sheet: Touchable) -> Mask:
    """(k,) which edges of what is closed turn by more than 60 degrees, and are so long that a sheet folds over them.

    ends: (k, 2, 3) m.  out: (k, 2, 3) normals of their faces.  Of what has as many vertices as the sheet those meet it.
    """
    if not surface.closed or sheet.closed or sheet.strung:
        return np.zeros(len(ends), dtype=bool)
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    turned = np.einsum("ki,ki->k", out[:, 0], out[:, 1]) < _FOLDS
    return np.asarray(turned & (lengths > _LONG * sheet.edge_length))


def _outward(surface: Touchable, there: Triangles, edges: Index) -> Array:
    """(k, 2, 3) the normals of edges' two triangles; of a border both those of its one, of threads none."""
    if surface.strung:
        return np.zeros((len(edges), 2, 3))
    faces = surface.sides[1][edges]
    return np.asarray(there.normals[np.where(faces < 0, faces[:, ::-1], faces)])


def _within(out: Array, normal: Array, more: float = _ROUND) -> Mask:
    """Whether directions (k, 3) lie between the normals (k, 2, 3) of edges' faces; all do around a thread.

    more: so much beyond them, or less than up to them where they turn.
    """
    turn = np.minimum(np.einsum("ki,ki->k", out[:, 0], out[:, 1]), 0.99)
    least = turn - (more if more > 0.0 else more * (1.0 - turn))
    along = np.einsum("kji,ki->kj", out, normal)
    return np.asarray((along >= least[:, None]).all(axis=1))


def _areas(surface: Touchable, edges: Index) -> Array:
    """(k,) m^2 that an edge stands for: what its two ends do."""
    return np.asarray(surface.areas[edges].mean(axis=1))
