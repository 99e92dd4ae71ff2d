"""Division of mesh edges into yarns: where four edges meet, opposite ones belong to the same yarn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..arrays import Array, Index

# Cosine of the largest turning angle between consecutive edges of a yarn.
_STRAIGHT = np.cos(np.radians(75.0))
_MATCHINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


@dataclass(frozen=True)
class Yarn:
    """Yarn as a sequence of nodes, each of them once. closed: whether the last node is connected to the first."""

    nodes: tuple[int, ...]
    closed: bool = False

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Edges in order."""
        return [*pairwise(self.nodes), *([(self.nodes[-1], self.nodes[0])] if self.closed else [])]


def yarns_of(points: Array, edges: Index, triangles: Index) -> list[Yarn]:
    """Divide the edges of a mesh into yarns, each edge in one yarn.

    points: (n, 3) m.  edges: (e, 2), each once.  triangles: (t, 3) of the faces; their sides that are not edges lie
    inside a face.

    At a node with four edges, edges that share no face continue each other; among several pairings the straightest is
    used. At any other node at most two edges continue each other, if they share no face and do not turn sharply; the
    others end there. A yarn that would visit a node twice is cut there.
    """
    around: list[list[int]] = [[] for _ in points]
    for a, b in edges.tolist():
        around[a].append(b)
        around[b].append(a)
    beside = _beside(edges, triangles)
    ahead: dict[tuple[int, int], int] = {}
    for node, near in enumerate(around):
        for a, b in _paired(points, node, near, beside):
            # A yarn that reaches the node from a continues to b.
            ahead[a, node], ahead[b, node] = b, a
    left = {(a, b) for a, b in edges.tolist()} | {(b, a) for a, b in edges.tolist()}
    found: list[Yarn] = []
    starts = [(a, b) for a, b in sorted(left) if (b, a) not in ahead]
    for way in (*starts, *sorted(left)):
        if way in left:
            found += _followed(way, ahead, left)
    return found


def _followed(way: tuple[int, int], ahead: dict[tuple[int, int], int], left: set[tuple[int, int]]) -> Iterable[Yarn]:
    """Return the yarns that start with an edge, and remove their edges from those that are left."""
    nodes = [way[0]]
    while way in left:
        left -= {way, way[::-1]}
        if way[1] == nodes[0] and ahead.get(way) == nodes[1]:
            return [Yarn(tuple(nodes), closed=True)]
        if way[1] in nodes:
            # The yarn returns to one of its nodes: cut it, and make the last edge a yarn of its own.
            return [Yarn(tuple(nodes)), Yarn((nodes[-1], way[1]))]
        nodes.append(way[1])
        if way not in ahead:
            break
        way = (way[1], ahead[way])
    return [Yarn(tuple(nodes))]


def _beside(edges: Index, triangles: Index) -> set[tuple[int, int, int]]:
    """Return all (node, a, b) for which the edges from the node to a and to b share a face, in both orders."""
    drawn = {(a, b) for a, b in edges.tolist()}
    drawn |= {(b, a) for a, b in drawn}
    found = set[tuple[int, int, int]]()
    inner = dict[tuple[int, int], list[int]]()
    for corners in triangles.tolist():
        for k in range(3):
            node, a, b = corners[k], corners[k - 2], corners[k - 1]
            if (node, a) in drawn and (node, b) in drawn:
                found |= {(node, a, b), (node, b, a)}
            for way, other in (((node, a), b), ((a, node), b)):
                if way not in drawn:
                    inner.setdefault(way, []).append(other)
    for (node, _), sides in inner.items():
        # A diagonal of a face ends at this node, so the edges on both sides of it share that face.
        for a in sides:
            found |= {(node, a, b) for b in sides if b != a and (node, a) in drawn and (node, b) in drawn}
    return found


def _paired(points: Array, node: int, near: list[int], beside: set[tuple[int, int, int]]) -> Iterable[tuple[int, int]]:
    """Return the pairs of neighbours of a node that belong to the same yarn there."""
    if not 2 <= len(near) <= 4:
        return []
    ways = points[near] - points[node]
    ways = ways / np.maximum(np.linalg.norm(ways, axis=1), 1e-300)[:, None]
    straight = -(ways @ ways.T)
    apart = [[(node, a, b) not in beside for b in near] for a in near]
    if len(near) == 4:
        fitting = [m for m in _MATCHINGS if all(apart[i][j] for i, j in m)]
        if fitting:
            best = max(fitting, key=lambda m: sum(float(straight[i, j]) for i, j in m))
            return [(near[i], near[j]) for i, j in best]
    pairs = [
        (float(straight[i, j]), i, j)
        for i in range(len(near))
        for j in range(i)
        if apart[i][j] and straight[i, j] > _STRAIGHT
    ]
    return [(near[i], near[j]) for _, i, j in sorted(pairs)[-1:]]
