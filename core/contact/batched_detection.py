"""Collision detection between points and triangles of many small bodies at once.

For surfaces of a few hundred triangles, the overhead of numpy calls dominates. Batching makes all pairs of a heap of
bodies about as cheap as one pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.pair_rules import has_opposing_face
from ..geometry.collision.proximity import nearest_triangles_among, side_of_surface
from ..geometry.mesh.triangles import Triangles
from .collision_state import CollisionState
from .collision_surface import DirectedPair, SurfaceBatch
from .collisions import (
    MAX_START_DEPTH,
    SEARCH_FACTOR,
    TUNNELLING_DEPTH,
    Collisions,
    no_collisions,
    point_collisions,
    relative_motion,
)
from .contact_history import POINT, ContactHistory
from .contact_model import ContactModel

# For surfaces with more triangles, or pairs with more candidates than this, the overhead does not dominate.
_MAX_TRIANGLES, _MAX_CANDIDATES = 1_000, 6_000
# Number of cached batches, for the pairs that were near each other in recent steps.
_CACHED_BATCHES = 8


def can_batch(model: ContactModel, a: int, b: int) -> bool:
    """Return whether the pair of points of surface a and triangles of surface b can be batched with others."""
    one, other = model.surfaces[a], model.surfaces[b]
    if a == b or one.is_collider or other.is_collider or not other.is_closed:
        return False
    return max(len(one.triangles), len(other.triangles)) <= _MAX_TRIANGLES


class BatchedDetection:
    """Batched detection of one step. history: contacts of the last step."""

    def __init__(self, state: CollisionState, history: ContactHistory) -> None:
        self._state, self._history = state, history
        self._start_surfaces: dict[tuple[DirectedPair, ...], Triangles] = {}

    def __call__(
        self, pairs: Sequence[DirectedPair], points: Array, bounds: tuple[Array, Array]
    ) -> tuple[Collisions, Mask]:
        """Return the collisions of pairs at points (N, 3) m, the step's end, and which pairs (pairs,) need a single
        detection.

        pairs: that can_batch() accepts.  bounds: see CollisionState.displacement_bounds.

        Pairs need single detection if a point is deep, started inside, or is fast enough to have tunnelled.
        """
        state, model, key = self._state, self._state.model, tuple(pairs)
        batch = model.batches.get(key)
        if batch is None:
            if len(model.batches) == _CACHED_BATCHES:
                model.batches.clear()
            model.batches[key] = batch = SurfaceBatch.of(model.surfaces, model.point_starts, pairs)
        end_surface = Triangles(points[: batch.point_end], batch.triangles, batch.topology)
        a, b = np.array(pairs).T
        point_pair, distance = batch.point_pair, state.pair_distances[a, b]
        end_points, start = points[batch.points], state.start[batch.points]
        displacement = end_points - start - bounds[0][b][point_pair]
        path = np.sqrt((displacement * displacement).sum(axis=1)) + bounds[1][b][point_pair]
        radius = SEARCH_FACTOR * distance[point_pair] + path
        if end_surface.is_degenerate.any():
            return no_collisions(), np.ones(len(pairs), dtype=bool)
        start_surface = self._start_surface(key, batch)
        point, target, is_crowded = _candidates(end_surface, batch, end_points, radius)
        closed = np.array([model.surfaces[k].is_closed for k in a])[point_pair]
        min_height = -MAX_START_DEPTH * distance[point_pair]

        def forbidden(point: Index, triangle: Index) -> Mask:
            corner = start_surface.vertices[batch.triangles[triangle, 0]]
            is_forbidden = (
                np.einsum("ki,ki->k", start[point] - corner, start_surface.normals[triangle]) < min_height[point]
            )
            remaining = np.flatnonzero(closed[point] & ~is_forbidden)
            own, normals = batch.points[point[remaining]], end_surface.normals[triangle[remaining]]
            is_forbidden[remaining] = ~has_opposing_face(end_surface, batch.vertex_triangles, own, normals)
            return np.asarray(is_forbidden)

        sizes = _target_sizes(end_surface, batch)
        near = nearest_triangles_among(
            end_surface, end_points, radius, sizes[point_pair], batch.target_triangles, (point, target), forbidden
        )
        sign, normal = side_of_surface(end_surface, near, sizes[point_pair[near.point]])
        pair = point_pair[near.point]
        needs_single = is_crowded | self._started_inside(pairs)
        needs_single[pair[sign * near.distance < -TUNNELLING_DEPTH * distance[pair]]] = True
        needs_single[point_pair[path > model.thicknesses[b][point_pair]]] = True
        stencil = np.column_stack([batch.points[near.point], batch.triangles[near.triangle]])
        # As in single detections: see docs/decisions/0074.
        reach = SEARCH_FACTOR * distance[pair] + relative_motion(state, stencil, points, 1)
        is_reached = closed[near.point] | (sign < 0.0) | (near.distance <= reach)
        selected = np.flatnonzero(~needs_single[pair] & is_reached)
        surfaces = np.stack([a, b], axis=1)[pair[selected]]
        found = point_collisions(model, surfaces, stencil[selected], near.weights[selected], normal[selected])
        return found, needs_single

    def _start_surface(self, key: tuple[DirectedPair, ...], batch: SurfaceBatch) -> Triangles:
        """Return the batch's surface at the step's start."""
        if key not in self._start_surfaces:
            self._start_surfaces[key] = Triangles(self._state.start[: batch.point_end], batch.triangles, batch.topology)
        return self._start_surfaces[key]

    def _started_inside(self, pairs: Sequence[DirectedPair]) -> Mask:
        """Return which pairs (pairs,) have a point that lay behind the other surface at the end of the last step."""
        keys = self._history.keys[(self._history.keys[:, 1] == POINT) & (self._history.depths > 0.0)]
        behind = set(zip(keys[:, 0].tolist(), keys[:, 3].tolist(), strict=True))
        return np.array([pair in behind for pair in pairs], dtype=bool)


def _candidates(
    end_surface: Triangles, batch: SurfaceBatch, end_points: Array, radius: Array
) -> tuple[Index, Index, Mask]:
    """Return candidate points (k,) and triangles (k,) whose boxes overlap, and the pairs (pairs,) that have too many.

    Those pairs are left out of the candidates.
    """
    pair_count = len(batch.target_counts)
    first = np.cumsum(batch.target_counts) - batch.target_counts
    rows = np.ascontiguousarray(end_points.T)
    low, high = (side.take(batch.target_triangles, axis=1) for side in (end_surface.low, end_surface.high))
    bottom = np.minimum.reduceat(low, first, axis=1)[:, batch.point_pair] - radius
    top = np.maximum.reduceat(high, first, axis=1)[:, batch.point_pair] + radius
    near_points = np.flatnonzero(((rows >= bottom) & (rows <= top)).all(axis=0))
    pair = batch.point_pair[near_points]
    counts = np.bincount(pair, minlength=pair_count)
    some = np.flatnonzero(counts)
    if not len(some):
        return near_points, near_points, np.zeros(pair_count, dtype=bool)
    begin = (np.cumsum(counts) - counts)[some]
    # Pairs without such points keep empty boxes.
    bottom, top = np.full((3, pair_count), np.inf), np.full((3, pair_count), -np.inf)
    max_radius = np.maximum.reduceat(radius[near_points], begin)
    bottom[:, some] = np.minimum.reduceat(rows[:, near_points], begin, axis=1) - max_radius
    top[:, some] = np.maximum.reduceat(rows[:, near_points], begin, axis=1) + max_radius
    triangle_pair = np.repeat(np.arange(pair_count), batch.target_counts)
    near_triangles = np.flatnonzero(((high >= bottom[:, triangle_pair]) & (low <= top[:, triangle_pair])).all(axis=0))
    # Combine each point with each triangle of its pair.
    triangle_counts = np.bincount(triangle_pair[near_triangles], minlength=pair_count)
    start, is_crowded = np.cumsum(triangle_counts) - triangle_counts, triangle_counts * counts > _MAX_CANDIDATES
    repeated = np.where(is_crowded, 0, triangle_counts)[pair]
    offset = np.arange(int(repeated.sum())) - (np.cumsum(repeated) - repeated).repeat(repeated)
    return near_points.repeat(repeated), near_triangles[start[pair].repeat(repeated) + offset], is_crowded


def _target_sizes(end_surface: Triangles, batch: SurfaceBatch) -> Array:
    """Return the box diagonals (pairs,) m of the touched surfaces."""
    first = np.cumsum(batch.target_counts) - batch.target_counts
    low = np.minimum.reduceat(end_surface.low.take(batch.target_triangles, axis=1), first, axis=1)
    high = np.maximum.reduceat(end_surface.high.take(batch.target_triangles, axis=1), first, axis=1)
    return np.asarray(np.sqrt(((high - low) ** 2).sum(axis=0)))
