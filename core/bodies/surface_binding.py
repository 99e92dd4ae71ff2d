"""Binding of points to the animated surface."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from ..base.arrays import Array, Index, Mask, best_fit_rotations, take_rows
from ..geometry.mesh.rigid_motion import fit_rigid_motion
from ..system.inputs import ReferenceMotion

_NEIGHBOURS = 12
# Weight of the rotation of all bound vertices in a point's own rotation, used if its neighbours leave an axis open.
_COMMON_ROTATION_WEIGHT = 1e-3
# Largest deviation from a rigid motion, relative to the extent, for which all points use it: float32 rounding.
_RIGID_TOLERANCE = 1e-7


class BoundPoints:
    """Base class of points (p, 3) m that follow an animated surface."""

    @property
    def offsets(self) -> Array:
        """Offsets (p, 3) m of the points from the origins of their local frames at rest."""
        raise NotImplementedError

    def __call__(self, surface: Array) -> Array:
        """Return the positions (p, 3) m for the animated surface (v, 3) m."""
        if not len(self.offsets):
            return self.offsets.copy()
        turns, origins = self.local_frames(surface)
        return _rotate_each(turns, self.offsets) + origins

    def local_frames(self, surface: Array) -> tuple[Array, Array]:
        """Return rotations (p, 3, 3) since rest and origins (p, 3) m of local frames of the surface (v, 3) m."""
        raise NotImplementedError


def _rotate_each(turns: Array, offsets: Array) -> Array:
    """Rotate each offset (n, 3) by its own rotation (n, 3, 3)."""
    return np.asarray((turns @ offsets[:, :, None])[:, :, 0])


@dataclass(frozen=True)
class SurfaceBinding(BoundPoints):
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
    has_local_rotation: Mask

    @staticmethod
    def bind(points: Array, surface: Array, vertices: Index, has_local_rotation: Mask | None = None) -> SurfaceBinding:
        """Bind points (p, 3) m to the nearest of the given vertices of a surface (v, 3) m, both at rest.

        has_local_rotation: (p,), see the class; all points if None.
        """
        count = min(_NEIGHBOURS, len(vertices))
        distance, near = cKDTree(surface[vertices]).query(points, k=count)
        distance, near = distance.reshape(len(points), count), vertices[near.reshape(len(points), count)]
        reach = distance[:, -1:] + 1e-12
        weights = (1.0 - 0.9 * (distance / reach) ** 2) if count > 1 else np.ones_like(distance)
        has_local_rotation = np.ones(len(points), dtype=bool) if has_local_rotation is None else has_local_rotation
        return SurfaceBinding(surface, near, weights / weights.sum(axis=1, keepdims=True), points, has_local_rotation)

    def subset(self, indices: Index) -> SurfaceBinding:
        """Return the binding of a subset of the points."""
        return SurfaceBinding(
            self.rest, self.near[indices], self.weights[indices], self.points[indices], self.has_local_rotation[indices]
        )

    @cached_property
    def offsets(self) -> Array:
        """Offsets (p, 3) m of the points from the weighted means of their vertices, at rest."""
        return np.asarray(self.points - self._rest_origins)

    def local_frames(self, surface: Array) -> tuple[Array, Array]:
        current = surface[self._bound_vertices]
        common_rotation, shift = fit_rigid_motion(self._bound_rest, current)
        turns = np.tile(common_rotation, (len(self.points), 1, 1))
        if np.abs(self._bound_rest @ common_rotation.T + shift - current).max() <= _RIGID_TOLERANCE * self._extent:
            return turns, self._rest_origins @ common_rotation.T + shift
        new = take_rows(surface, self.near)
        b0 = (self.weights[:, None] @ new)[:, 0]
        # The weighted rest offsets sum to zero, so b0 cancels in the products.
        products = new[self.has_local_rotation].transpose(0, 2, 1) @ self._weighted_offsets
        products += self._common_rotation_weights * common_rotation
        turns[self.has_local_rotation] = best_fit_rotations(products)
        return turns, b0

    @cached_property
    def _bound_vertices(self) -> Index:
        return np.unique(self.near)

    @cached_property
    def _bound_rest(self) -> Array:
        """Rest positions (l, 3) m of all vertices with bound points."""
        return self.rest[self._bound_vertices]

    @cached_property
    def _extent(self) -> float:
        """Largest extent in m of the bound vertices at rest."""
        return float(np.ptp(self._bound_rest, axis=0).max())

    @cached_property
    def _rest_origins(self) -> Array:
        """Weighted means (p, 3) m of each point's vertices at rest."""
        return np.asarray((self.weights[:, None] @ self.rest[self.near])[:, 0])

    @cached_property
    def _weighted_offsets(self) -> Array:
        """Weighted rest offsets (t, k, 3) m of the vertices from their mean, for points with a local rotation."""
        return np.asarray(
            (self.weights[:, :, None] * (self.rest[self.near] - self._rest_origins[:, None]))[self.has_local_rotation]
        )

    @cached_property
    def _common_rotation_weights(self) -> Array:
        """Weights (t, 1, 1) m^2 of the common rotation, which matters if a point's vertices leave an axis open."""
        levers = (self.rest[self.near] - self._rest_origins[:, None])[self.has_local_rotation]
        spread = (self._weighted_offsets * levers).sum(axis=(1, 2)) + 1e-12
        return np.asarray(_COMMON_ROTATION_WEIGHT * spread)[:, None, None]


@dataclass(frozen=True)
class BoundVertices(BoundPoints):
    """Points that are vertices of the surface and follow it exactly.

    vertices: (p,) vertex of each point.  binding: provides the local rotation of the surface at each point.
    """

    vertices: Index
    binding: SurfaceBinding

    @property
    def offsets(self) -> Array:
        return np.zeros((len(self.vertices), 3))

    def __call__(self, surface: Array) -> Array:
        return np.asarray(surface[self.vertices])

    def local_frames(self, surface: Array) -> tuple[Array, Array]:
        turns, _ = self.binding.local_frames(surface)
        return turns, self(surface)


@dataclass(frozen=True)
class AnimatedReference(ReferenceMotion):
    """Reference motion of an animated mesh during a step, as a local frame at each node.

    A node that has swung away from its animated position rotates about that position. See
    docs/explanation/physics/02-settle-law.md.

    frame_rotations: (n, 3, 3) since rest, at the start and at the end of the step.
    frame_origins: (n, 3) m, likewise.
    offsets: (n, 3) m of the nodes from their origins, at rest.
    """

    frame_rotations: tuple[Array, Array]
    frame_origins: tuple[Array, Array]
    offsets: Array

    def undeformed_positions(self, nodes: Index) -> Array:
        return _rotate_each(self.frame_rotations[0][nodes], self.offsets[nodes]) + self.frame_origins[0][nodes]

    def end_positions(self, nodes: Index, positions: Array) -> Array:
        return (
            _rotate_each(self.rotations(nodes), positions - self.frame_origins[0][nodes]) + self.frame_origins[1][nodes]
        )

    def rotations(self, nodes: Index) -> Array:
        return np.asarray(self.frame_rotations[1][nodes] @ self.frame_rotations[0][nodes].transpose(0, 2, 1))

    @property
    def is_still(self) -> bool:
        return all(np.array_equal(*ends) for ends in (self.frame_rotations, self.frame_origins))

    @cached_property
    def _turn(self) -> tuple[Rotation, Array]:
        """Rotations at the start, and rotation vectors (n, 3) rad of the step; all parts of a step use them."""
        start, end = (Rotation.from_matrix(turn) for turn in self.frame_rotations)
        return start, (end * start.inv()).as_rotvec()

    @cached_property
    def _turns(self) -> dict[float, Array]:
        """Rotations (n, 3, 3) at fractions of the step: the end of a part is the start of the next one."""
        return {}

    def _turn_at(self, fraction: float) -> Array:
        if fraction not in self._turns:
            start, way = self._turn
            self._turns[fraction] = (Rotation.from_rotvec(way * fraction) * start).as_matrix()
        return self._turns[fraction]

    def subinterval(self, index: int, count: int) -> AnimatedReference:
        shift = self.frame_origins[1] - self.frame_origins[0]
        ends = [index / count, (index + 1) / count]
        turns = [self._turn_at(t) for t in ends]
        places = (self.frame_origins[0] + shift * ends[0], self.frame_origins[0] + shift * ends[1])
        return AnimatedReference((turns[0], turns[1]), places, self.offsets)
