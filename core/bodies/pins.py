"""How the lattice nodes follow the animated surface."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import spsolve
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from ..arrays import Array, Index, Mask
from ..geometry.embedding import Embedding
from ..geometry.rigid import rigid_motion
from ..geometry.surface import Surface

# From this weight on a pin is hard.
HARD = 0.999
# Where a node is only partly held by hard pins, those act as springs of this weight.
_STRONG = 0.99
# A node without surface vertices goes with its neighbours when they nearly all are pinned.
_FILLED = 0.9
_NEIGHBOURS = 12
# How much the whole body's turn steadies a node's own where its neighbours leave an axis open.
_STEADY = 1e-3


def pin_nodes(
    embedding: Embedding, tets: Index, nodes: int, surface: Surface, weights: Array, young: float
) -> tuple[Index, Array]:
    """The pinned nodes (p,) and their stiffness (p,) N/m, infinite for hard pins, from the vertices' weights (v,).

    A node is hard where all its vertices are, and inside of a surface that is. Softer ones hang on springs: a surface
    pinned all over with weight w has k = w/(1 - w) E L in all (L its size), shared by area, so that neither the mesh's
    nor the lattice's resolution changes the hold.
    """

    def gather(values: Array) -> Array:
        return _gathered(embedding, tets, nodes, values)

    total, held = gather(np.ones(len(weights))), gather((weights >= HARD).astype(float))
    known = total > 1e-9
    hard = known & (held >= HARD * total)
    if not hard.any() and held.any():
        # Pins finer than the lattice: what is around them is held, else nothing would be.
        hard = held > 0.0
    inner = np.flatnonzero(~known)
    if len(inner) and hard.any():
        hard[inner] = _harmonic(tets, hard.astype(float), inner) >= _FILLED

    w = np.minimum(weights, _STRONG)
    area = _vertex_areas(surface)
    springs = gather(w / (1.0 - w) * area / area.sum()) * young * float(np.ptp(surface.vertices, axis=0).max())
    stiffness = np.where(hard, np.inf, springs)
    pinned = np.flatnonzero(stiffness > 0.0)
    return pinned, stiffness[pinned]


def _gathered(embedding: Embedding, tets: Index, nodes: int, values: Array) -> Array:
    """Values (v,) of the surface, summed at the nodes (n,) by their share in each vertex."""
    share = np.maximum(embedding.weights, 0.0)
    corners = tets[embedding.tets].ravel()
    return np.bincount(corners, (share * values[:, None]).ravel(), minlength=nodes).astype(float)


def spread(embedding: Embedding, tets: Index, nodes: int, values: Array) -> Array:
    """Values (v,) painted on the surface at the nodes (n,): means on it, and between them inside."""
    total = _gathered(embedding, tets, nodes, np.ones(len(values)))
    painted: Array = _gathered(embedding, tets, nodes, values) / np.maximum(total, 1e-9)
    inner = np.flatnonzero(total <= 1e-9)
    if len(inner):
        painted[inner] = _harmonic(tets, painted, inner)
    return painted


def _vertex_areas(surface: Surface) -> Array:
    """A third of the triangles around each vertex, (v,) m^2."""
    corners = surface.vertices[surface.triangles]
    areas = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    shares = np.bincount(surface.triangles.ravel(), (areas / 3.0).repeat(3), minlength=len(surface.vertices))
    return shares.astype(float)


def _harmonic(tets: Index, values: Array, unknown: Index) -> Array:
    """Values at the unknown nodes that are the mean of their neighbours'."""
    n = len(values)
    a, b = np.array([(i, j) for i in range(4) for j in range(4) if i != j]).T
    graph = coo_matrix((np.ones(12 * len(tets)), (tets[:, a].ravel(), tets[:, b].ravel())), shape=(n, n)).tocsr()
    graph.data[:] = 1.0
    laplacian = (diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsr()
    known = np.setdiff1d(np.arange(n), unknown)
    right = -(laplacian[unknown][:, known] @ values[known])
    filled: Array = np.atleast_1d(spsolve(laplacian[unknown][:, unknown].tocsc(), right))
    return filled


def _turned(turns: Array, offsets: Array) -> Array:
    """Each offset (n, 3) turned by its own rotation (n, 3, 3)."""
    return np.asarray((turns @ offsets[:, :, None])[:, :, 0])


@dataclass(frozen=True)
class Followers:
    """Points that go with the nearest vertices of an animated surface, as if rigidly tied to each one's neighbours.

    turning: (p,) those for which that is exact; the others, which nothing depends on, turn as all leaders do.
    """

    rest: Array
    near: Index
    weights: Array
    points: Array
    turning: Mask

    @staticmethod
    def tie(points: Array, surface: Array, vertices: Index, turning: Mask | None = None) -> Followers:
        """points: (p, 3) at rest.  surface: (v, 3) at rest.  vertices: which may lead.  turning: all if None."""
        count = min(_NEIGHBOURS, len(vertices))
        distance, near = cKDTree(surface[vertices]).query(points, k=count)
        distance, near = distance.reshape(len(points), count), vertices[near.reshape(len(points), count)]
        reach = distance[:, -1:] + 1e-12
        weights = (1.0 - 0.9 * (distance / reach) ** 2) if count > 1 else np.ones_like(distance)
        turning = np.ones(len(points), dtype=bool) if turning is None else turning
        return Followers(surface, near, weights / weights.sum(axis=1, keepdims=True), points, turning)

    def __call__(self, surface: Array) -> Array:
        """Positions (p, 3) for the animated surface (v, 3)."""
        if len(self.points) == 0:
            return self.points.copy()
        turns, places = self.frames(surface)
        return _turned(turns, self.offsets) + places

    @cached_property
    def offsets(self) -> Array:
        """Of the points from their leaders' places at rest, (p, 3) m."""
        return np.asarray(self.points - self._places)

    def frames(self, surface: Array) -> tuple[Array, Array]:
        """The turn (p, 3, 3) of the surface (v, 3) around each point since rest, and its place there (p, 3)."""
        new = surface[self.near]
        b0 = (self.weights[:, None] @ new)[:, 0]
        whole, _ = rigid_motion(self.rest[self._leaders], surface[self._leaders])
        # The weighted leaders' places at rest are about their mean, so that b0 drops out of the products.
        products = new[self.turning].transpose(0, 2, 1) @ self._levers + self._steadied * whole
        left, _, right = np.linalg.svd(products)
        left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
        turns = np.tile(whole, (len(self.points), 1, 1))
        turns[self.turning] = left @ right
        return turns, b0

    @cached_property
    def _leaders(self) -> Index:
        return np.unique(self.near)

    @cached_property
    def _places(self) -> Array:
        """(p, 3) m, of the points' leaders at rest."""
        return np.asarray((self.weights[:, None] @ self.rest[self.near])[:, 0])

    @cached_property
    def _levers(self) -> Array:
        """(t, k, 3) m, the turning ones' leaders from there, times their weights."""
        return np.asarray((self.weights[:, :, None] * (self.rest[self.near] - self._places[:, None]))[self.turning])

    @cached_property
    def _steadied(self) -> Array:
        """(t, 1, 1) m^2, how much the turn of all leaders counts, where the near ones leave it open."""
        levers = (self.rest[self.near] - self._places[:, None])[self.turning]
        spread = (self._levers * levers).sum(axis=(1, 2)) + 1e-12
        return np.asarray(_STEADY * spread)[:, None, None]


@dataclass(frozen=True)
class MeshCarrier:
    """The animated mesh's own motion during a step, as a turn and a shift around every node (physics.md section 2, c).

    A node that has swung away from its animated place is carried along with the turn about that place.
    offsets: (n, 3) m of the nodes from their places, at rest.
    """

    turns: tuple[Array, Array]
    places: tuple[Array, Array]
    offsets: Array

    @property
    def home(self) -> Array:
        """Where the animation has the nodes at the step's start, (n, 3) m."""
        return _turned(self.turns[0], self.offsets) + self.places[0]

    def __call__(self, positions: Array) -> Array:
        turn = self.turns[1] @ self.turns[0].transpose(0, 2, 1)
        return _turned(turn, positions - self.places[0]) + self.places[1]

    def part(self, index: int, parts: int) -> MeshCarrier:
        start, end = (Rotation.from_matrix(turn) for turn in self.turns)
        way, shift = (end * start.inv()).as_rotvec(), self.places[1] - self.places[0]
        ends = [index / parts, (index + 1) / parts]
        turns = [(Rotation.from_rotvec(way * t) * start).as_matrix() for t in ends]
        places = (self.places[0] + shift * ends[0], self.places[0] + shift * ends[1])
        return MeshCarrier((turns[0], turns[1]), places, self.offsets)
