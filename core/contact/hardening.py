"""Adaptive penalty stiffness: raise the stiffness of contacts that are pressed deep enough to be visible."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from .memory import ContactMemory
from .rows import ContactEnergy, Rows

# Tolerated depth in contact distances, and the stiffness factor for contacts that are deeper.
SEEN, _HARDER = 0.2, 8.0
# Largest number of raises of a contact per step.
_TIMES = 2
# Contacts with a smaller weight of free nodes are held by pins; no stiffness moves them out.
_GIVES = 0.5


class Hardening:
    """Stiffness factors of contacts within one step."""

    def __init__(self) -> None:
        self._keys: Index = np.zeros((0, 4), dtype=np.int64)
        self._factors: Array = np.zeros(0)

    def __call__(self, rows: Rows) -> Rows:
        """Return the contacts with their current stiffness."""
        return rows.scaled(self._now(rows.key)) if len(self._keys) else rows

    def more(self, rows: Rows, positions: Array, began: Array) -> bool:
        """Raise the stiffness of contacts that are too deep at positions (n, 3) m; return whether any was raised.

        start_depth: (k,) m, depth of each contact at the step's start.
        """
        behind = -ContactEnergy(rows, np.zeros(len(rows))).at(positions).gap - rows.out
        # Points that started behind are moved out gradually and may stay deep for a while. But those pressed in earlier
        # must not go deeper, or they would pass through little by little.
        deeper = (rows.out > 0.0) | ((began > 0.0) & (behind > began))
        deep = (behind > SEEN * rows.distance) & deeper & (_free(rows) > _GIVES)
        now = self._now(rows.key)
        deep &= now < _HARDER**_TIMES
        if not deep.any():
            return False
        old = ContactMemory.of(rows.key[deep], np.zeros((int(deep.sum()), 3)), np.ones(int(deep.sum())), now[deep])
        others = old.places(self._keys) < 0
        self._keys = np.concatenate([self._keys[others], old.keys])
        self._factors = np.concatenate([self._factors[others], _HARDER * old.depths])
        return True

    def _now(self, keys: Index) -> Array:
        """Return the stiffness factors (k,) of contacts with keys (k, 4)."""
        if not len(self._keys):
            return np.ones(len(keys))
        known = ContactMemory.of(self._keys, np.zeros((len(self._keys), 3)), np.ones(len(self._keys)), self._factors)
        place = known.places(keys)
        return np.where(place >= 0, known.depths[place], 1.0)


def _free(rows: Rows) -> Array:
    """Return the weight (k,) of each contact that nodes move; for two bodies the larger one."""
    return np.maximum(rows.side(1.0), rows.side(-1.0))
