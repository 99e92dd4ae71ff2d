"""Nested dissection: an elimination order of a sparse matrix's nodes with little fill-in.

Planes cut the nodes into halves of similar size, with as few separator nodes as possible. Separators are eliminated
last, after both halves have been cut in the same way.

Where couplings may be neglected, separators one node wide suffice, even if nodes are coupled to their neighbours'
neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, Mask

# Number of nodes that are not cut any further, and the same where cuts may neglect couplings and are cheaper.
_MAX_LEAF, _MAX_NEGLECTING_LEAF = 40, 16
# A larger separator is eliminated in blocks of about _MAX_LEAF nodes.
_MAX_SEPARATOR = 150
# Cutting planes are perpendicular to the axes and face diagonals along which the nodes extend at least this fraction of
# the largest extent.
_MIN_EXTENT = 0.5
_DIRECTIONS = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]], dtype=float
)
_DIRECTIONS /= np.linalg.norm(_DIRECTIONS, axis=1)[:, None]
# Cut positions as fractions of the nodes; the first one selects the direction.
_FRACTIONS = (0.5, 0.42, 0.46, 0.54, 0.58)
# Cost of unequal halves, relative to the separator's size.
_IMBALANCE_COST = 0.5


@dataclass(frozen=True)
class EliminationBlock:
    """Nodes that are eliminated together.

    nodes: (k,).  children: indices of blocks eliminated before this one.
    """

    nodes: Index
    children: tuple[int, ...]


def dissect(pattern: csr_matrix, places: Array, negligible: Index | None = None) -> list[EliminationBlock]:
    """Return blocks in elimination order: a block follows its children, and the last one is the root.

    pattern: (n, n), nonzero where nodes are coupled, symmetric.  places: (n, 3) m; coincident nodes are separated, too.
    negligible: (k, 2) pairs of nodes whose couplings separators ignore.
    """
    links = pattern.tocoo()
    is_upper = links.row < links.col
    blocks: list[EliminationBlock] = []
    edges = np.stack([links.row[is_upper], links.col[is_upper]]).astype(np.int64)
    if negligible is not None:
        count = pattern.shape[0]
        edges = edges[:, ~np.isin(np.array([count, 1]) @ edges, np.sort(negligible, axis=1) @ np.array([count, 1]))]
    max_leaf = _MAX_LEAF if negligible is None else _MAX_NEGLECTING_LEAF
    _dissect(blocks, np.arange(pattern.shape[0]), edges, np.asarray(places, dtype=float), max_leaf)
    return blocks


def _dissect(blocks: list[EliminationBlock], nodes: Index, edges: Index, places: Array, max_leaf: int) -> int:
    """Append the blocks of nodes (k,) and return the index of the last one.

    edges: (2, e) in local node numbers.  max_leaf: number of nodes that are not cut any further.
    """
    if len(nodes) <= max_leaf:
        return _append(blocks, nodes, ())
    upper, is_separator = _best_cut(edges, places)
    halves = [np.flatnonzero(upper & ~is_separator), np.flatnonzero(~upper & ~is_separator)]
    children = []
    for side in halves:
        if not len(side):
            continue
        number = np.full(len(nodes), -1)
        number[side] = np.arange(len(side))
        side_edges = number[edges]
        side_edges = side_edges[:, (side_edges >= 0).all(axis=0)]
        children.append(_dissect(blocks, nodes[side], side_edges, places[side], max_leaf))
    separator = np.flatnonzero(is_separator)
    if not len(separator):
        # Disconnected pieces.
        return _append(blocks, nodes[:0], tuple(children))
    # Sorted by position, so that each block of a large separator is compact.
    separator = separator[np.lexsort(places[separator].T)]
    last_children = tuple(children)
    count = max(round(len(separator) / _MAX_LEAF), 1) if len(separator) > _MAX_SEPARATOR else 1
    for piece in np.array_split(separator, count):
        last_children = (_append(blocks, nodes[piece], last_children),)
    return last_children[0]


def _append(blocks: list[EliminationBlock], nodes: Index, children: tuple[int, ...]) -> int:
    blocks.append(EliminationBlock(nodes, children))
    return len(blocks) - 1


def _best_cut(edges: Index, places: Array) -> tuple[Mask, Mask]:
    """Return masks of the nodes above the best plane (k,), and of the separator (k,)."""
    projections = places @ _DIRECTIONS.T
    extents = np.ptp(projections, axis=0)
    tried = np.flatnonzero(extents >= _MIN_EXTENT * extents.max())
    candidates = [(_score_cut(edges, _upper_side(projections[:, k], _FRACTIONS[0])), k) for k in tried]
    (best, is_upper, is_separator), direction = min(candidates, key=lambda one: one[0][0])
    for fraction in _FRACTIONS[1:]:
        score, other_side, other_separator = _score_cut(edges, _upper_side(projections[:, direction], fraction))
        if score < best:
            best, is_upper, is_separator = score, other_side, other_separator
    return is_upper, is_separator


def _upper_side(projections: Array, fraction: float) -> Mask:
    """Return a mask (k,) by ranks, which separates coincident nodes, too."""
    is_upper = np.ones(len(projections), dtype=bool)
    is_upper[np.argsort(projections, kind="stable")[: round(fraction * len(projections))]] = False
    return is_upper


def _score_cut(edges: Index, is_upper: Mask) -> tuple[float, Mask, Mask]:
    """Return the cost of a cut, the nodes above it, and its separator."""
    first, second = edges
    is_cut = is_upper[first] != is_upper[second]
    ends = np.concatenate([first[is_cut], second[is_cut]])
    is_border = np.zeros(len(is_upper), dtype=bool)
    is_border[ends] = True
    sides = is_border & is_upper, is_border & ~is_upper
    separator = min(sides, key=np.count_nonzero)
    above = int((is_upper & ~separator).sum())
    below = int((~is_upper & ~separator).sum())
    imbalance = abs(above - below) / max(above + below, 1)
    return float(separator.sum()) * (1.0 + _IMBALANCE_COST * imbalance), is_upper, separator
