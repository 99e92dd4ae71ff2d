"""Pairing of border vertices along the seams of a garment."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index, Mask
from .surface import border_edges, welded


class SeamError(ValueError):
    """A seam that cannot be paired. The message completes a sentence whose subject is the seam."""


def border_pairs(vertices: Array, triangles: Index, members: Mask) -> Index:
    """Return pairs (s, 2) of vertices to sew, along the border lines of an open surface selected by members (v,).

    Lines are paired with the nearest one. Their vertices are matched by relative arc length, in the direction (and for
    rings from the starting vertex) that brings them closest. Each vertex of the line with more vertices gets
    one of the other line, and each vertex of both lines is used. Raises SeamError if the lines do not form pairs.
    """
    first, label = welded(vertices)
    stands = first[label]
    border = border_edges(stands[triangles])
    mine = np.zeros(len(vertices), dtype=bool)
    mine[stands[members]] = True
    lines = [_line(part) for part in _parts(border[mine[border].all(axis=1)])]
    if not lines:
        raise SeamError("is not on a border of the mesh")
    for kind, rings in (("lines", False), ("rings", True)):
        count = sum(ring == rings for _, ring in lines)
        if count % 2:
            raise SeamError(
                f"covers {count} {kind if count > 1 else kind[:-1]} along borders, but a seam joins them in pairs"
            )
    some = {
        (k, j): _joined(vertices, lines[k][0], lines[j][0], lines[k][1])
        for k in range(len(lines))
        for j in range(k)
        if lines[k][1] == lines[j][1]
    }
    found: list[Index] = []
    while some:
        k, j = min(some, key=lambda pair: some[pair][0])
        found.append(some[k, j][1])
        some = {pair: one for pair, one in some.items() if not {k, j} & {*pair}}
    return np.concatenate(found)


def _joined(vertices: Array, one: Index, other: Index, ring: bool) -> tuple[float, Index]:
    """Return the mean squared distance (m^2) of two lines, and the vertex pairs between them."""
    if len(one) < len(other):
        one, other = other, one
    there, here = _along(vertices, one, ring), _along(vertices, other, ring)
    best: tuple[float, Index] | None = None
    for order, parts in ((other, here), (other[::-1], 1.0 - here[::-1])):
        for place in range(len(other)) if ring else (0,):
            turned = np.roll(order, -place)
            way = (np.roll(parts, -place) - parts[place]) % 1.0 if ring else parts
            found = turned[_nearest(there, way, ring)]
            apart = float((np.linalg.norm(vertices[one] - vertices[found], axis=1) ** 2).mean())
            if best is None or apart < best[0]:
                best = apart, np.stack([one, found], axis=1)
    assert best is not None
    return best


def _parts(edges: Index) -> list[Index]:
    """Return the edges (e, 2) of each connected piece."""
    if not len(edges):
        return []
    names, flat = np.unique(edges, return_inverse=True)
    ends = flat.reshape(-1, 2)
    graph = coo_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(names),) * 2)
    count, piece = connected_components(graph, directed=False)
    return [edges[piece[ends[:, 0]] == k] for k in range(count)]


def _line(edges: Index) -> tuple[Index, bool]:
    """Return the vertices of edges (e, 2) in order, and whether they form a ring. Raises SeamError at branches."""
    near: dict[int, list[int]] = {}
    for a, b in edges.tolist():
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    ends = [vertex for vertex, others in near.items() if len(others) == 1]
    if any(len(others) > 2 for others in near.values()):
        raise SeamError("branches along a border")
    found = [min(ends) if ends else min(near)]
    before = -1
    while True:
        further = [other for other in near[found[-1]] if other != before]
        if not further or (len(found) > 1 and further[0] == found[0]):
            return np.array(found), not ends
        before = found[-1]
        found.append(further[0])


def _along(vertices: Array, line: Index, ring: bool) -> Array:
    """Return the relative arc lengths (k,) of the vertices of a line, starting at 0."""
    points = vertices[np.append(line, line[:1]) if ring else line]
    way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    return np.asarray(way[: len(line)] / way[-1])


def _nearest(there: Array, parts: Array, ring: bool) -> Index:
    """Return the match (k,) of each ascending parameter (k,) among others (m,), m <= k, using all of those."""
    gap = np.abs(there[:, None] - parts)
    if ring:
        gap = np.minimum(gap, 1.0 - gap)
    chosen = gap.argmin(axis=1)
    for k in np.setdiff1d(np.arange(len(parts)), chosen):
        chosen[int(gap[:, k].argmin())] = k
    return np.asarray(chosen)
