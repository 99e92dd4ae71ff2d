"""Decimation of a surface by edge collapse: short edges collapse, many per pass, down to a number of vertices.

A vertex is merged into a neighbour, so the remaining vertices are vertices of the input. An edge may collapse if its
ends share no neighbours other than the tips of its triangles (the link condition, which keeps the topology), and if no
triangle flips. The edges that collapse in one pass are independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask

# Cosine of the largest rotation of a triangle's normal in one collapse, and the smallest quality allowed: the area over
# the square of the longest side (0.43 for an equilateral triangle).
_TURN, _THIN = 0.7, 0.05
# Border vertices at which the border turns by more than the angle of this cosine are fixed.
_CORNER = 0.85
# Weight of the cost of edges between faces that are not coplanar.
_FOLD = 8.0
# Random part of the cost: it breaks ties between equally long edges, so that many can collapse in one pass.
_CHANCE = 0.6
_ROUNDS = 200
# An edge may be flipped if its triangles' normals differ by less than the angle of this cosine.
_FLAT = 0.95
_FLIPS = 40


@dataclass(frozen=True)
class Collapsed:
    """Result of a decimation.

    triangles: (t, 3), indices of input vertices.  representative: (v,) the vertex that each input vertex was merged
    into; its own index if it remains.
    """

    triangles: Index
    into: Index


def collapsed(vertices: Array, triangles: Index, count: int, held: Array, kept: Index | None = None) -> Collapsed:
    """Reduce a surface to about vertex_count vertices by edge collapse, then flip edges (Delaunay).

    vertices: (v, 3).  triangles: (m, 3), each with three different vertices.
    pin_weights: (v,); a vertex is never merged into one with a lower weight.  fixed_vertices: never removed.
    """
    into, banned = np.arange(len(vertices)), np.zeros(0, dtype=np.int64)
    v = len(vertices)
    for _ in range(_ROUNDS):
        over = len(np.unique(triangles)) - count
        if over <= 0:
            break
        found = _round(vertices, triangles, held, over, banned, kept)
        if found is None:
            break
        away, to, refused = found
        if len(refused):
            banned = np.concatenate([banned, refused])
        if not len(away):
            if not len(refused):
                break
            continue
        step = np.arange(v)
        step[away] = to
        into = step[into]
        triangles = step[triangles]
        a, b, c = triangles.T
        triangles = triangles[(a != b) & (b != c) & (c != a)]
    return Collapsed(_flipped(vertices, triangles), into)


def _round(
    vertices: Array, triangles: Index, held: Array, most: int, banned: Index, kept: Index | None
) -> tuple[Index, Index, Index] | None:
    """Return removed vertices, their targets and rejected pairs (as keys) of one pass; None if no edge can collapse."""
    v = len(vertices)
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    keys = np.sort(sides, axis=1) @ np.array([v, 1])
    edge_keys, place, uses = np.unique(keys, return_inverse=True, return_counts=True)
    a, b = edge_keys // v, edge_keys % v
    border, stays = _borders(vertices, a, b, uses)
    if kept is not None:
        stays[kept] = True
    near = csr_matrix((np.ones(2 * len(a)), (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(v, v))
    common = np.asarray(near[a].multiply(near[b]).sum(axis=1)).ravel()
    way = vertices[b] - vertices[a]
    square = np.einsum("ei,ei->e", way, way)
    # Removing a vertex that has long edges would lengthen them further.
    longest = np.zeros(v)
    np.maximum.at(longest, a, square)
    np.maximum.at(longest, b, square)
    chance = 1.0 + _CHANCE * np.random.default_rng(len(a)).random(len(a))
    cost = (square + longest[a] + longest[b]) * chance * _folds(vertices, triangles, place.reshape(-1), len(a))
    sound = (uses <= 2) & (common == uses)

    def may(away: Index, to: Index) -> Mask:
        fits = ~stays[away] & (~border[away] | (uses == 1)) & (held[away] <= held[to])
        return np.asarray(sound & fits & ((held[away] > 0.0) <= (held[to] > 0.0)) & ~np.isin(away * v + to, banned))

    forth, back = may(a, b), may(b, a)
    rank = np.full(len(a), len(a))
    some = np.flatnonzero(forth | back)
    if not len(some):
        return None
    rank[some[np.argsort(cost[some], kind="stable")]] = np.arange(len(some))
    first = np.full(v, len(a))
    np.minimum.at(first, a, rank)
    np.minimum.at(first, b, rank)
    second = first.copy()
    np.minimum.at(second, a, first[b])
    np.minimum.at(second, b, first[a])
    chosen = some[(rank[some] == second[a[some]]) & (rank[some] == second[b[some]])]
    chosen = chosen[np.argsort(rank[chosen])][:most]
    away, to = np.where(back[chosen], b[chosen], a[chosen]), np.where(back[chosen], a[chosen], b[chosen])
    bad = _turned(vertices, triangles, away, to)
    return away[~bad], to[~bad], (away * v + to)[bad]


def _flipped(vertices: Array, triangles: Index) -> Index:
    """Return triangles after Delaunay edge flips: edges are flipped where the opposite angles sum to more than pi."""
    v = len(vertices)
    for _ in range(_FLIPS):
        # Side k of a triangle goes from corner k to corner k + 1; the remaining corner is its tip.
        sides = np.concatenate([triangles[:, [k, (k + 1) % 3]] for k in range(3)])
        tips = np.concatenate([triangles[:, (k + 2) % 3] for k in range(3)])
        owner = np.tile(np.arange(len(triangles)), 3)
        keys = np.sort(sides, axis=1) @ np.array([v, 1])
        order = np.argsort(keys, kind="stable")
        known, first, uses = np.unique(keys[order], return_index=True, return_counts=True)
        pair = first[uses == 2]
        one, other = order[pair], order[pair + 1]
        a, b, c, d = sides[one, 0], sides[one, 1], tips[one], tips[other]
        wide = _cosine(vertices, c, a, b), _cosine(vertices, d, a, b)
        gain = np.arccos(wide[0]) + np.arccos(wide[1]) - np.pi
        new = np.stack([np.stack([c, a, d], axis=1), np.stack([d, b, c], axis=1)], axis=1)
        before = _normals(vertices, triangles[owner[one]]), _normals(vertices, triangles[owner[other]])
        after = _normals(vertices, new[:, 0]), _normals(vertices, new[:, 1])
        fine = (gain > 1e-6) & (sides[one, 0] == sides[other, 1]) & (c != d)
        fine &= ~np.isin(np.sort(np.stack([c, d], axis=1), axis=1) @ np.array([v, 1]), known)
        for was in before:
            for now in (before[0], *after):
                size = np.linalg.norm(was, axis=1) * np.linalg.norm(now, axis=1)
                fine &= np.einsum("ei,ei->e", was, now) > _FLAT * size
        some = np.flatnonzero(fine)
        if not len(some):
            break
        rank = np.empty(len(some), dtype=np.int64)
        rank[np.argsort(-gain[some], kind="stable")] = np.arange(len(some))
        best = np.full(len(triangles), len(some))
        for mine in (one, other):
            np.minimum.at(best, owner[mine[some]], rank)
        won = some[(rank == best[owner[one[some]]]) & (rank == best[owner[other[some]]])]
        # Two flips may create the same new edge: keep one of them.
        crossing = np.sort(np.stack([c[won], d[won]], axis=1), axis=1) @ np.array([v, 1])
        won = won[np.sort(np.unique(crossing, return_index=True)[1])]
        triangles = triangles.copy()
        triangles[owner[one[won]]], triangles[owner[other[won]]] = new[won, 0], new[won, 1]
    return triangles


def _cosine(vertices: Array, tip: Index, a: Index, b: Index) -> Array:
    """Return the cosine of the angle at each tip between the directions to a and b."""
    one, other = vertices[a] - vertices[tip], vertices[b] - vertices[tip]
    size = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray(np.clip(np.einsum("ei,ei->e", one, other) / np.maximum(size, 1e-300), -1.0, 1.0))


def _borders(vertices: Array, a: Index, b: Index, uses: Index) -> tuple[Mask, Mask]:
    """Return masks (v,) of border vertices, and of fixed ones: border corners and non-manifold vertices."""
    v = len(vertices)
    rim = np.flatnonzero(uses == 1)
    count = np.bincount(np.concatenate([a[rim], b[rim]]), minlength=v)
    border, stays = count > 0, (count > 0) & (count != 2)
    many = np.flatnonzero(uses > 2)
    stays[a[many]] = stays[b[many]] = True
    # The unit vectors to both border neighbours cancel where the border is straight.
    unit = vertices[b[rim]] - vertices[a[rim]]
    unit /= np.maximum(np.linalg.norm(unit, axis=1), 1e-300)[:, None]
    total = np.zeros_like(vertices)
    np.add.at(total, a[rim], unit)
    np.add.at(total, b[rim], -unit)
    # |u + w|^2 = 2 - 2 cos of the turn.
    stays |= border & (np.einsum("vi,vi->v", total, total) > 2.0 - 2.0 * _CORNER)
    return border, stays


def _folds(vertices: Array, triangles: Index, place: Index, count: int) -> Array:
    """Return cost factors (e,) of edges; they grow with the angle of their faces. place: (3m,) edge of each side."""
    normals = _normals(vertices, triangles)
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-300)[:, None]
    total = np.zeros((count, 3))
    np.add.at(total, place, np.tile(normals, (3, 1)))
    sides = np.bincount(place, minlength=count)
    # The mean normal is shorter, the more the normals differ.
    mean = np.linalg.norm(total, axis=1) / np.maximum(sides, 1)
    return np.asarray(1.0 + _FOLD * (1.0 - mean))


def _normals(vertices: Array, triangles: Index) -> Array:
    corners = vertices[triangles]
    return np.asarray(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))


def _turned(vertices: Array, triangles: Index, away: Index, to: Index) -> Mask:
    """Return a mask of the collapses that rotate a triangle too far or make one too thin."""
    v = len(vertices)
    step, which = np.arange(v), np.full(v, -1)
    step[away], which[away] = to, np.arange(len(away))
    moved = triangles[(which[triangles] >= 0).any(axis=1)]
    after = step[moved]
    lasts = (after[:, 0] != after[:, 1]) & (after[:, 1] != after[:, 2]) & (after[:, 2] != after[:, 0])
    moved, after = moved[lasts], after[lasts]
    one, other = _normals(vertices, moved), _normals(vertices, after)
    size, now = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    corners = vertices[after]
    longest = ((corners - np.roll(corners, 1, axis=1)) ** 2).sum(axis=2).max(axis=1)
    wrong = np.einsum("ti,ti->t", one, other) < _TURN * size * now
    wrong |= 0.5 * now < _THIN * longest
    bad = np.zeros(len(away), dtype=bool)
    bad[which[moved[wrong]].max(axis=1)] = True
    return bad
