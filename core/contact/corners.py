"""Contact hysteresis: keep contacts that the nearest-triangle detection would replace by a neighbour.

Detection finds the nearest triangle of each point. In a fold of a sheet, or in a corner, the nearest side alternates,
and solves that use one side at a time never converge. A side that is still pressed is therefore kept beside the nearer
one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import vstack

from ..arrays import Array, Index, Mask
from .memory import CORNERS, EDGE, POINT, ContactMemory
from .rows import ContactEnergy, Pressing, Rows

# Normals whose difference is smaller than this belong to the same side.
SAME = 0.05
# A side is kept while the point is within this many contact distances of the touched place.
NEAR = 1.3
# The same for a thread that has slid beyond the end of an edge.
_ALONG = 5.0
# A point is in a hollow if each side lies in front of the other, up to this fraction of the contact distance.
HOLLOW = 0.1


def cornered(rows: Rows, found: Rows, positions: Array, memory: ContactMemory) -> Rows:
    """Return the detected contacts, and those previous self-contacts of points in hollows that are still pressed.

    positions: (n, 3) m of nodes at the step's end, where the contacts were detected.  history: of the last step, as
        given to detection.

    The sides of a point keep their keys between detections. The first one holds all of the point's slip.
    """
    before, now = (ContactEnergy(one, np.zeros(len(one))).at(positions) for one in (rows, found))
    # A point that has slid off the touched place no longer touches its plane.
    near = np.linalg.norm(before.way, axis=1) < NEAR * rows.distance
    # On another surface, a tip in a dent lies between several triangles, and would lose its friction from one to the
    # next.
    itself = (rows.key[:, 0] == rows.key[:, 3]) & (rows.key[:, 1] != EDGE)
    # For sheets, detection itself finds all sides of a fold.
    sided = np.isin(rows.key[:, 2], found.key[np.isin(found.key[:, 1], CORNERS), 2])
    pressing = np.flatnonzero(near & itself & (before.gap < 0.0) & ~sided)
    spot = _places(found, _points(rows.key[pressing]))
    pressing, spot = pressing[spot >= 0], spot[spot >= 0]
    if not len(pressing):
        return found
    other = np.linalg.norm(rows.normal[pressing] - found.normal[spot], axis=1) > SAME
    hollow = _hollow(rows, found, before, now, pressing, spot)
    if not (other & hollow).any():
        return found
    key, carried = found.key.copy(), []
    for place in np.unique(spot[other & hollow]):
        sides = pressing[spot == place]
        kept = sides[(other & hollow)[spot == place]]
        # The detected contact takes over the key of the same side, or else an unused kind.
        same = np.setdiff1d(sides, pressing[(spot == place) & other])
        kinds = set(rows.key[kept, 1])
        own = [kind for kind in rows.key[same, 1] if kind not in kinds]
        free = own or [kind for kind in (POINT, *CORNERS) if kind not in kinds]
        if free:
            key[place, 1] = free[0]
            carried.append(kept)
    if not carried:
        return found
    begun = found.begun + (key[:, 1] != found.key[:, 1])[:, None] * memory.stretch(found.key)
    return joined(replace(found, key=key, begun=begun), rows.some(np.concatenate(carried)))


def lingering(rows: Rows, found: Rows, positions: Array, threads: frozenset[int]) -> Rows:
    """Return the detected contacts, and those previous contacts of threads with edges that are still pressed.

    Where edges meet in a vertex, a thread slips from one to the other, and solves with one edge at a time alternate.
    positions: see keep_corner_contacts().  threads: indices of surfaces that are threads.
    """
    if not threads:
        return found
    before = ContactEnergy(rows, np.zeros(len(rows))).at(positions)
    near = np.linalg.norm(before.way, axis=1) < _ALONG * rows.distance
    mine = np.isin(rows.key[:, 0], sorted(threads)) & (rows.key[:, 1] == EDGE)
    # A thread behind an edge is beyond that edge's end, and intersects nothing.
    ahead = before.gap + rows.out > 0.0
    pressing = np.flatnonzero(near & mine & ahead & (before.gap < 0.0))
    left = pressing[_places(found, rows.key[pressing]) < 0]
    return joined(found, rows.some(left)) if len(left) else found


def _hollow(rows: Rows, found: Rows, before: Pressing, now: Pressing, mine: Index, theirs: Index) -> Mask:
    """Return whether both touched places lie in front of each other's planes, (k,)."""
    between = before.way[mine] - now.way[theirs]
    least = -HOLLOW * rows.distance[mine]
    one = np.einsum("ki,ki->k", rows.normal[mine], between)
    two = np.einsum("ki,ki->k", found.normal[theirs], -between)
    return np.asarray((one >= least) & (two >= least))


def _points(keys: Index) -> Index:
    """Return the keys with all kinds replaced by POINT, as detection assigns them."""
    found = keys.copy()
    found[:, 1] = POINT
    return found


def _places(rows: Rows, keys: Index) -> Index:
    """Return the index (k,) of each key among contacts; -1 if it is missing."""
    none = np.zeros((len(rows), 3))
    order = np.lexsort(rows.key.T[::-1]) if len(rows) else np.zeros(0, dtype=np.int64)
    spot = ContactMemory.of(rows.key, none, np.ones(len(rows)), none[:, 0]).places(keys)
    return np.where(spot >= 0, order[spot] if len(order) else -1, -1)


def joined(one: Rows, other: Rows) -> Rows:
    """Return the contacts of both sets."""
    return Rows(
        vstack([one.weights, other.weights]).tocsr(),
        *(
            np.concatenate([getattr(one, name), getattr(other, name)])
            for name in ("base", "normal", "distance", "out", "stiffness", "friction", "begun", "key", "drift")
        ),
    )
