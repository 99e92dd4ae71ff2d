"""Adaptive penalty stiffness: raise the stiffness of contacts that are pressed deep enough to be visible."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index
from .contact_history import ContactHistory
from .penalty_and_friction import ContactPotential, ContactSet

# Tolerated depth in contact distances, and the stiffness factor for contacts that are deeper.
TOLERATED_DEPTH, _STIFFNESS_FACTOR = 0.2, 8.0
# Largest number of raises of a contact per step.
_MAX_RAISES = 2
# Contacts with a smaller weight of free nodes are held by pins; no stiffness moves them out.
_MIN_FREE_WEIGHT = 0.5


class PenaltyScaling:
    """Stiffness factors of contacts within one step."""

    def __init__(self) -> None:
        self._keys: Index = np.zeros((0, 4), dtype=np.int64)
        self._factors: Array = np.zeros(0)

    def __call__(self, contacts: ContactSet) -> ContactSet:
        """Return the contacts with their current stiffness."""
        return contacts.with_scaled_stiffness(self._factors_of(contacts.key)) if len(self._keys) else contacts

    def raise_stiffness(self, contacts: ContactSet, positions: Array, start_depth: Array) -> bool:
        """Raise the stiffness of contacts that are too deep at positions (n, 3) m; return whether any was raised.

        start_depth: (k,) m, depth of each contact at the step's start.
        """
        depth = -ContactPotential(contacts, np.zeros(len(contacts))).forces_at(positions).gap - contacts.target_gap
        # Points that started behind are moved out gradually and may stay deep for a while. But those pressed in earlier
        # must not go deeper, or they would pass through little by little.
        may_be_raised = (contacts.target_gap > 0.0) | ((start_depth > 0.0) & (depth > start_depth))
        too_deep = (
            (depth > TOLERATED_DEPTH * contacts.distance) & may_be_raised & (_free_weight(contacts) > _MIN_FREE_WEIGHT)
        )
        current = self._factors_of(contacts.key)
        too_deep &= current < _STIFFNESS_FACTOR**_MAX_RAISES
        if not too_deep.any():
            return False
        raised = ContactHistory.of(
            contacts.key[too_deep], np.zeros((int(too_deep.sum()), 3)), np.ones(int(too_deep.sum())), current[too_deep]
        )
        unchanged = raised.indices_of(self._keys) < 0
        self._keys = np.concatenate([self._keys[unchanged], raised.keys])
        self._factors = np.concatenate([self._factors[unchanged], _STIFFNESS_FACTOR * raised.depths])
        return True

    def _factors_of(self, keys: Index) -> Array:
        """Return the stiffness factors (k,) of contacts with keys (k, 4)."""
        if not len(self._keys):
            return np.ones(len(keys))
        history = ContactHistory.of(self._keys, np.zeros((len(self._keys), 3)), np.ones(len(self._keys)), self._factors)
        indices = history.indices_of(keys)
        return np.where(indices >= 0, history.depths[indices], 1.0)


def _free_weight(contacts: ContactSet) -> Array:
    """Return the weight (k,) of each contact that nodes move; for two bodies the larger one."""
    return np.maximum(contacts.side_weights(1.0), contacts.side_weights(-1.0))
