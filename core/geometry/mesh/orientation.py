"""Consistent outward orientation of triangle meshes."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ...base.arrays import Array, Index


def orient_outward(vertices: Array, triangles: Index) -> Index:
    """Return triangles (t, 3), each connected piece oriented consistently, and outward where it is closed.

    vertices: (v, 3).  A closed piece inside another one that is oriented inward stays so: it is a cavity. A
    non-orientable piece, such as a Möbius strip, is left unchanged.
    """
    if not len(triangles):
        return triangles
    oriented, piece = _orient_consistently(triangles)
    volumes = np.bincount(piece, _tet_volumes_to_centroid(vertices, oriented))
    negative = np.flatnonzero((volumes < 0.0) & _closed_pieces(oriented, piece))
    for k in negative:
        low, high = _piece_box(vertices, oriented[piece == k])
        larger = np.flatnonzero(volumes > -volumes[k])
        boxes = [_piece_box(vertices, oriented[piece == other]) for other in larger]
        if not any((a < low).all() and (b > high).all() for a, b in boxes):
            mine = piece == k
            oriented[mine] = oriented[mine][:, [0, 2, 1]]
    return oriented


def _orient_consistently(triangles: Index) -> tuple[Index, Index]:
    """Return consistently oriented triangles, flipping the minority of each piece, and the piece (t,) of each one."""
    count = len(triangles)
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    forward = sides[:, 0] < sides[:, 1]
    _, edge, use_counts = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    edge = edge.reshape(-1)
    order = np.argsort(edge, kind="stable")
    # Edges of more than two triangles do not connect: their pairing is ambiguous.
    order = order[use_counts[edge[order]] == 2].reshape(-1, 2)
    a, b = order.T // 3
    is_opposed = forward[order[:, 0]] == forward[order[:, 1]]
    # Graph of two nodes per triangle, as given and flipped, whose edges connect consistent orientations.
    rows = np.concatenate([a, a + count])
    columns = np.concatenate([np.where(is_opposed, b + count, b), np.where(is_opposed, b, b + count)])
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(2 * count, 2 * count))
    _, label = connected_components(graph, directed=False)
    label_as_given, label_flipped = label[:count], label[count:]
    first = np.minimum(label_as_given, label_flipped)
    _, piece = np.unique(first, return_inverse=True)
    piece = piece.reshape(-1)
    is_flipped = label_as_given != first
    is_majority = np.bincount(piece, is_flipped) > 0.5 * np.bincount(piece)
    is_flipped = np.where(is_majority[piece], ~is_flipped, is_flipped) & (label_as_given != label_flipped)
    oriented = triangles.copy()
    oriented[is_flipped] = oriented[is_flipped][:, [0, 2, 1]]
    return oriented, piece


def _closed_pieces(triangles: Index, piece: Index) -> Index:
    """Return a mask of the pieces in which every side has an opposite one."""
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    _, edge = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    direction = np.where(sides[:, 0] < sides[:, 1], 1.0, -1.0)
    is_unmatched = np.bincount(edge.reshape(-1), direction) != 0.0
    return np.asarray(np.bincount(piece, is_unmatched[edge.reshape(-1)].reshape(-1, 3).any(axis=1)) == 0.0)


def _tet_volumes_to_centroid(vertices: Array, triangles: Index) -> Array:
    """Return signed volumes (t,) of the tetrahedra from the centroid to each triangle."""
    corners = vertices[triangles] - vertices[triangles].reshape(-1, 3).mean(axis=0)
    return np.asarray(np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6.0)


def _piece_box(vertices: Array, triangles: Index) -> tuple[Array, Array]:
    places = vertices[triangles].reshape(-1, 3)
    return places.min(axis=0), places.max(axis=0)
