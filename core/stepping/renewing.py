"""When the metric of a long search is made another one: turned as its nodes are by then, or factorised anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..arrays import Array
from ..solvers.factor import Solve
from .touching import Metric
from .turns import Turns

# After so many iterations it is turned; after so many it is factorised anew, which takes as long as a few dozen.
_TURNED, _ANEW = (4, 8, 16, 32, 64), (12, 36, 108)


@dataclass
class Renewing:
    """Of one search. Where something touches, the contacts see to it instead.

    regions: (f, 3, 3), how whole regions are turned.
    drawn: whether fibres have drawn flesh to what is nothing like it at rest, see system.fibres.draws().
    """

    turns: Turns
    regions: Array
    metric: Metric
    drawn: bool
    _accepted: int = 0

    def again(self, v: Array, positions: Callable[[Array], Array], factorised: Callable[[Array], Solve]) -> bool:
        """After an iteration; whether the metric is another one since.

        v: (f, 3) m/s that the search has come to.  positions: (n, 3) m there.  factorised: a solve with the positive
        Hessian there.
        """
        self._accepted += 1
        own = self.turns.own
        # What flies keeps its momenta by a metric of what turns as a whole.
        if self.drawn and own.all() and self._accepted >= _ANEW[0]:
            if self._accepted in _ANEW:
                self.metric.renew(factorised(v))
            return self._accepted in _ANEW
        if self._accepted not in _TURNED or not own.any():
            return False
        self.metric.turn(self.turns.at(positions(v), self.regions))
        return True
