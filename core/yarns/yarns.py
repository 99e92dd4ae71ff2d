"""Division of mesh edges into yarns: where four edges meet, opposite ones belong to the same yarn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..base.arrays import Array, Index

# Cosine of the largest turning angle between consecutive edges of a yarn.
_MAX_TURN_COSINE = np.cos(np.radians(75.0))
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


def trace_yarns(points: Array, edges: Index, triangles: Index) -> list[Yarn]:
    """Divide the edges of a mesh into yarns, each edge in one yarn.

    points: (n, 3) m.  edges: (e, 2), each once.  triangles: (t, 3) of the faces; their sides that are not edges lie
    inside a face.

    At a node with four edges, edges that share no face continue each other; among several pairings the straightest is
    used. At any other node at most two edges continue each other, if they share no face and do not turn sharply; the
    others end there. A yarn that would visit a node twice is cut there.
    """
    neighbours: list[list[int]] = [[] for _ in points]
    for a, b in edges.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    remaining = {(a, b) for a, b in edges.tolist()} | {(b, a) for a, b in edges.tolist()}
    shares_face = _edges_sharing_face(remaining, triangles)
    continuation: dict[tuple[int, int], int] = {}
    for node, near in enumerate(neighbours):
        for a, b in _continuing_pairs(points, node, near, shares_face):
            # A yarn that reaches the node from a continues to b.
            continuation[a, node], continuation[b, node] = b, a
    found: list[Yarn] = []
    starts = [(a, b) for a, b in sorted(remaining) if (b, a) not in continuation]
    for edge in (*starts, *sorted(remaining)):
        if edge in remaining:
            found += _trace_yarn(edge, continuation, remaining)
    return found


def _trace_yarn(
    edge: tuple[int, int], continuation: dict[tuple[int, int], int], remaining: set[tuple[int, int]]
) -> Iterable[Yarn]:
    """Return the yarns that start with an edge, and remove their edges from those that are left."""
    nodes = [edge[0]]
    while edge in remaining:
        remaining -= {edge, edge[::-1]}
        if edge[1] == nodes[0] and continuation.get(edge) == nodes[1]:
            return [Yarn(tuple(nodes), closed=True)]
        if edge[1] in nodes:
            # The yarn returns to one of its nodes: cut it, and make the last edge a yarn of its own.
            return [Yarn(tuple(nodes)), Yarn((nodes[-1], edge[1]))]
        nodes.append(edge[1])
        if edge not in continuation:
            break
        edge = (edge[1], continuation[edge])
    return [Yarn(tuple(nodes))]


def _edges_sharing_face(mesh_edges: set[tuple[int, int]], triangles: Index) -> set[tuple[int, int, int]]:
    """Return all (node, a, b) for which the edges from the node to a and to b share a face, in both orders."""
    found = set[tuple[int, int, int]]()
    diagonals = dict[tuple[int, int], list[int]]()
    for corners in triangles.tolist():
        for k in range(3):
            node, a, b = corners[k], corners[k - 2], corners[k - 1]
            if (node, a) in mesh_edges and (node, b) in mesh_edges:
                found |= {(node, a, b), (node, b, a)}
            for way, other in (((node, a), b), ((a, node), b)):
                if way not in mesh_edges:
                    diagonals.setdefault(way, []).append(other)
    for (node, _), sides in diagonals.items():
        # A diagonal of a face ends at this node, so the edges on both sides of it share that face.
        for a in sides:
            found |= {(node, a, b) for b in sides if b != a and (node, a) in mesh_edges and (node, b) in mesh_edges}
    return found


def _continuing_pairs(
    points: Array, node: int, neighbours: list[int], shares_face: set[tuple[int, int, int]]
) -> Iterable[tuple[int, int]]:
    """Return the pairs of neighbours of a node that belong to the same yarn there."""
    if not 2 <= len(neighbours) <= 4:
        return []
    directions = points[neighbours] - points[node]
    directions = directions / np.maximum(np.linalg.norm(directions, axis=1), 1e-300)[:, None]
    straightness = -(directions @ directions.T)
    can_continue = [[(node, a, b) not in shares_face for b in neighbours] for a in neighbours]
    if len(neighbours) == 4:
        fitting = [m for m in _MATCHINGS if all(can_continue[i][j] for i, j in m)]
        if fitting:
            best = max(fitting, key=lambda m: sum(float(straightness[i, j]) for i, j in m))
            return [(neighbours[i], neighbours[j]) for i, j in best]
    pairs = [
        (float(straightness[i, j]), i, j)
        for i in range(len(neighbours))
        for j in range(i)
        if can_continue[i][j] and straightness[i, j] > _MAX_TURN_COSINE
    ]
    return [(neighbours[i], neighbours[j]) for _, i, j in sorted(pairs)[-1:]]
