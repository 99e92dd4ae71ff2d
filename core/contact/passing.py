"""Whether a step has carried one thing through another: an exact look, for steps that were hard."""

from __future__ import annotations

from ..arrays import Array, Index
from ..geometry.crossings import crossing_edges
from .moment import Moment


def passes(moment: Moment, positions: Array) -> bool:
    """Whether closed surfaces that were apart when the step began pass through each other at positions (n, 3) m.

    Rows tell of features that are near; where a search went far, a tip may have come to lie beyond all of them.
    """
    model, end = moment.model, moment.points(positions)
    for a, b in model.facing:
        first, second = model.surfaces[a], model.surfaces[b]
        if model.seen[a] != a or model.seen[b] != b or second.plane or not (first.closed and second.closed):
            continue
        one, other = model.points_of(a), model.points_of(b)
        if _cross(end[one], first.triangles, end[other], second.triangles) and not _cross(
            moment.start[one], first.triangles, moment.start[other], second.triangles
        ):
            return True
    return False


def _cross(here: Array, faces: Index, there: Array, others: Index) -> bool:
    """Whether an edge of either passes through a triangle (t, 3) of the other. here, there: (v, 3) m."""
    if (here.max(axis=0) < there.min(axis=0)).any() or (there.max(axis=0) < here.min(axis=0)).any():
        return False
    return any(
        len(found[0])
        for found in (crossing_edges(here, faces, there, others), crossing_edges(there, others, here, faces))
    )
