"""Whether a step has carried one thing through another: an exact look, for steps that were hard."""

from __future__ import annotations

from ..arrays import Array, Index
from ..geometry.crossings import depth_between
from .moment import Moment

# Less of the smaller one's size cannot be seen.
_DEEP = 1e-3


def passes(moment: Moment, positions: Array) -> bool:
    """Whether closed surfaces that were in front of each other when the step began are not at positions (n, 3) m.

    Rows tell of features that are near; where a search went far, a tip may have come to lie beyond all of them.
    """
    model, end = moment.model, moment.points(positions)
    for a, b in model.facing:
        first, second = model.surfaces[a], model.surfaces[b]
        if model.seen[a] != a or model.seen[b] != b or second.plane or not (first.closed and second.closed):
            continue
        one, other = model.points_of(a), model.points_of(b)
        most = _DEEP * min(first.size, second.size)
        if (
            _depth(end[one], first.triangles, end[other], second.triangles) > most
            and _depth(moment.start[one], first.triangles, moment.start[other], second.triangles) <= most
        ):
            return True
    return False


def _depth(here: Array, faces: Index, there: Array, others: Index) -> float:
    """m, of the deepest place of either in the other. here, there: (v, 3) m.  faces, others: (t, 3)."""
    if (here.max(axis=0) < there.min(axis=0)).any() or (there.max(axis=0) < here.min(axis=0)).any():
        return 0.0
    return depth_between(here, faces, there, others)
