"""Contacts between edges of two surfaces, at least one of each pair being sharp.

Points and triangles alone would miss edges that cross between vertices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from ..geometry.box import around, beyond
from ..geometry.closest import closest_of_lines
from ..geometry.edge_pairs import edges_that_may, near_edges
from ..geometry.proximity import Triangles
from ..geometry.triangles import cross_rows
from .meeting import Meeting, pair_distance, weighted
from .memory import EDGE
from .model import ContactModel
from .moment import Moment
from .touchable import Touchable

# Search radius in contact distances, in addition to the motion; largest depth at the start in contact distances.
_REACH, _BEHIND = 2.0, 2.0
# A pair deeper than this many contact distances may have tunnelled, and counts only if the edges met during the step.
_DEEP = 4.0
# An edge touches in directions between its two faces' normals, up to this tolerance of the cosine.
_ROUND = 0.05
# A sheet folds over edges with a smaller cosine between their faces, if they are longer than this many sheet edges.
_FOLDS, _LONG = 0.5, 2.0
# Edges count as crossing if they met up to this fraction of their lengths beyond their ends.
_BORDER = 0.02


@dataclass(frozen=True)
class _Lot:
    """Candidate edges of two surfaces a and b.

    first_edges, second_edges: indices of edges of a and b.  radius: m, search radius.
    """

    a: int
    b: int
    mine: Index
    theirs: Index
    reach: float


def _reaching(points: Array, edges: Index, others: Array, reach: float) -> Index:
    """Return indices (k,) of edges (e, 2) within radius (m) of the box around others (p, 3) m."""
    if not len(others):
        return np.zeros(0, dtype=np.int64)
    low, high = around(others)
    out = beyond(points, low - reach, high + reach)
    return np.flatnonzero(out[edges[:, 0]] & out[edges[:, 1]] == 0)


def _lot(model: ContactModel, points: Array, a: int, b: int, sharp: int, reach: float) -> _Lot | None:
    """Return the candidate edges of two surfaces, or None.

    selection: 0 for sharp edges of a with smooth ones of b, 1 for all edges of a with sharp ones of b, 2 for all edges.
    """
    one, two = model.surfaces[a], model.surfaces[b]
    mine, theirs, ends = (
        (one.sharp, two.smooth, two.rounded),
        (one.every, two.sharp, two.corners),
        (one.every, two.every, two.points),
    )[sharp]
    if not len(mine) or not len(theirs):
        return None
    own, other = points[model.points_of(a)], points[model.points_of(b)]
    mine = mine[_reaching(own, one.sides[0][mine], other[ends], reach)]
    theirs = theirs[_reaching(other, two.sides[0][theirs], own[one.sides[0][mine].ravel()], reach)]
    return _Lot(a, b, mine, theirs, reach) if len(theirs) else None


def meeting_edges(
    moment: Moment,
    pairs: Sequence[tuple[int, int]],
    points: Array,
    moves: tuple[Array, Array],
    thorough: bool = False,
) -> list[Meeting]:
    """Return the contacts between edges of pairs of surfaces, at least one edge of each contact being sharp.

    points: (N, 3) m at the step's end.  bounds: see CollisionState.displacement_bounds.  thorough: whether all edges of
        two closed surfaces are included.
    """
    model, lots = moment.model, []
    for a, b in pairs:
        one, two = model.surfaces[a], model.surfaces[b]
        # A thread deeper than the closed surface's thickness passes through it. Smooth edges that it met during the
        # step, thousands in a fine mesh, are found by the next detection.
        deep = two.thickness if one.strung and two.closed else 0.0
        part = model.points_of(a)
        way = points[part] - moment.start[part] - moves[0][b]
        motion = float(np.sqrt((way * way).sum(axis=1).max())) + float(moves[1][b])
        most = 0.25 * min(one.size or np.inf, two.size)
        # Pairs of two sharp edges are in the first round.
        turns = ((2, 0.0),) if thorough and one.closed and two.closed else ((1, 0.0), (0, deep))
        for sharp, passed in turns:
            reach = _REACH * pair_distance(moment, a, b) + min(max(motion - passed, 0.0), most)
            lot = _lot(model, points, a, b, sharp, reach)
            if lot is not None:
                lots.append(lot)
    return [_met(moment, lots, points)] if lots else []


def _met(moment: Moment, lots: Sequence[_Lot], points: Array) -> Meeting:
    """Return the contacts of all batches."""
    model = moment.model
    starts = [(model.points_of(lot.a).start, model.points_of(lot.b).start) for lot in lots]
    ends_a = [model.surfaces[lot.a].sides[0][lot.mine] + start for lot, (start, _) in zip(lots, starts, strict=True)]
    ends_b = [model.surfaces[lot.b].sides[0][lot.theirs] + start for lot, (_, start) in zip(lots, starts, strict=True)]
    first, second, reach = [], [], []
    done_a = done_b = 0
    for lot, mine, theirs in zip(lots, ends_a, ends_b, strict=True):
        one, other = edges_that_may(points, mine, points, theirs, lot.reach)
        first.append(one + done_a)
        second.append(other + done_b)
        reach.append(np.full(len(one), lot.reach))
        done_a, done_b = done_a + len(mine), done_b + len(theirs)
    all_a, all_b = np.concatenate(ends_a), np.concatenate(ends_b)
    asked = np.concatenate(first), np.concatenate(second)
    pairs = near_edges(points, all_a, points, all_b, np.concatenate(reach), pairs=asked)
    of = np.repeat(np.arange(len(lots)), [len(one) for one in ends_a])[pairs.first]
    mine, theirs = (np.concatenate(each) for each in ([k.mine for k in lots], [k.theirs for k in lots]))
    mine, theirs = mine[pairs.first], theirs[pairs.second]
    stack = np.concatenate([all_a[pairs.first], all_b[pairs.second]], axis=1)
    surfaces = np.array([(k.a, k.b) for k in lots])[of]
    out_a, out_b = _outward(model, points, surfaces[:, 0], mine), _outward(model, points, surfaces[:, 1], theirs)
    place = points[stack]
    across = cross_rows((place[:, 1] - place[:, 0]).T, (place[:, 3] - place[:, 2]).T).T
    normal = across / np.maximum(np.sqrt((across * across).sum(axis=1)), 1e-30)[:, None]
    long_a, long_b, strung = np.zeros((3, len(of)), dtype=bool)
    for number, k in enumerate(lots):
        thing, ground = model.surfaces[k.a], model.surfaces[k.b]
        if thing.closed and ground.closed:
            continue
        some = np.flatnonzero(of == number)
        # A sheet has no outside. Over a long sharp edge of a closed surface, that edge decides the direction of the
        # push, and the sheet may touch with either side.
        long_a[some] = _long(thing, place[some, :2], out_a[some], ground)
        long_b[some] = _long(ground, place[some, 2:], out_b[some], thing)
        strung[some] = thing.strung
    facing = np.where(long_a[:, None], 0.0, out_b.sum(axis=1)) - np.where(long_b[:, None], 0.0, out_a.sum(axis=1))
    normal = normal * np.where((facing * normal).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]
    weights = np.stack([1.0 - pairs.s, pairs.s, pairs.t - 1.0, -pairs.t], axis=1)
    before = (weighted(weights, stack, moment.start) * normal).sum(axis=1)
    after = (pairs.way * normal).sum(axis=1)
    keep = _within(out_b, normal) | (long_a & _within(-out_b, normal))
    keep &= _within(out_a, -normal) | (long_b & _within(-out_a, -normal))
    keep &= model.moved[stack].any(axis=1)
    if strung.any():
        # A thread along one face of an edge is not behind the other face.
        keep &= ~strung | (after > 0.0) | _within(out_b, normal, -_ROUND)
    distance = moment.pair_distances[surfaces[:, 0], surfaces[:, 1]]
    keep &= before > -_BEHIND * distance
    # Deep pairs count only if the edges met during the step.
    deep = np.flatnonzero(keep & (after < -_DEEP * distance))
    if len(deep):
        heights = before[deep], after[deep]
        keep[deep], weights[deep] = _passed(moment.start[stack[deep]], place[deep], heights, weights[deep])
    some = np.flatnonzero(keep)
    feature = mine * np.array([len(model.surfaces[k.b].sides[0]) for k in lots])[of] + theirs
    areas = model.areas[stack]
    area = 0.5 * np.minimum(areas[:, 0] + areas[:, 1], areas[:, 2] + areas[:, 3])
    return Meeting(surfaces[some], stack[some], weights[some], normal[some], feature[some], EDGE, area[some])


def _passed(start: Array, end: Array, heights: tuple[Array, Array], weights: Array) -> tuple[Mask, Array]:
    """Return whether edges on straight paths met (k,), and the weights (k, 4) of the points where they met.

    start, end: (k, 4, 3) m, ends of the edges.  gaps: (k,) m between them before and after.  weights: (k, 4), used
        where they did not meet.
    """
    before, after = heights
    time = np.clip(before / np.where(before > after, before - after, 1.0), 0.0, 1.0)
    there = start + time[:, None, None] * (end - start)
    way_a, way_b = there[:, 1] - there[:, 0], there[:, 3] - there[:, 2]
    s, t, _ = closest_of_lines(there[:, 0].T, way_a.T, there[:, 2].T, way_b.T)
    inside = (s >= -_BORDER) & (s <= 1.0 + _BORDER) & (t >= -_BORDER) & (t <= 1.0 + _BORDER)
    return inside, np.where(inside[:, None], np.column_stack([1.0 - s, s, t - 1.0, -t]), weights)


def _long(surface: Touchable, ends: Array, out: Array, sheet: Touchable) -> Mask:
    """Return which edges (k,) of a closed surface are sharp and long enough for a sheet to fold over.

    Sharp edges turn by more than 60 degrees.  ends: (k, 2, 3) m.  face_normals: (k, 2, 3).  If the surface is as finely
    meshed as the sheet, the point contacts of its vertices suffice.
    """
    if not surface.closed or sheet.closed or sheet.strung:
        return np.zeros(len(ends), dtype=bool)
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    turned = np.einsum("ki,ki->k", out[:, 0], out[:, 1]) < _FOLDS
    return np.asarray(turned & (lengths > _LONG * sheet.edge_length))


def _outward(model: ContactModel, points: Array, surfaces: Index, edges: Index) -> Array:
    """Return the normals (k, 2, 3) of each edge's two faces; at a border the same one twice, 0 for threads."""
    faces = np.zeros((len(edges), 2, 3), dtype=np.int64)
    for place in np.flatnonzero(np.bincount(surfaces, minlength=1)):
        surface = model.surfaces[place]
        if not surface.strung:
            mine = np.flatnonzero(surfaces == place)
            faces[mine] = surface.triangles[surface.beside[edges[mine]]] + model.starts[place]
    # A degenerate triangle stands for a missing one.
    return Triangles(points, faces.reshape(-1, 3)).normals.reshape(-1, 2, 3)


def _within(out: Array, normal: Array, more: float = _ROUND) -> Mask:
    """Return whether directions (k, 3) lie between the normals (k, 2, 3) of the edges' faces; always true for threads.

    tolerance: of the cosine; a negative one narrows the cone at sharp edges.
    """
    turn = np.minimum(np.einsum("ki,ki->k", out[:, 0], out[:, 1]), 0.99)
    least = turn - (more if more > 0.0 else more * (1.0 - turn))
    along = np.einsum("kji,ki->kj", out, normal)
    return np.asarray((along >= least[:, None]).all(axis=1))
