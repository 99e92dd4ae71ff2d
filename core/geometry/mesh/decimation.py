"""Decimation of a surface by edge collapse: short edges collapse, many per pass, down to a number of vertices.

A vertex is merged into a neighbour, so the remaining vertices are vertices of the input. An edge may collapse if its
ends share no neighbours other than the tips of its triangles (the link condition, which keeps the topology), and if no
triangle flips. The edges that collapse in one pass are independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ...base.arrays import Array, Index, Mask
from .surface import doubled_area_normals

# Cosine of the largest rotation of a triangle's normal in one collapse, and the smallest quality allowed: the area over
# the square of the longest side (0.43 for an equilateral triangle).
_MIN_TURN_COSINE, _MIN_QUALITY = 0.7, 0.05
# Border vertices at which the border turns by more than the angle of this cosine are fixed.
_CORNER_COSINE = 0.85
# Weight of the cost of edges between faces that are not coplanar.
_FOLD_COST = 8.0
# Random part of the cost: it breaks ties between equally long edges, so that many can collapse in one pass.
_RANDOM_COST = 0.6
_MAX_PASSES = 200
# An edge may be flipped if its triangles' normals differ by less than the angle of this cosine.
_FLIP_COSINE = 0.95
_MAX_FLIP_PASSES = 40


@dataclass(frozen=True)
class Decimation:
    """Result of a decimation.

    triangles: (t, 3), indices of input vertices.  representative: (v,) the vertex that each input vertex was merged
    into; its own index if it remains.
    """

    triangles: Index
    representative: Index


def decimate(
    vertices: Array, triangles: Index, vertex_count: int, pin_weights: Array, fixed_vertices: Index | None = None
) -> Decimation:
    """Reduce a surface to about vertex_count vertices by edge collapse, then flip edges (Delaunay).

    vertices: (v, 3).  triangles: (m, 3), each with three different vertices.
    pin_weights: (v,); a vertex is never merged into one with a lower weight.  fixed_vertices: never removed.
    """
    representative, rejected_pairs = np.arange(len(vertices)), np.zeros(0, dtype=np.int64)
    v = len(vertices)
    for _ in range(_MAX_PASSES):
        excess = len(np.unique(triangles)) - vertex_count
        if excess <= 0:
            break
        found = _collapse_pass(vertices, triangles, pin_weights, excess, rejected_pairs, fixed_vertices)
        if found is None:
            break
        source, target, rejected = found
        if len(rejected):
            rejected_pairs = np.concatenate([rejected_pairs, rejected])
        if not len(source):
            if not len(rejected):
                break
            continue
        step = np.arange(v)
        step[source] = target
        representative = step[representative]
        triangles = step[triangles]
        a, b, c = triangles.T
        triangles = triangles[(a != b) & (b != c) & (c != a)]
    return Decimation(_flip_edges(vertices, triangles), representative)


def _collapse_pass(
    vertices: Array,
    triangles: Index,
    pin_weights: Array,
    max_collapses: int,
    rejected_pairs: Index,
    fixed_vertices: Index | None,
) -> tuple[Index, Index, Index] | None:
    """Return removed vertices, their targets and rejected pairs (as keys) of one pass; None if no edge can collapse."""
    v = len(vertices)
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    keys = np.sort(sides, axis=1) @ np.array([v, 1])
    edge_keys, place, uses = np.unique(keys, return_inverse=True, return_counts=True)
    a, b = edge_keys // v, edge_keys % v
    is_border, is_fixed = _border_vertices(vertices, a, b, uses)
    if fixed_vertices is not None:
        is_fixed[fixed_vertices] = True
    adjacency = csr_matrix((np.ones(2 * len(a)), (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(v, v))
    common = np.asarray(adjacency[a].multiply(adjacency[b]).sum(axis=1)).ravel()
    way = vertices[b] - vertices[a]
    square = np.einsum("ei,ei->e", way, way)
    # Removing a vertex that has long edges would lengthen them further.
    longest = np.zeros(v)
    np.maximum.at(longest, a, square)
    np.maximum.at(longest, b, square)
    jitter = 1.0 + _RANDOM_COST * np.random.default_rng(len(a)).random(len(a))
    cost = (
        (square + longest[a] + longest[b]) * jitter * _fold_cost_factors(vertices, triangles, place.reshape(-1), len(a))
    )
    is_manifold = (uses <= 2) & (common == uses)

    def can_collapse(source: Index, target: Index) -> Mask:
        fits = ~is_fixed[source] & (~is_border[source] | (uses == 1)) & (pin_weights[source] <= pin_weights[target])
        return np.asarray(
            is_manifold
            & fits
            & ((pin_weights[source] > 0.0) <= (pin_weights[target] > 0.0))
            & ~np.isin(source * v + target, rejected_pairs)
        )

    forward, backward = can_collapse(a, b), can_collapse(b, a)
    rank = np.full(len(a), len(a))
    candidates = np.flatnonzero(forward | backward)
    if not len(candidates):
        return None
    rank[candidates[np.argsort(cost[candidates], kind="stable")]] = np.arange(len(candidates))
    first = np.full(v, len(a))
    np.minimum.at(first, a, rank)
    np.minimum.at(first, b, rank)
    second = first.copy()
    np.minimum.at(second, a, first[b])
    np.minimum.at(second, b, first[a])
    chosen = candidates[(rank[candidates] == second[a[candidates]]) & (rank[candidates] == second[b[candidates]])]
    chosen = chosen[np.argsort(rank[chosen])][:max_collapses]
    source, target = np.where(backward[chosen], b[chosen], a[chosen]), np.where(backward[chosen], a[chosen], b[chosen])
    is_bad = _find_bad_collapses(vertices, triangles, source, target)
    return source[~is_bad], target[~is_bad], (source * v + target)[is_bad]


def _flip_edges(vertices: Array, triangles: Index) -> Index:
    """Return triangles after Delaunay edge flips: edges are flipped where the opposite angles sum to more than pi."""
    v = len(vertices)
    for _ in range(_MAX_FLIP_PASSES):
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
        cosines = _angle_cosine(vertices, c, a, b), _angle_cosine(vertices, d, a, b)
        gain = np.arccos(cosines[0]) + np.arccos(cosines[1]) - np.pi
        new = np.stack([np.stack([c, a, d], axis=1), np.stack([d, b, c], axis=1)], axis=1)
        before = [doubled_area_normals(vertices, triangles[owner[side]]) for side in (one, other)]
        after = [doubled_area_normals(vertices, new[:, k]) for k in (0, 1)]
        is_valid = (gain > 1e-6) & (sides[one, 0] == sides[other, 1]) & (c != d)
        is_valid &= ~np.isin(np.sort(np.stack([c, d], axis=1), axis=1) @ np.array([v, 1]), known)
        for old_normal in before:
            for new_normal in (before[0], *after):
                size = np.linalg.norm(old_normal, axis=1) * np.linalg.norm(new_normal, axis=1)
                is_valid &= np.einsum("ei,ei->e", old_normal, new_normal) > _FLIP_COSINE * size
        candidates = np.flatnonzero(is_valid)
        if not len(candidates):
            break
        rank = np.empty(len(candidates), dtype=np.int64)
        rank[np.argsort(-gain[candidates], kind="stable")] = np.arange(len(candidates))
        best = np.full(len(triangles), len(candidates))
        for mine in (one, other):
            np.minimum.at(best, owner[mine[candidates]], rank)
        accepted = candidates[(rank == best[owner[one[candidates]]]) & (rank == best[owner[other[candidates]]])]
        # Two flips may create the same new edge: keep one of them.
        crossing = np.sort(np.stack([c[accepted], d[accepted]], axis=1), axis=1) @ np.array([v, 1])
        accepted = accepted[np.sort(np.unique(crossing, return_index=True)[1])]
        triangles = triangles.copy()
        triangles[owner[one[accepted]]], triangles[owner[other[accepted]]] = new[accepted, 0], new[accepted, 1]
    return triangles


def _angle_cosine(vertices: Array, tip: Index, a: Index, b: Index) -> Array:
    """Return the cosine of the angle at each tip between the directions to a and b."""
    one, other = vertices[a] - vertices[tip], vertices[b] - vertices[tip]
    size = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray(np.clip(np.einsum("ei,ei->e", one, other) / np.maximum(size, 1e-300), -1.0, 1.0))


def _border_vertices(vertices: Array, a: Index, b: Index, uses: Index) -> tuple[Mask, Mask]:
    """Return masks (v,) of border vertices, and of fixed ones: border corners and non-manifold vertices."""
    v = len(vertices)
    border_edges = np.flatnonzero(uses == 1)
    count = np.bincount(np.concatenate([a[border_edges], b[border_edges]]), minlength=v)
    is_border, is_fixed = count > 0, (count > 0) & (count != 2)
    many = np.flatnonzero(uses > 2)
    is_fixed[a[many]] = is_fixed[b[many]] = True
    # The unit vectors to both border neighbours cancel where the border is straight.
    unit = vertices[b[border_edges]] - vertices[a[border_edges]]
    unit /= np.maximum(np.linalg.norm(unit, axis=1), 1e-300)[:, None]
    total = np.zeros_like(vertices)
    np.add.at(total, a[border_edges], unit)
    np.add.at(total, b[border_edges], -unit)
    # |u + w|^2 = 2 - 2 cos of the turn.
    is_fixed |= is_border & (np.einsum("vi,vi->v", total, total) > 2.0 - 2.0 * _CORNER_COSINE)
    return is_border, is_fixed


def _fold_cost_factors(vertices: Array, triangles: Index, place: Index, count: int) -> Array:
    """Return cost factors (e,) of edges; they grow with the angle of their faces. place: (3m,) edge of each side."""
    normals = doubled_area_normals(vertices, triangles)
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-300)[:, None]
    total = np.zeros((count, 3))
    np.add.at(total, place, np.tile(normals, (3, 1)))
    sides = np.bincount(place, minlength=count)
    # The mean normal is shorter, the more the normals differ.
    mean = np.linalg.norm(total, axis=1) / np.maximum(sides, 1)
    return np.asarray(1.0 + _FOLD_COST * (1.0 - mean))


def _find_bad_collapses(vertices: Array, triangles: Index, source: Index, target: Index) -> Mask:
    """Return a mask of the collapses that rotate a triangle too far or make one too thin."""
    v = len(vertices)
    step, collapse = np.arange(v), np.full(v, -1)
    step[source], collapse[source] = target, np.arange(len(source))
    moved = triangles[(collapse[triangles] >= 0).any(axis=1)]
    after = step[moved]
    is_kept = (after[:, 0] != after[:, 1]) & (after[:, 1] != after[:, 2]) & (after[:, 2] != after[:, 0])
    moved, after = moved[is_kept], after[is_kept]
    one, other = doubled_area_normals(vertices, moved), doubled_area_normals(vertices, after)
    size, new_size = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    corners = vertices[after]
    longest = ((corners - np.roll(corners, 1, axis=1)) ** 2).sum(axis=2).max(axis=1)
    is_wrong = np.einsum("ti,ti->t", one, other) < _MIN_TURN_COSINE * size * new_size
    is_wrong |= 0.5 * new_size < _MIN_QUALITY * longest
    is_bad = np.zeros(len(source), dtype=bool)
    is_bad[collapse[moved[is_wrong]].max(axis=1)] = True
    return is_bad
