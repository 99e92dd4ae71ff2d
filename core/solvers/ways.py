"""When a search is near enough to its end: by how far the nodes have to go, as one sees it (docs/physics.md, 1.6)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..arrays import Array
from .problem import Problem

# Of the tolerance, what one step may leave: what steps leave adds up.
_PART = 0.5
# What goes on as it went needs no change of its velocities: of such a motion the tolerance is this part as large.
_STEADY = 0.1
# The largest ratio of two steps one after the other that is believed: beyond it a search says nothing of its end.
_SLOWEST = 0.9
# Steps that have to be known before the end of the next one is foreseen, and how far it may be off: the first two
# ratios of a search differ by up to a hundred, later ones by a third.
_KNOWN, _CARE = 3, 1.5


class Ways:
    """How far the nodes still have to go, by the longest of their ways, from the lengths |d| of a search's steps.

    Steps that shrink by a ratio r leave |d|/(1 - r) where the next one is d. Where a search is slow its steps are
    uneven, short in directions in which more is left: so the ratio is the largest of the last two and their mean over
    the whole search, and |d|/(1 - r)^2 is taken for what is left.

    A slender body hardly moves by what is wrong of its stretch; but the force of it, remembered, bends it in the next
    step, by as much more as it is stiffer along than across. How much stiffer than its first mode what is left is,
    says the step: its part of the motion by energy, over its part by ways. So the first, times that, has to be as small
    (docs/decisions/0025).
    """

    def __init__(self, problem: Problem, start: Array, relative: float) -> None:
        """start: (f, 3) m/s, where the search begins.  relative: see Tolerance.

        begun: m/s, the way there; infinite where it is not known.
        """
        self._problem, self._start, self._relative = problem, start, relative
        self._steps: list[float] = []
        self._enough, self._force = 0.0, np.inf
        self.begun = problem.way(start)

    def near(self, v: Array, direction: Array, error: float) -> bool:
        """Whether v (f, 3) is near enough. To be asked at each iteration.

        direction: (f, 3) m/s, where it leads on.  error: of v by energy, see Tolerance.
        """
        self._steps.append(longest(direction))
        turn = longest(v - self._start)
        # No way is longer than that of the start and the turn together. Most iterations need not look at it.
        bound = _PART * self._relative * max(turn, _STEADY * (self.begun + turn))
        if min(1.0, _CARE * self._ratio) * self._left > bound:
            self._enough = 0.0
            return False
        way = self._problem.way(v)
        self._enough = _PART * self._relative * max(turn, _STEADY * way)
        most = max(turn, way)
        if self._steps[-1] > 0.0 and most > 0.0:
            # The motion is that of the way: as much larger where the turn is.
            part = error * way / (self._problem.motion(v) * most) if way > 0.0 else np.inf
            self._force = part * max(1.0, part * most / self._steps[-1])
        return self._left <= self._enough and self._force <= self._relative

    @property
    def last(self) -> bool:
        """Whether what the next step leads to is near enough, if it is taken as a whole."""
        ratio = _CARE * self._ratio
        known = len(self._steps) >= _KNOWN and self._enough > 0.0
        return known and ratio * self._left <= self._enough and ratio * self._force <= self._relative

    @property
    def _ratio(self) -> float:
        known = self._steps[-_KNOWN:]
        ratios = [after / before for before, after in pairwise(known) if before > 0.0]
        # The first step is the longest by far, and tells of the start.
        if len(self._steps) > _KNOWN and self._steps[1] > 0.0:
            ratios.append((self._steps[-1] / self._steps[1]) ** (1.0 / (len(self._steps) - 2)))
        return min(max(ratios), _SLOWEST) if ratios else 1.0

    @property
    def _left(self) -> float:
        ratio = self._ratio
        return self._steps[-1] / (1.0 - ratio) ** 2 if ratio < 1.0 else np.inf


def longest(ways: Array) -> float:
    """The length of the longest of vectors (f, 3)."""
    return float(np.sqrt(np.einsum("fi,fi->f", ways, ways).max(initial=0.0)))
