"""Contact hysteresis: keep contacts that the nearest-triangle detection would replace by a neighbour.

Detection finds the nearest triangle of each point. In a fold of a sheet, or in a corner, the nearest side alternates,
and solves that use one side at a time never converge. A side that is still pressed is therefore kept beside the nearer
one.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from scipy.sparse import vstack

from ..base.arrays import Array, Index, Mask
from .contact_history import CORNER_KINDS, EDGE, POINT, ContactHistory, key_indices, point_keys
from .penalty_and_friction import ContactForces, ContactPotential, ContactSet

# Normals whose difference is smaller than this belong to the same side.
SAME_NORMAL_TOLERANCE = 0.05
# A side is kept while the point is within this many contact distances of the touched place.
NEAR_FACTOR = 1.3
# The same for a thread that has slid beyond the end of an edge.
_THREAD_NEAR_FACTOR = 5.0
# A point is in a hollow if each side lies in front of the other, up to this fraction of the contact distance.
HOLLOW_TOLERANCE = 0.1


def keep_corner_contacts(
    previous: ContactSet, detected: ContactSet, positions: Array, history: ContactHistory
) -> ContactSet:
    """Return the detected contacts, and those previous self-contacts of points in hollows that are still pressed.

    positions: (n, 3) m of nodes at the step's end, where the contacts were detected.  history: of the last step, as
        given to detection.

    The sides of a point keep their keys between detections. The first one holds all of the point's slip.
    """
    before, now = (ContactPotential(one, np.zeros(len(one))).forces_at(positions) for one in (previous, detected))
    # A point that has slid off the touched place no longer touches its plane.
    is_near = np.linalg.norm(before.offset, axis=1) < NEAR_FACTOR * previous.distance
    # On another surface, a tip in a dent lies between several triangles, and would lose its friction from one to the
    # next.
    is_point = np.isin(previous.key[:, 1], (POINT, *CORNER_KINDS))
    is_self_contact = (previous.key[:, 0] == previous.key[:, 3]) & is_point
    # For sheets, detection itself finds all sides of a fold.
    has_fold_contact = np.isin(previous.key[:, 2], detected.key[np.isin(detected.key[:, 1], CORNER_KINDS), 2])
    closed = np.flatnonzero(is_near & is_self_contact & (before.gap < 0.0) & ~has_fold_contact)
    match = key_indices(detected.key, point_keys(previous.key[closed]))
    closed, match = closed[match >= 0], match[match >= 0]
    if not len(closed):
        return detected
    in_hollow = _is_hollow(previous, detected, before, now, closed, match)
    return _with_kept_sides(previous, detected, history, closed, match, in_hollow)


def keep_alternating_contacts(previous: ContactSet, detected: ContactSet, history: ContactHistory) -> ContactSet:
    """Return the detected contacts, and the previous ones at other sides of the surfaces that the points touch now.

    Without inertia, a point slides from one side of a surface to another one and back in successive solves. Both sides
    together hold it between them.
    """
    is_on_other = (previous.key[:, 0] != previous.key[:, 3]) & (previous.key[:, 1] != EDGE)
    sides = np.flatnonzero(is_on_other)
    match = key_indices(detected.key, point_keys(previous.key[sides]))
    sides, match = sides[match >= 0], match[match >= 0]
    return _with_kept_sides(previous, detected, history, sides, match, np.ones(len(sides), dtype=bool))


def _with_kept_sides(
    previous: ContactSet,
    detected: ContactSet,
    history: ContactHistory,
    previous_sides: Index,
    match: Index,
    may_keep: Mask,
) -> ContactSet:
    """Return the detected contacts, and those previous sides of their points that have another normal.

    previous_sides: (k,) indices of previous contacts.  match: (k,) index of the detected contact of the same point.
    may_keep: (k,) whether to keep it if its normal differs.
    """
    is_other_side = (
        np.linalg.norm(previous.normal[previous_sides] - detected.normal[match], axis=1) > SAME_NORMAL_TOLERANCE
    )
    is_kept = is_other_side & may_keep
    if not is_kept.any():
        return detected
    key, kept_rows = detected.key.copy(), []
    for place in np.unique(match[is_kept]):
        sides = previous_sides[match == place]
        kept_sides = sides[is_kept[match == place]]
        # The detected contact takes over the key of the same side, or else an unused kind.
        same = np.setdiff1d(sides, previous_sides[(match == place) & is_other_side])
        kinds = set(previous.key[kept_sides, 1])
        own = [kind for kind in previous.key[same, 1] if kind not in kinds]
        free = own or [kind for kind in (POINT, *CORNER_KINDS) if kind not in kinds]
        if free:
            key[place, 1] = free[0]
            kept_rows.append(kept_sides)
    if not kept_rows:
        return detected
    begun = detected.stick_anchor + (key[:, 1] != detected.key[:, 1])[:, None] * history.slips_of(detected.key)
    return concatenate_contacts(
        replace(detected, key=key, stick_anchor=begun), previous.select(np.concatenate(kept_rows))
    )


def keep_thread_contacts(
    previous: ContactSet, detected: ContactSet, positions: Array, threads: frozenset[int]
) -> ContactSet:
    """Return the detected contacts, and those previous contacts of threads with edges that are still pressed.

    Where edges meet in a vertex, a thread slips from one to the other, and solves with one edge at a time alternate.
    positions: see keep_corner_contacts().  threads: indices of surfaces that are threads.
    """
    if not threads:
        return detected
    before = ContactPotential(previous, np.zeros(len(previous))).forces_at(positions)
    is_near = np.linalg.norm(before.offset, axis=1) < _THREAD_NEAR_FACTOR * previous.distance
    is_thread_edge = np.isin(previous.key[:, 0], sorted(threads)) & (previous.key[:, 1] == EDGE)
    # A thread behind an edge is beyond that edge's end, and intersects nothing.
    is_in_front = before.gap + previous.target_gap > 0.0
    closed = np.flatnonzero(is_near & is_thread_edge & is_in_front & (before.gap < 0.0))
    missing = closed[key_indices(detected.key, previous.key[closed]) < 0]
    return concatenate_contacts(detected, previous.select(missing)) if len(missing) else detected


def _is_hollow(
    previous: ContactSet,
    detected: ContactSet,
    before: ContactForces,
    now: ContactForces,
    previous_index: Index,
    detected_index: Index,
) -> Mask:
    """Return whether both touched places lie in front of each other's planes, (k,)."""
    between = before.offset[previous_index] - now.offset[detected_index]
    min_height = -HOLLOW_TOLERANCE * previous.distance[previous_index]
    first_height = np.einsum("ki,ki->k", previous.normal[previous_index], between)
    second_height = np.einsum("ki,ki->k", detected.normal[detected_index], -between)
    return np.asarray((first_height >= min_height) & (second_height >= min_height))


def concatenate_contacts(first: ContactSet, second: ContactSet) -> ContactSet:
    """Return the contacts of both sets."""
    names = [one.name for one in fields(ContactSet) if one.name != "weights"]
    rest = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in names}
    return ContactSet(weights=vstack([first.weights, second.weights]).tocsr(), **rest)
