"""Contacts of points with infinite planes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Array
from ..geometry.mesh.triangles import cross_rows
from .collision_state import CollisionState
from .collisions import SEARCH_FACTOR, Collisions
from .contact_history import POINT


def plane_contacts(state: CollisionState, pairs: Sequence[tuple[int, int]], points: Array) -> list[Collisions]:
    """Return the contacts of points near infinite planes.

    pairs: of surfaces and planes.  points: (N, 3) m at the step's end.
    """
    model, found = state.model, []
    for b in sorted({b for _, b in pairs}):
        plane = model.points_of(b)
        candidates = np.concatenate(
            [model.surfaces[a].used_vertices + model.point_starts[a] for a, other in pairs if other == b]
        )
        # Fully animated points cannot react to a plane.
        candidates = candidates[model.is_dynamic[candidates]]
        origin, one, other = points[plane]
        axes = np.stack([one - origin, other - origin])
        normal = cross_rows(*axes)
        normal /= np.sqrt(normal @ normal)
        offset = points[candidates] - origin
        is_near = offset @ normal < SEARCH_FACTOR * state.pair_distances[model.owner[candidates], b]
        candidates, offset = candidates[is_near], offset[is_near]
        along = offset @ np.linalg.pinv(axes)
        weights = np.column_stack([np.ones(len(candidates)), along.sum(axis=1) - 1.0, -along])
        corners = np.broadcast_to(np.arange(plane.start, plane.stop), (len(candidates), 3))
        owner = model.owner[candidates]
        surfaces = np.stack([owner, np.full(len(candidates), b)], axis=1)
        feature, normals = candidates - model.point_starts[owner], np.broadcast_to(normal, (len(candidates), 3))
        stack = np.column_stack([candidates, corners])
        found.append(Collisions(surfaces, stack, weights, normals, feature, POINT, model.areas[candidates]))
    return found
