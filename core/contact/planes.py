"""Contacts of points with infinite planes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from ..geometry.triangles import cross_rows
from .meeting import REACH, Meeting
from .memory import POINT
from .moment import Moment


def above_planes(moment: Moment, pairs: Sequence[tuple[int, int]], points: Array) -> list[Meeting]:
    """Return the contacts of points near infinite planes.

    pairs: of surfaces and planes.  points: (N, 3) m at the step's end.
    """
    model, found = moment.model, []
    for b in sorted({b for _, b in pairs}):
        plane = model.points_of(b)
        which = np.concatenate([model.surfaces[a].points + model.starts[a] for a, other in pairs if other == b])
        # Fully animated points cannot react to a plane.
        which = which[model.moved[which]]
        origin, one, other = points[plane]
        axes = np.stack([one - origin, other - origin])
        normal = cross_rows(*axes)
        normal /= np.sqrt(normal @ normal)
        offset = points[which] - origin
        near = offset @ normal < REACH * moment.pair_distances[model.owner[which], b]
        which, offset = which[near], offset[near]
        along = offset @ np.linalg.pinv(axes)
        weights = np.column_stack([np.ones(len(which)), along.sum(axis=1) - 1.0, -along])
        corners = np.broadcast_to(np.arange(plane.start, plane.stop), (len(which), 3))
        owner = model.owner[which]
        surfaces = np.stack([owner, np.full(len(which), b)], axis=1)
        feature, normals = which - model.starts[owner], np.broadcast_to(normal, (len(which), 3))
        stack = np.column_stack([which, corners])
        found.append(Meeting(surfaces, stack, weights, normals, feature, POINT, model.areas[which]))
    return found
