"""Nested dissection: an elimination order of a sparse matrix's nodes with little fill-in.

Planes cut the nodes into halves of similar size, with as few separator nodes as possible. Separators are eliminated
last, after both halves have been cut in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask

# Number of nodes that are not cut any further.
_LEAF = 40
# A larger separator is eliminated in blocks of about _MAX_LEAF nodes.
_WIDE = 150
# Cutting planes are perpendicular to the axes and face diagonals along which the nodes extend at least this fraction of
# the largest extent.
_LONG = 0.5
_DIRECTIONS = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]], dtype=float
)
_DIRECTIONS /= np.linalg.norm(_DIRECTIONS, axis=1)[:, None]
# Cut positions as fractions of the nodes; the first one selects the direction.
_FRACTIONS = (0.5, 0.42, 0.46, 0.54, 0.58)
# Cost of unequal halves, relative to the separator's size.
_LOPSIDED = 0.5


@dataclass(frozen=True)
class Part:
    """Nodes that are eliminated together.

    nodes: (k,).  children: indices of blocks eliminated before this one.
    """

    nodes: Index
    children: tuple[int, ...]


def dissect(pattern: csr_matrix, places: Array) -> list[Part]:
    """Return blocks in elimination order: a block follows its children, and the last one is the root.

    pattern: (n, n), nonzero where nodes are coupled, symmetric.  places: (n, 3) m; coincident nodes are separated, too.
    """
    links = pattern.tocoo()
    above = links.row < links.col
    parts: list[Part] = []
    edges = np.stack([links.row[above], links.col[above]]).astype(np.int64)
    _dissected(parts, np.arange(pattern.shape[0]), edges, np.asarray(places, dtype=float))
    return parts


def _dissected(parts: list[Part], nodes: Index, edges: Index, places: Array) -> int:
    """Append the blocks of nodes (k,) and return the index of the last one. edges: (2, e) in local node numbers."""
    if len(nodes) <= _LEAF:
        return _added(parts, nodes, ())
    upper, border = _cut(edges, places)
    halves = [np.flatnonzero(upper & ~border), np.flatnonzero(~upper & ~border)]
    children = []
    for half in halves:
        if not len(half):
            continue
        number = np.full(len(nodes), -1)
        number[half] = np.arange(len(half))
        own = number[edges]
        own = own[:, (own >= 0).all(axis=0)]
        children.append(_dissected(parts, nodes[half], own, places[half]))
    middle = np.flatnonzero(border)
    if not len(middle):
        # Disconnected pieces.
        return _added(parts, nodes[:0], tuple(children))
    # Sorted by position, so that each block of a large separator is compact.
    middle = middle[np.lexsort(places[middle].T)]
    last = tuple(children)
    count = max(round(len(middle) / _LEAF), 1) if len(middle) > _WIDE else 1
    for piece in np.array_split(middle, count):
        last = (_added(parts, nodes[piece], last),)
    return last[0]


def _added(parts: list[Part], nodes: Index, children: tuple[int, ...]) -> int:
    parts.append(Part(nodes, children))
    return len(parts) - 1


def _cut(edges: Index, places: Array) -> tuple[Mask, Mask]:
    """Return masks of the nodes above the best plane (k,), and of the separator (k,)."""
    far = places @ _DIRECTIONS.T
    extents = np.ptp(far, axis=0)
    tried = np.flatnonzero(extents >= _LONG * extents.max())
    found = [(_scored(edges, _above(far[:, k], _FRACTIONS[0])), k) for k in tried]
    (best, upper, border), direction = min(found, key=lambda one: one[0][0])
    for fraction in _FRACTIONS[1:]:
        score, other, at = _scored(edges, _above(far[:, direction], fraction))
        if score < best:
            best, upper, border = score, other, at
    return upper, border


def _above(far: Array, fraction: float) -> Mask:
    """Return a mask (k,) by ranks, which separates coincident nodes, too."""
    upper = np.ones(len(far), dtype=bool)
    upper[np.argsort(far, kind="stable")[: round(fraction * len(far))]] = False
    return upper


def _scored(edges: Index, upper: Mask) -> tuple[float, Mask, Mask]:
    """Return the cost of a cut, the nodes above it, and its separator."""
    first, second = edges
    across = upper[first] != upper[second]
    ends = np.concatenate([first[across], second[across]])
    border = np.zeros(len(upper), dtype=bool)
    border[ends] = True
    sides = border & upper, border & ~upper
    smaller = min(sides, key=np.count_nonzero)
    above = int((upper & ~smaller).sum())
    below = int((~upper & ~smaller).sum())
    lopsided = abs(above - below) / max(above + below, 1)
    return float(smaller.sum()) * (1.0 + _LOPSIDED * lopsided), upper, smaller
