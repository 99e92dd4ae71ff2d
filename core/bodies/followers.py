"""Binding of points to the animated surface."""

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
# Weight of the rotation of all bound vertices in a point's own rotation, used if its neighbours leave an axis open.
_STEADY = 1e-3
# Largest deviation from a rigid motion, relative to the extent, for which all points use it: float32 rounding.
_RIGID = 1e-7


class Followers(Protocol):
    """Points (p, 3) m that follow an animated surface."""

    @property
    def offsets(self) -> Array:
        """Offsets (p, 3) m of the points from the origins of their local frames at rest."""
        ...

    def __call__(self, surface: Array) -> Array:
        """Return the positions (p, 3) m for the animated surface (v, 3) m."""
        ...

    def frames(self, surface: Array) -> tuple[Array, Array]:
        """Return rotations (p, 3, 3) since rest and origins (p, 3) m of local frames of the surface (v, 3) m."""
        ...


def _turned(turns: Array, offsets: Array) -> Array:
    """Rotate each offset (n, 3) by its own rotation (n, 3, 3)."""
    return np.asarray((turns @ offsets[:, :, None])[:, :, 0])


@dataclass(frozen=True)
class Tied:
    """Points bound rigidly to the nearest vertices of an animated surface.

    rest: (v, 3) m, surface at rest.
    near: (p, k) vertices to which each point is bound.  weights: (p, k) their weights.
    points: (p, 3) m at rest.
    has_local_rotation: (p,) points with an exact local rotation. The others, on which nothing depends, use the common
        rotation of all bound vertices.
    """

    rest: Array
    near: Index
    weights: Array
    points: Array
    turning: Mask

    @staticmethod
    def tie(points: Array, surface: Array, vertices: Index, turning: Mask | None = None) -> Tied:
        """Bind points (p, 3) m to the nearest of the given vertices of a surface (v, 3) m, both at rest.

        has_local_rotation: (p,), see the class; all points if None.
        """
        count = min(_NEIGHBOURS, len(vertices))
        distance, near = cKDTree(surface[vertices]).query(points, k=count)
        distance, near = distance.reshape(len(points), count), vertices[near.reshape(len(points), count)]
        reach = distance[:, -1:] + 1e-12
        weights = (1.0 - 0.9 * (distance / reach) ** 2) if count > 1 else np.ones_like(distance)
        turning = np.ones(len(points), dtype=bool) if turning is None else turning
        return Tied(surface, near, weights / weights.sum(axis=1, keepdims=True), points, turning)

    def some(self, which: Index) -> Tied:
        """Return the binding of a subset of the points."""
        return Tied(self.rest, self.near[which], self.weights[which], self.points[which], self.turning[which])

    def __call__(self, surface: Array) -> Array:
        """Return the positions (p, 3) m for the animated surface (v, 3) m."""
        if len(self.points) == 0:
            return self.points.copy()
        turns, places = self.frames(surface)
        return _turned(turns, self.offsets) + places

    @cached_property
    def offsets(self) -> Array:
        """Offsets (p, 3) m of the points from the weighted means of their vertices, at rest."""
        return np.asarray(self.points - self._places)

    def frames(self, surface: Array) -> tuple[Array, Array]:
        """Return rotations (p, 3, 3) since rest and origins (p, 3) m of local frames of the surface (v, 3) m."""
        there = surface[self._leaders]
        whole, shift = rigid_motion(self._leading, there)
        turns = np.tile(whole, (len(self.points), 1, 1))
        if np.abs(self._leading @ whole.T + shift - there).max() <= _RIGID * self._extent:
            return turns, self._places @ whole.T + shift
        new = rows(surface, self.near)
        b0 = (self.weights[:, None] @ new)[:, 0]
        # The weighted rest offsets sum to zero, so b0 cancels in the products.
        products = new[self.turning].transpose(0, 2, 1) @ self._levers + self._steadied * whole
        turns[self.turning] = best_rotations(products)
        return turns, b0

    @cached_property
    def _leaders(self) -> Index:
        return np.unique(self.near)

    @cached_property
    def _leading(self) -> Array:
        """Rest positions (l, 3) m of all vertices with bound points."""
        return self.rest[self._leaders]

    @cached_property
    def _extent(self) -> float:
        """Largest extent in m of the bound vertices at rest."""
        return float(np.ptp(self._leading, axis=0).max())

    @cached_property
    def _places(self) -> Array:
        """Weighted means (p, 3) m of each point's vertices at rest."""
        return np.asarray((self.weights[:, None] @ self.rest[self.near])[:, 0])

    @cached_property
    def _levers(self) -> Array:
        """Weighted rest offsets (t, k, 3) m of the vertices from their mean, for points with a local rotation."""
        return np.asarray((self.weights[:, :, None] * (self.rest[self.near] - self._places[:, None]))[self.turning])

    @cached_property
    def _steadied(self) -> Array:
        """Weights (t, 1, 1) m^2 of the common rotation, which matters if a point's vertices leave an axis open."""
        levers = (self.rest[self.near] - self._places[:, None])[self.turning]
        spread = (self._levers * levers).sum(axis=(1, 2)) + 1e-12
        return np.asarray(_STEADY * spread)[:, None, None]


@dataclass(frozen=True)
class Vertices:
    """Points that are vertices of the surface and follow it exactly.

    vertices: (p,) vertex of each point.  binding: provides the local rotation of the surface at each point.
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
    """Reference motion of an animated mesh during a step, as a local frame at each node (docs/physics.md section 2).

    A node that has swung away from its animated position rotates about that position.

    frame_rotations: (n, 3, 3) since rest, at the start and at the end of the step.
    frame_origins: (n, 3) m, likewise.
    offsets: (n, 3) m of the nodes from their origins, at rest.
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
