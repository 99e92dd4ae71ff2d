"""Refresh of the preconditioner in a long search: rotate it with its nodes, or factorise it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..arrays import Array
from ..solvers.factor import Solve
from .touching import Metric
from .turns import Turns

# Iterations after which it is rotated or refactorised. A factorisation costs as much as a few dozen iterations.
_TURNED, _ANEW = (4, 8, 16, 32, 64), (12, 36, 108)


@dataclass
class Renewing:
    """Refresh schedule for the preconditioner of one search. With contacts, ActiveContacts refreshes it instead.

    region_rotations: (f, 3, 3), of whole regions.
    has_contracted_fibres: whether fibres have pulled the flesh far from its rest shape, see
        system.fibres.has_active_fibres().
    """

    turns: Turns
    regions: Array
    metric: Metric
    drawn: bool
    _accepted: int = 0

    def again(self, v: Array, positions: Callable[[Array], Array], factorised: Callable[[Array], Solve]) -> bool:
        """Refresh the preconditioner after an iteration if it is due; return whether it changed.

        v: (f, 3) m/s, the current velocities of the search.  positions: returns (n, 3) m for v.
        factorise_at: returns a solve with the positive Hessian at v.
        """
        self._accepted += 1
        own = self.turns.own
        # Unpinned regions are excluded: a preconditioner that rotates as a whole conserves their momenta.
        if self.drawn and own.all() and self._accepted >= _ANEW[0]:
            if self._accepted in _ANEW:
                self.metric.renew(factorised(v))
            return self._accepted in _ANEW
        if self._accepted not in _TURNED or not own.any():
            return False
        self.metric.turn(self.turns.at(positions(v), self.regions))
        return True
