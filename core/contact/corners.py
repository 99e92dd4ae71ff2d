"""Points in hollows touch more than what is nearest: what one of two surfaces holds alone slips into the other.

Detection knows the nearest triangle of each point. In a fold of a sheet, or in a corner, that is now the one side and
now the other, and steps that know one of them at a time hop to and fro for ever. Here a side that still presses stays
beside the one that is nearer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import vstack

from ..arrays import Array, Index, Mask
from .memory import CORNERS, EDGE, POINT, ContactMemory
from .rows import ContactEnergy, Pressing, Rows

# Normals that are nearer to each other than so are of the same side.
SAME = 0.05
# Within so many contact distances of the touched place it is the one that is touched.
NEAR = 1.3
# The same where a thread has slid beyond the end of an edge.
_ALONG = 5.0
# A point is in a hollow where each side lies in front of the other one but for this part of the contact distance.
HOLLOW = 0.1


def cornered(rows: Rows, found: Rows, positions: Array, memory: ContactMemory) -> Rows:
    """What was found, and what still presses of the rows before where a point is between both.

    positions: (n, 3) m of nodes, where the step ends with the rows, and where the others were found.  memory: what
    detection knows of the last step.

    Each point's sides keep their keys from one to the other, and the first one has all that friction is stretched.
    """
    before, now = (ContactEnergy(one, np.zeros(len(one))).at(positions) for one in (rows, found))
    # What has slid off the place that it touched does not touch the plane there.
    near = np.linalg.norm(before.way, axis=1) < NEAR * rows.distance
    # A tip in a dent is between the dent's triangles, whose friction it would lose from one to the other.
    itself = (rows.key[:, 0] == rows.key[:, 3]) & (rows.key[:, 1] != EDGE)
    # Of sheets detection finds the sides of a fold.
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
        # The one that is found has the key of that side which it is, or one that none has.
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
    """What was found, and what still presses of the rows before where a thread met an edge of another surface.

    Where edges meet in a vertex a thread slips from one to the other, and steps that know one at a time hop.
    positions: see cornered().  threads: places of surfaces of threads.
    """
    if not threads:
        return found
    before = ContactEnergy(rows, np.zeros(len(rows))).at(positions)
    near = np.linalg.norm(before.way, axis=1) < _ALONG * rows.distance
    mine = np.isin(rows.key[:, 0], sorted(threads)) & (rows.key[:, 1] == EDGE)
    # What lies behind an edge without meeting it is beyond that edge's end, and in nothing.
    ahead = before.gap + rows.out > 0.0
    pressing = np.flatnonzero(near & mine & ahead & (before.gap < 0.0))
    left = pressing[_places(found, rows.key[pressing]) < 0]
    return joined(found, rows.some(left)) if len(left) else found


def _hollow(rows: Rows, found: Rows, before: Pressing, now: Pressing, mine: Index, theirs: Index) -> Mask:
    """Of which both touched places lie in front of the other's plane."""
    between = before.way[mine] - now.way[theirs]
    least = -HOLLOW * rows.distance[mine]
    one = np.einsum("ki,ki->k", rows.normal[mine], between)
    two = np.einsum("ki,ki->k", found.normal[theirs], -between)
    return np.asarray((one >= least) & (two >= least))


def _points(keys: Index) -> Index:
    """The same points' keys as detection gives them."""
    found = keys.copy()
    found[:, 1] = POINT
    return found


def _places(rows: Rows, keys: Index) -> Index:
    """(k,) where the keys are among rows, -1 where they are not."""
    none = np.zeros((len(rows), 3))
    order = np.lexsort(rows.key.T[::-1]) if len(rows) else np.zeros(0, dtype=np.int64)
    spot = ContactMemory.of(rows.key, none, np.ones(len(rows)), none[:, 0]).places(keys)
    return np.where(spot >= 0, order[spot] if len(order) else -1, -1)


def joined(one: Rows, other: Rows) -> Rows:
    """Both."""
    return Rows(
        vstack([one.weights, other.weights]).tocsr(),
        *(
            np.concatenate([getattr(one, name), getattr(other, name)])
            for name in ("base", "normal", "distance", "out", "stiffness", "friction", "begun", "key", "drift")
        ),
    )
