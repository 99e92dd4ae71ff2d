"""Contacts that are looked for again where a step has come out, beside those that it was minimised with."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..contact.hardening import SEEN
from ..contact.memory import ContactMemory
from ..contact.rows import ContactEnergy, Rows

# Contact distances by which a contact may be missed, or be another one there than it was taken for.
_MISSED, _OTHER = 0.1, 0.3
# The part of all that presses by which a contact may push another way than it was taken for.
_TURNED = 0.01


def same(rows: Rows, found: Rows, x: Array) -> bool:
    """Whether what was found where the step ends is what it was minimised with."""
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
    # By another normal it is pushed another way, and so to and fro from step to step.
    turned = np.linalg.norm(rows.normal[order][spot[there]] - found.normal[there], axis=1)
    pushed = np.maximum(before.force[order][spot[there]], now.force[there])
    if other.any() or (turned * pushed).max(initial=0.0) > _TURNED * now.force.sum():
        return False
    gone = np.ones(len(rows), dtype=bool)
    gone[order[spot[there]]] = False
    return not (before.gap[gone] < -_MISSED * rows.distance[gone]).any()


def deeper(rows: Rows, x: Array, memory: ContactMemory) -> Array:
    """(k,) m, how much deeper inside things are at x than they were when the step began; negative in front."""
    behind = -ContactEnergy(rows, np.zeros(len(rows))).at(x).gap - rows.out
    return np.asarray(behind - memory.depth(rows.key))


def gone_through(found: Rows, x: Array, memory: ContactMemory) -> bool:
    """Whether something is where it can be seen, deeper inside than it was when the step began."""
    return bool((deeper(found, x, memory) > SEEN * found.distance).any())


def carried(rows: Rows, found: Rows, x: Array) -> Array:
    """(k,) N that contacts pressed with when they were last minimised; new ones with what they do now."""
    now = ContactEnergy(found, np.zeros(len(found))).at(x).force
    old = ContactEnergy(rows, np.zeros(len(rows))).at(x).force
    memory = ContactMemory.of(rows.key, rows.begun, old, rows.distance)
    before = memory.pressed(found.key)
    return np.where(before > 0.0, before, now)
