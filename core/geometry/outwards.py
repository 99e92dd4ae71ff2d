"""Surfaces whose faces look outwards, however they were modelled."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index


def turned_outwards(vertices: Array, triangles: Index) -> Index:
    """The triangles (t, 3), each piece of them one way round, and where it is closed its normals outwards.

    vertices: (v, 3).  A closed piece inside of another one stays turned against it where it was: it is a cavity. One
    that cannot be one way round, as a Möbius strip, stays as it is.
    """
    if not len(triangles):
        return triangles
    turned, piece = _one_way_round(triangles)
    volumes = np.bincount(piece, _volumes(vertices, turned))
    negative = np.flatnonzero((volumes < 0.0) & _closed(turned, piece))
    for k in negative:
        low, high = _box(vertices, turned[piece == k])
        around = np.flatnonzero(volumes > -volumes[k])
        boxes = [_box(vertices, turned[piece == other]) for other in around]
        if not any((a < low).all() and (b > high).all() for a, b in boxes):
            mine = piece == k
            turned[mine] = turned[mine][:, [0, 2, 1]]
    return turned


def _one_way_round(triangles: Index) -> tuple[Index, Index]:
    """A copy of the triangles, the fewer of each piece turned, and which piece each one is of (t,)."""
    count = len(triangles)
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    forward = sides[:, 0] < sides[:, 1]
    _, edge, shared = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    edge = edge.reshape(-1)
    order = np.argsort(edge, kind="stable")
    # Where more than two meet, nobody knows which belong together.
    order = order[shared[edge[order]] == 2].reshape(-1, 2)
    a, b = order.T // 3
    against = forward[order[:, 0]] == forward[order[:, 1]]
    # Each triangle as it is, and once more turned: those that can be together.
    rows = np.concatenate([a, a + count])
    columns = np.concatenate([np.where(against, b + count, b), np.where(against, b, b + count)])
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(2 * count, 2 * count))
    _, label = connected_components(graph, directed=False)
    as_it_is, other = label[:count], label[count:]
    first = np.minimum(as_it_is, other)
    _, piece = np.unique(first, return_inverse=True)
    piece = piece.reshape(-1)
    turn = as_it_is != first
    many = np.bincount(piece, turn) > 0.5 * np.bincount(piece)
    turn = np.where(many[piece], ~turn, turn) & (as_it_is != other)
    turned = triangles.copy()
    turned[turn] = turned[turn][:, [0, 2, 1]]
    return turned, piece


def _closed(triangles: Index, piece: Index) -> Index:
    """Of each piece whether no side is without its other one."""
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    _, edge = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    way = np.where(sides[:, 0] < sides[:, 1], 1.0, -1.0)
    lone = np.bincount(edge.reshape(-1), way) != 0.0
    return np.asarray(np.bincount(piece, lone[edge.reshape(-1)].reshape(-1, 3).any(axis=1)) == 0.0)


def _volumes(vertices: Array, triangles: Index) -> Array:
    """(t,) of the tetrahedra from the middle to each triangle."""
    corners = vertices[triangles] - vertices[triangles].reshape(-1, 3).mean(axis=0)
    return np.asarray(np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6.0)


def _box(vertices: Array, triangles: Index) -> tuple[Array, Array]:
    places = vertices[triangles].reshape(-1, 3)
    return places.min(axis=0), places.max(axis=0)
