"""Nested dissection: in which order to eliminate the nodes of a sparse matrix so that little fills in.

Nodes are cut by planes into halves of about the same size, with the fewest nodes at the border; those are eliminated
last, after either half has been cut in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask

# Nodes that are not cut any further.
_LEAF = 40
# A border of more nodes than this is eliminated in parts of about _LEAF.
_WIDE = 150
# Planes are across the axes and the diagonals of their faces, where the nodes reach this part of the farthest there.
_LONG = 0.5
_DIRECTIONS = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]], dtype=float
)
_DIRECTIONS /= np.linalg.norm(_DIRECTIONS, axis=1)[:, None]
# Where along a direction it is cut, in parts of the nodes; the first one tells which direction is best.
_FRACTIONS = (0.5, 0.42, 0.46, 0.54, 0.58)
# What a cut costs that leaves one half larger, in parts of its border.
_LOPSIDED = 0.5


@dataclass(frozen=True)
class Part:
    """Nodes that are eliminated together, and what of the others is eliminated before.

    nodes: (k,).  children: places of parts, each before this one.
    """

    nodes: Index
    children: tuple[int, ...]


def dissect(pattern: csr_matrix, places: Array) -> list[Part]:
    """Parts in the order of their elimination, so that a part comes after its children; the last is the root.

    pattern: (n, n), not zero where nodes are coupled, symmetric.  places: (n, 3) m; equal ones are cut apart too.
    """
    links = pattern.tocoo()
    above = links.row < links.col
    parts: list[Part] = []
    edges = np.stack([links.row[above], links.col[above]]).astype(np.int64)
    _dissected(parts, np.arange(pattern.shape[0]), edges, np.asarray(places, dtype=float))
    return parts


def _dissected(parts: list[Part], nodes: Index, edges: Index, places: Array) -> int:
    """The place among parts of the last one of nodes (k,). edges: (2, e) between them, in their own numbers."""
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
        # Pieces that nothing joins.
        return _added(parts, nodes[:0], tuple(children))
    # In the order of their places, so that a part of a wide border lies together.
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
    """(k,) whether a node is above a plane, and (k,) whether it is at the border."""
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
    """(k,) by ranks, so that nodes at one place are parted too."""
    upper = np.ones(len(far), dtype=bool)
    upper[np.argsort(far, kind="stable")[: round(fraction * len(far))]] = False
    return upper


def _scored(edges: Index, upper: Mask) -> tuple[float, Mask, Mask]:
    """What a cut costs, which nodes are above it, and its border."""
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
