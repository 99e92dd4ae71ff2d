"""Convergence of the contact set: compare contacts detected at the end of a step with those it was solved with."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..contact.hardening import SEEN
from ..contact.memory import ContactMemory
from ..contact.rows import ContactEnergy, Rows

# Gap tolerances for a missing contact and for a changed one, in contact distances.
_MISSED, _OTHER = 0.1, 0.3
# Tolerated force of contacts with a changed normal, as a fraction of the total normal force.
_TURNED = 0.01


def same(rows: Rows, found: Rows, x: Array) -> bool:
    """Return whether the contacts detected at the end of the step agree with those of its minimisation."""
    before, now = (ContactEnergy(one, np.zeros(len(one))).at(x) for one in (rows, found))
    place = ContactMemory.of(rows.key, rows.begun, np.ones(len(rows)), rows.distance)
    spot = place.places(found.key)
    order = np.lexsort(rows.key.T[::-1]) if len(rows) else np.zeros(0, dtype=np.int64)
    missing = spot < 0
    if (now.gap[missing] < -_MISSED * found.distance[missing]).any():
        return False
    there = ~missing
    was, here = before.gap[order][spot[there]], now.gap[there]
    other = np.abs(np.minimum(was, 0.0) - np.minimum(here, 0.0)) > _OTHER * found.distance[there]
    # A changed normal turns the force, which would then alternate from step to step.
    turned = np.linalg.norm(rows.normal[order][spot[there]] - found.normal[there], axis=1)
    pushed = np.maximum(before.force[order][spot[there]], now.force[there])
    if other.any() or (turned * pushed).max(initial=0.0) > _TURNED * now.force.sum():
        return False
    gone = np.ones(len(rows), dtype=bool)
    gone[order[spot[there]]] = False
    return not (before.gap[gone] < -_MISSED * rows.distance[gone]).any()


def deeper(rows: Rows, x: Array, memory: ContactMemory) -> Array:
    """Return the increase of penetration depth at x since the start of the step, (k,) m; negative outside."""
    behind = -ContactEnergy(rows, np.zeros(len(rows))).at(x).gap - rows.out
    return np.asarray(behind - memory.depth(rows.key))


def gone_through(found: Rows, x: Array, memory: ContactMemory) -> bool:
    """Return whether a contact has tunnelled: it penetrates visibly and deeper than at the start of the step."""
    return bool((deeper(found, x, memory) > SEEN * found.distance).any())


def carried(rows: Rows, found: Rows, x: Array) -> Array:
    """Return warm-start normal forces for new contacts, (k,) N.

    Known contacts keep the normal force of the last minimisation. New ones get the force at their current gap.
    """
    now = ContactEnergy(found, np.zeros(len(found))).at(x).force
    old = ContactEnergy(rows, np.zeros(len(rows))).at(x).force
    memory = ContactMemory.of(rows.key, rows.begun, old, rows.distance)
    before = memory.pressed(found.key)
    return np.where(before > 0.0, before, now)
