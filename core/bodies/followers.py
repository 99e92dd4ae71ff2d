"""How nodes follow the animated surface."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from ..arrays import Array, Index, Mask, rows
from ..energies.polar import best_rotations
from ..geometry.rigid import rigid_motion

_NEIGHBOURS = 12
# How much the whole body's turn steadies a node's own where its neighbours leave an axis open.
_STEADY = 1e-3
# Leaders that are this much of their extent off from one rigid motion, what float32 leaves of places, turn as one.
_RIGID = 1e-7


class Followers(Protocol):
    """Points (p, 3) that go along with an animated surface."""

    @property
    def offsets(self) -> Array:
        """Of the points from their places at rest, (p, 3) m."""
        ...

    def __call__(self, surface: Array) -> Array:
        """Positions (p, 3) for the animated surface (v, 3)."""
        ...

    def frames(self, surface: Array) -> tuple[Array, Array]:
        """The turn (p, 3, 3) of the surface (v, 3) around each point since rest, and its place there (p, 3)."""
        ...


def _turned(turns: Array, offsets: Array) -> Array:
    """Each offset (n, 3) turned by its own rotation (n, 3, 3)."""
    return np.asarray((turns @ offsets[:, :, None])[:, :, 0])


@dataclass(frozen=True)
class Tied:
    """Points that go with the nearest vertices of an animated surface, as if rigidly tied to each one's neighbours.

    turning: (p,) those for which that is exact; the others, which nothing depends on, turn as all leaders do.
    """

    rest: Array
    near: Index
    weights: Array
    points: Array
    turning: Mask

    @staticmethod
    def tie(points: Array, surface: Array, vertices: Index, turning: Mask | None = None) -> Tied:
        """points: (p, 3) at rest.  surface: (v, 3) at rest.  vertices: which may lead.  turning: all if None."""
        count = min(_NEIGHBOURS, len(vertices))
        distance, near = cKDTree(surface[vertices]).query(points, k=count)
        distance, near = distance.reshape(len(points), count), vertices[near.reshape(len(points), count)]
        reach = distance[:, -1:] + 1e-12
        weights = (1.0 - 0.9 * (distance / reach) ** 2) if count > 1 else np.ones_like(distance)
        turning = np.ones(len(points), dtype=bool) if turning is None else turning
        return Tied(surface, near, weights / weights.sum(axis=1, keepdims=True), points, turning)

    def some(self, which: Index) -> Tied:
        """Of some of the points."""
        return Tied(self.rest, self.near[which], self.weights[which], self.points[which], self.turning[which])

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
        there = surface[self._leaders]
        whole, shift = rigid_motion(self._leading, there)
        turns = np.tile(whole, (len(self.points), 1, 1))
        if np.abs(self._leading @ whole.T + shift - there).max() <= _RIGID * self._extent:
            return turns, self._places @ whole.T + shift
        new = rows(surface, self.near)
        b0 = (self.weights[:, None] @ new)[:, 0]
        # The weighted leaders' places at rest are about their mean, so that b0 drops out of the products.
        products = new[self.turning].transpose(0, 2, 1) @ self._levers + self._steadied * whole
        turns[self.turning] = best_rotations(products)
        return turns, b0

    @cached_property
    def _leaders(self) -> Index:
        return np.unique(self.near)

    @cached_property
    def _leading(self) -> Array:
        """(l, 3) m, the leaders at rest."""
        return self.rest[self._leaders]

    @cached_property
    def _extent(self) -> float:
        """m, of the leaders at rest."""
        return float(np.ptp(self._leading, axis=0).max())

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
class Vertices:
    """Points that are vertices of the surface, so that they follow it exactly.

    vertices: (p,) which.  around: how the surface turns around each.
    """

    vertices: Index
    around: Tied

    @property
    def offsets(self) -> Array:
        return np.zeros((len(self.vertices), 3))

    def __call__(self, surface: Array) -> Array:
        return np.asarray(surface[self.vertices])

    def frames(self, surface: Array) -> tuple[Array, Array]:
        turns, _ = self.around.frames(surface)
        return turns, self(surface)


@dataclass(frozen=True)
class AnimatedReference:
    """The animated mesh's own motion during a step, a turn and a shift around every node (docs/physics.md section 2).

    A node that has swung away from its animated place goes along with the turn about that place.
    turns: (n, 3, 3) at the step's start and end.
    places: (n, 3) m, likewise.
    offsets: (n, 3) m of the nodes from their places, at rest.
    """

    turns: tuple[Array, Array]
    places: tuple[Array, Array]
    offsets: Array

    def undeformed(self, nodes: Index) -> Array:
        return _turned(self.turns[0][nodes], self.offsets[nodes]) + self.places[0][nodes]

    def moved(self, nodes: Index, positions: Array) -> Array:
        return _turned(self.turned(nodes), positions - self.places[0][nodes]) + self.places[1][nodes]

    def turned(self, nodes: Index) -> Array:
        return np.asarray(self.turns[1][nodes] @ self.turns[0][nodes].transpose(0, 2, 1))

    @property
    def is_still(self) -> bool:
        return all(np.array_equal(*ends) for ends in (self.turns, self.places))

    def part(self, index: int, parts: int) -> AnimatedReference:
        start, end = (Rotation.from_matrix(turn) for turn in self.turns)
        way, shift = (end * start.inv()).as_rotvec(), self.places[1] - self.places[0]
        ends = [index / parts, (index + 1) / parts]
        turns = [(Rotation.from_rotvec(way * t) * start).as_matrix() for t in ends]
        places = (self.places[0] + shift * ends[0], self.places[0] + shift * ends[1])
        return AnimatedReference((turns[0], turns[1]), places, self.offsets)
