"""Contacts that are pressed through all of their distance are made harder, until nothing of it can be seen."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from .memory import ContactMemory
from .rows import ContactEnergy, Rows

# Contact distances behind the surface that may be seen, and how much harder a contact is made beyond.
SEEN, _HARDER = 0.2, 8.0
# A contact is made harder at most so often in a step.
_TIMES = 2
# What pins hold by more than the rest of this does not come out however hard it is pressed.
_GIVES = 0.5


class Hardening:
    """Of one step."""

    def __init__(self) -> None:
        self._keys: Index = np.zeros((0, 4), dtype=np.int64)
        self._factors: Array = np.zeros(0)

    def __call__(self, rows: Rows) -> Rows:
        """Rows as hard as they have become."""
        return rows.scaled(self._now(rows.key)) if len(self._keys) else rows

    def more(self, rows: Rows, positions: Array, began: Array) -> bool:
        """Whether something has to be harder at positions (n, 3) m than it was.

        began: (k,) m, how far behind each one was when the step began.
        """
        behind = -ContactEnergy(rows, np.zeros(len(rows))).at(positions).gap - rows.out
        # What began behind, and is eased out, is there for a while. But what was pressed in before goes no deeper, or
        # it would go through by a little in each step.
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
        """(k,) how much harder contacts (k, 4) are."""
        if not len(self._keys):
            return np.ones(len(keys))
        known = ContactMemory.of(self._keys, np.zeros((len(self._keys), 3)), np.ones(len(self._keys)), self._factors)
        place = known.places(keys)
        return np.where(place >= 0, known.depths[place], 1.0)


def _free(rows: Rows) -> Array:
    """(k,) the part of each contact's points that nodes move; of two bodies', the freer one's."""
    return np.maximum(rows.side(1.0), rows.side(-1.0))
