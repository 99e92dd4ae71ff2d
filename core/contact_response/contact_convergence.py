"""Convergence of the contact set: compare contacts detected at the end of a step with those it was solved with."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from ..contact.contact_history import ContactHistory
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..contact.penalty_scaling import TOLERATED_DEPTH

# Gap tolerances for a missing contact and for a changed one, in contact distances.
_MISSING_GAP, _CHANGED_GAP = 0.1, 0.3
# Tolerated force of contacts with a changed normal, as a fraction of the total normal force.
_TURNED_FORCE_FRACTION = 0.01


def is_contact_set_unchanged(contacts: ContactSet, new_contacts: ContactSet, x: Array) -> bool:
    """Return whether the contacts detected at the end of the step agree with those of its minimisation."""
    before, now = (ContactPotential(one, np.zeros(len(one))).forces_at(x) for one in (contacts, new_contacts))
    sorted_keys = ContactHistory.of(contacts.key, contacts.stick_anchor, np.ones(len(contacts)), contacts.distance)
    matches = sorted_keys.indices_of(new_contacts.key)
    order = np.lexsort(contacts.key.T[::-1]) if len(contacts) else np.zeros(0, dtype=np.int64)
    is_missing = matches < 0
    if (now.gap[is_missing] < -_MISSING_GAP * new_contacts.distance[is_missing]).any():
        return False
    is_matched = ~is_missing
    old_gap, new_gap = before.gap[order][matches[is_matched]], now.gap[is_matched]
    has_changed = (
        np.abs(np.minimum(old_gap, 0.0) - np.minimum(new_gap, 0.0)) > _CHANGED_GAP * new_contacts.distance[is_matched]
    )
    # A changed normal turns the force, which would then alternate from step to step.
    normal_change = np.linalg.norm(
        contacts.normal[order][matches[is_matched]] - new_contacts.normal[is_matched], axis=1
    )
    force = np.maximum(before.force[order][matches[is_matched]], now.force[is_matched])
    if has_changed.any() or (normal_change * force).max(initial=0.0) > _TURNED_FORCE_FRACTION * now.force.sum():
        return False
    is_gone = np.ones(len(contacts), dtype=bool)
    is_gone[order[matches[is_matched]]] = False
    return not (before.gap[is_gone] < -_MISSING_GAP * contacts.distance[is_gone]).any()


def penetration_increase(contacts: ContactSet, x: Array, history: ContactHistory) -> Array:
    """Return the increase of penetration depth at x since the start of the step, (k,) m; negative outside."""
    depth = -ContactPotential(contacts, np.zeros(len(contacts))).forces_at(x).gap - contacts.target_gap
    return np.asarray(depth - history.depths_of(contacts.key))


def has_tunnelled(contacts: ContactSet, x: Array, history: ContactHistory) -> bool:
    """Return whether a contact has tunnelled: it penetrates visibly and deeper than at the start of the step."""
    return bool((penetration_increase(contacts, x, history) > TOLERATED_DEPTH * contacts.distance).any())


def warm_start_normal_forces(contacts: ContactSet, new_contacts: ContactSet, x: Array) -> Array:
    """Return warm-start normal forces for new contacts, (k,) N.

    Known contacts keep the normal force of the last minimisation. New ones get the force at their current gap.
    """
    current_force = ContactPotential(new_contacts, np.zeros(len(new_contacts))).forces_at(x).force
    last_force = ContactPotential(contacts, np.zeros(len(contacts))).forces_at(x).force
    history = ContactHistory.of(contacts.key, contacts.stick_anchor, last_force, contacts.distance)
    matched_force = history.forces_of(new_contacts.key)
    return np.where(matched_force > 0.0, matched_force, current_force)
