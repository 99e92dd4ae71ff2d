"""Last resort for bodies that end a violent step deep in each other or in a collider: push them out the nearest way.

Points inside move to the nearest place outside. Where that would tear a body apart, because it is on both sides of a
collider, all that is in the way moves in one direction instead. In both cases the other nodes follow smoothly: the
displacement minimises a quadratic form of the stiffness at rest, a small mass term and the distances to these targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack

from ..base.arrays import Array, Index, Mask
from ..contact.collision_state import CollisionState
from ..contact.collision_surface import CollisionSurface
from ..contact.intersections import SurfacePair, are_apart
from ..geometry.collision.intersections import points_inside, segment_triangle_hits
from ..geometry.collision.proximity import Triangles, nearest_triangles
from ..solvers.factorisation import factorise

# Largest distance between samples of edges, as a fraction of the smaller body's size, and largest number per edge.
_SAMPLE_SPACING, _MAX_SAMPLES = 0.05, 24
# Numbers of corrections the nearest way, and in one direction.
_NEAREST_CORRECTIONS, _COMMON_CORRECTIONS = 3, 3
# Weights of the targets and of the mass, relative to the mean stiffness.
_TARGET_WEIGHT, _MASS_WEIGHT = 100.0, 1e-3
# Gap after a correction, as a fraction of the contact distance, and depth that needs no further one, as a fraction of
# the size.
_GAP_FRACTION, _SHALLOW = 0.25, 0.005
# Largest common way out, as a fraction of the body's size, and weight of the part of it that pins prevent.
_MAX_COMMON_WAY, _HELD_WAY_WEIGHT = 1.0, 2.0
# Common directions that are tried.
_DIRECTIONS = np.array([one for one in product((-1.0, 0.0, 1.0), repeat=3) if np.count_nonzero(one) in (1, 3)])


@dataclass(frozen=True)
class _Targets:
    """Wanted displacements of some places on bodies.

    rows: (k, n) operator from nodes to the places, or to places relative to each other.  shifts: (k, 3) m.
    """

    rows: csr_matrix
    shifts: Array


@dataclass(frozen=True)
class PushOut:
    """Push-out of the bodies of one system at the end of a step.

    state: contact model with the animated points at the step's end.
    stiffness: (f, f) trace over the coordinates of the stiffness of the free nodes at rest, N/m.  mass: (f,) kg.
    free: (f,) free nodes.
    """

    state: CollisionState
    stiffness: csr_matrix
    mass: Array
    free: Index

    def depth(self, points: Array) -> float:
        """Return the largest depth as a fraction of the smaller size, for all points (N, 3) m."""
        return max((self._pair_depth(points, *pair) for pair in self._directed_pairs(points)), default=0.0)

    def __call__(self, x: Array) -> Array:
        """Return node positions (n, 3) m with bodies pushed out; those with the smallest depth that was found."""
        best, best_depth = x, self.depth(self.state.points_at(x))
        directions: dict[SurfacePair, Array] = {}
        for corrections, is_common in ((_NEAREST_CORRECTIONS, False), (_COMMON_CORRECTIONS, True)):
            now = x
            for _ in range(corrections):
                points = self.state.points_at(now)
                if is_common:
                    found = self._common_targets(points, directions)
                else:
                    found = [self._nearest_targets(points, *pair) for pair in self._directed_pairs(points)]
                if not any(one.rows.shape[0] for one in found):
                    break
                now = self._shifted(now, found)
                depth = self.depth(self.state.points_at(now))
                if depth < best_depth:
                    best, best_depth = now, depth
                if depth <= _SHALLOW:
                    return best
        return best

    def _shifted(self, x: Array, targets: list[_Targets]) -> Array:
        """Return positions (n, 3) m, moved towards targets."""
        rows = vstack([one.rows for one in targets]).tocsr()[:, self.free]
        shifts = np.concatenate([one.shifts for one in targets])
        weight = _TARGET_WEIGHT * max(float(self.stiffness.diagonal().mean()), 1e-12)
        inertia = _MASS_WEIGHT * weight / _TARGET_WEIGHT * self.mass / self.mass.mean()
        solve = factorise((self.stiffness + diags(inertia) + weight * (rows.T @ rows)).tocsr())
        moved = x.copy()
        moved[self.free] += solve(weight * (rows.T @ shifts))
        return moved if np.isfinite(moved).all() else x

    def _directed_pairs(self, points: Array) -> Iterator[SurfacePair]:
        """Yield pairs of a surface whose points may be inside a closed one, and that one, if their boxes overlap."""
        model = self.state.model
        for pair in model.colliding_pairs:
            if any(model.visible_surface[k] != k for k in pair):
                continue
            for first, second in (pair, pair[::-1]):
                surface = model.surfaces[second]
                is_near = surface.is_plane or (surface.is_closed and self._are_near(points, first, second))
                if is_near and not model.surfaces[first].is_plane:
                    yield first, second

    def _are_near(self, points: Array, first: int, second: int) -> bool:
        return not are_apart(*(points[self.state.model.points_of(k)] for k in (first, second)))

    def _smaller_size(self, first: int, second: int) -> float:
        sizes = self.state.model.sizes
        return float(sizes[first] if self.state.model.surfaces[second].is_plane else min(sizes[first], sizes[second]))

    def _samples(self, points: Array, first: int, second: int) -> csr_matrix:
        """Return the operator (k, N) from all points to samples of a surface: its points, and some along its edges."""
        model = self.state.model
        surface, start = model.surfaces[first], model.points_of(first).start
        vertices = surface.used_vertices + start
        edges = _edges(surface) + start if surface.is_closed else np.zeros((0, 2), dtype=np.int64)
        spacing = _SAMPLE_SPACING * self._smaller_size(first, second)
        lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        counts = np.clip(np.ceil(lengths / max(spacing, 1e-12)).astype(np.int64) - 1, 0, _MAX_SAMPLES)
        owner = np.arange(len(edges)).repeat(counts)
        number = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        fraction = (number + 1.0) / (counts[owner] + 1.0)
        row = len(vertices) + np.arange(len(owner))
        return csr_matrix(
            (
                np.concatenate([np.ones(len(vertices)), 1.0 - fraction, fraction]),
                (
                    np.concatenate([np.arange(len(vertices)), row, row]),
                    np.concatenate([vertices, edges[owner, 0], edges[owner, 1]]),
                ),
            ),
            shape=(len(vertices) + len(owner), model.point_count),
        )

    def _surface(self, points: Array, place: int) -> Triangles:
        surface = self.state.model.surfaces[place]
        return Triangles(points[self.state.model.points_of(place)], surface.triangles, surface.topology)

    def _inside(self, points: Array, first: int, second: int) -> tuple[csr_matrix, Array, csr_matrix]:
        """Return samples (k, N) of a surface inside another, shifts (k, 3) m to places outside, and these (k, N)."""
        samples = self._samples(points, first, second)
        places = samples @ points
        model = self.state.model
        if model.surfaces[second].is_plane:
            a, b, c = points[model.points_of(second)][:3]
            normal = np.cross(b - a, c - a)
            normal /= np.linalg.norm(normal)
            height = (places - a) @ normal
            below = np.flatnonzero(height < 0.0)
            return samples[below], -height[below, None] * normal, csr_matrix((len(below), model.point_count))
        surface = self._surface(points, second)
        inside = np.flatnonzero(points_inside(places, surface))
        found = nearest_triangles(surface, places[inside], np.inf)
        inside = inside[found.point]
        corners = surface.triangles[found.triangle] + model.points_of(second).start
        ends = csr_matrix(
            (found.weights.ravel(), (np.arange(len(inside)).repeat(3), corners.ravel())),
            shape=(len(inside), model.point_count),
        )
        return samples[inside], ends @ points - places[inside], ends

    def _pair_depth(self, points: Array, first: int, second: int) -> float:
        _, shifts, _ = self._inside(points, first, second)
        return float(np.linalg.norm(shifts, axis=1).max(initial=0.0)) / max(self._smaller_size(first, second), 1e-12)

    def _nearest_targets(self, points: Array, first: int, second: int) -> _Targets:
        """Return the targets of points of a surface inside another one."""
        samples, shifts, ends = self._inside(points, first, second)
        depth = np.linalg.norm(shifts, axis=1)
        gap = _GAP_FRACTION * self.state.pair_distances[first, second]
        shifts = shifts * (1.0 + gap / np.maximum(depth, 1e-3 * gap))[:, None]
        return _Targets(((samples - ends) @ self.state.model.operator).tocsr(), shifts)

    def _common_targets(self, points: Array, directions: dict[SurfacePair, Array]) -> list[_Targets]:
        """Return the targets of all points of bodies that are in the way of a collider in one direction.

        directions: (3,) of each pair of a body and a collider; those of further pairs are added.
        """
        found, surfaces = [], self.state.model.surfaces
        for pair in self._directed_pairs(points):
            body, collider = pair
            if surfaces[body].is_collider or not surfaces[collider].is_collider or surfaces[collider].is_plane:
                continue
            surface, samples = self._surface(points, collider), self._samples(points, body, collider)
            rows, places = (samples @ self.state.model.operator).tocsr(), samples @ points
            if pair not in directions:
                count = len(surfaces[body].used_vertices)
                is_held = np.asarray(abs(rows[:count][:, self.free]).sum(axis=1)).ravel() < 0.5
                direction = self._shortest_direction(places[:count], is_held, surface, float(surfaces[body].size))
                if direction is None:
                    continue
                directions[pair] = direction
            distances = _last_exits(places, directions[pair], surface)
            blocked = np.flatnonzero(distances > 0.0)
            gap = _GAP_FRACTION * self.state.pair_distances[pair]
            found.append(_Targets(rows[blocked], (distances[blocked] + gap)[:, None] * directions[pair]))
        return found

    @staticmethod
    def _shortest_direction(places: Array, is_held: Mask, surface: Triangles, size: float) -> Array | None:
        """Return the unit vector along which places (k, 3) m have the shortest way past a collider; None if too long.

        is_held: (k,) places that cannot move.
        """
        shortest, best = _MAX_COMMON_WAY * size, None
        if not points_inside(places, surface).any():
            return None
        for direction in _DIRECTIONS:
            unit = direction / np.linalg.norm(direction)
            distances = _last_exits(places, unit, surface)
            length = float(distances.max()) + _HELD_WAY_WEIGHT * float(distances[is_held].max(initial=0.0))
            if length < shortest:
                shortest, best = length, unit
        return best


def _last_exits(places: Array, unit: Array, surface: Triangles) -> Array:
    """Return the distances (k,) m from places (k, 3) along a unit vector to where the ray leaves a surface for good."""
    corners = np.stack([surface.low.min(axis=1), surface.high.max(axis=1)])
    reach = surface.size + float(np.linalg.norm(places - corners.mean(axis=0), axis=1).max())
    found = segment_triangle_hits(places, places + reach * unit, surface)
    exits = np.zeros(len(places))
    np.maximum.at(exits, found.segment, reach * found.parameter)
    return exits


def _edges(surface: CollisionSurface) -> Index:
    return np.asarray(surface.edges_and_faces[0], dtype=np.int64).reshape(-1, 2)
