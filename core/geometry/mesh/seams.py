"""Pairing of border vertices along the seams of a garment."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array, Index, Mask
from .surface import border_edges, label_connected, weld_vertices


class SeamError(ValueError):
    """A seam that cannot be paired. The message completes a sentence whose subject is the seam."""


def pair_border_vertices(vertices: Array, triangles: Index, is_member: Mask) -> Index:
    """Return pairs (s, 2) of vertices to sew, along the border lines of an open surface selected by members (v,).

    Lines are paired with the nearest one. Their vertices are matched by relative arc length, in the direction (and for
    rings from the starting vertex) that brings them closest. Each vertex of the line with more vertices gets
    one of the other line, and each vertex of both lines is used. Raises SeamError if the lines do not form pairs.
    """
    first, label = weld_vertices(vertices)
    welded_vertex = first[label]
    border = border_edges(welded_vertex[triangles])
    is_selected = np.zeros(len(vertices), dtype=bool)
    is_selected[welded_vertex[is_member]] = True
    lines = [_ordered_polyline(part) for part in _connected_pieces(border[is_selected[border].all(axis=1)])]
    if not lines:
        raise SeamError("is not on a border of the mesh")
    for kind, rings in (("lines", False), ("rings", True)):
        count = sum(ring == rings for _, ring in lines)
        if count % 2:
            raise SeamError(
                f"covers {count} {kind if count > 1 else kind[:-1]} along borders, but a seam joins them in pairs"
            )
    candidates = {
        (k, j): _match_lines(vertices, lines[k][0], lines[j][0], lines[k][1])
        for k in range(len(lines))
        for j in range(k)
        if lines[k][1] == lines[j][1]
    }
    found: list[Index] = []
    while candidates:
        k, j = min(candidates, key=lambda pair: candidates[pair][0])
        found.append(candidates[k, j][1])
        candidates = {pair: one for pair, one in candidates.items() if not {k, j} & {*pair}}
    return np.concatenate(found)


def _match_lines(vertices: Array, one: Index, other: Index, is_ring: bool) -> tuple[float, Index]:
    """Return the mean squared distance (m^2) of two lines, and the vertex pairs between them."""
    if len(one) < len(other):
        one, other = other, one
    longer_parameters, shorter_parameters = (_arc_length_parameters(vertices, k, is_ring) for k in (one, other))
    best: tuple[float, Index] | None = None
    for order, parts in ((other, shorter_parameters), (other[::-1], 1.0 - shorter_parameters[::-1])):
        for place in range(len(other)) if is_ring else (0,):
            shifted_line = np.roll(order, -place)
            shifted_parameters = (np.roll(parts, -place) - parts[place]) % 1.0 if is_ring else parts
            found = shifted_line[_match_parameters(longer_parameters, shifted_parameters, is_ring)]
            mean_squared_distance = float((np.linalg.norm(vertices[one] - vertices[found], axis=1) ** 2).mean())
            if best is None or mean_squared_distance < best[0]:
                best = mean_squared_distance, np.stack([one, found], axis=1)
    assert best is not None
    return best


def _connected_pieces(edges: Index) -> list[Index]:
    """Return the edges (e, 2) of each connected piece."""
    if not len(edges):
        return []
    names, flat = np.unique(edges, return_inverse=True)
    ends = flat.reshape(-1, 2)
    piece = label_connected(len(names), ends)[ends[:, 0]]
    return [edges[piece == k] for k in range(int(piece.max()) + 1)]


def _ordered_polyline(edges: Index) -> tuple[Index, bool]:
    """Return the vertices of edges (e, 2) in order, and whether they form a ring. Raises SeamError at branches."""
    neighbours: dict[int, list[int]] = {}
    for a, b in edges.tolist():
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    ends = [vertex for vertex, others in neighbours.items() if len(others) == 1]
    if any(len(others) > 2 for others in neighbours.values()):
        raise SeamError("branches along a border")
    found = [min(ends) if ends else min(neighbours)]
    previous = -1
    while True:
        next_vertices = [other for other in neighbours[found[-1]] if other != previous]
        if not next_vertices or (len(found) > 1 and next_vertices[0] == found[0]):
            return np.array(found), not ends
        previous = found[-1]
        found.append(next_vertices[0])


def _arc_length_parameters(vertices: Array, line: Index, is_ring: bool) -> Array:
    """Return the relative arc lengths (k,) of the vertices of a line, starting at 0."""
    points = vertices[np.append(line, line[:1]) if is_ring else line]
    arc_length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    return np.asarray(arc_length[: len(line)] / arc_length[-1])


def _match_parameters(longer_parameters: Array, shorter_parameters: Array, is_ring: bool) -> Index:
    """Return the match (k,) of each ascending parameter (k,) among others (m,), m <= k, using all of those."""
    gap = np.abs(longer_parameters[:, None] - shorter_parameters)
    if is_ring:
        gap = np.minimum(gap, 1.0 - gap)
    chosen = gap.argmin(axis=1)
    for k in np.setdiff1d(np.arange(len(shorter_parameters)), chosen):
        chosen[int(gap[:, k].argmin())] = k
    return np.asarray(chosen)
