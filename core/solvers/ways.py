"""Convergence criterion by visible node displacements (docs/physics.md, 1.6)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..arrays import Array
from .problem import Problem

# Fraction of the tolerance that one step may use, because errors of steps add up.
_PART = 0.5
# A steady motion needs no change of its velocities; its tolerance is this fraction of the usual one.
_STEADY = 0.1
# Largest ratio of successive steps that still predicts the remaining distance.
_SLOWEST = 0.9
# Number of known steps needed to predict the next one, and the margin of the predicted ratio: the first two ratios
# differ by up to a factor of 100, later ones by a third.
_KNOWN, _CARE = 3, 1.5


class Ways:
    """Convergence by the largest remaining node displacement, estimated from the lengths |d| of a search's steps.

    If steps shrink by a ratio r, |d|/(1 - r) remains when the next step is d. Slow searches have uneven steps, short in
    directions where more remains. The ratio is therefore the largest of the last two ratios and the mean one of the
    search, and |d|/(1 - r)^2 is used as the remaining distance.

    The stretch error of a slender body causes little displacement. But its force enters the history and bends the body
    in the next step, more strongly by the ratio of axial to bending stiffness. The step estimates that ratio: the error
    relative to the motion by energy, over the same by displacement. The error by energy times this ratio has to meet
    the tolerance, too (docs/decisions/0025).
    """

    def __init__(self, problem: Problem, start: Array, relative: float) -> None:
        """Start the criterion of a search.

        start: (f, 3) m/s, start of the search.  relative: see Tolerance.
        start_displacement: m/s, the objective's max_displacement() at the start; infinite if unknown.
        """
        self._problem, self._start, self._relative = problem, start, relative
        self._steps: list[float] = []
        self._enough, self._force = 0.0, np.inf
        self.begun = problem.way(start)

    def near(self, v: Array, direction: Array, error: float) -> bool:
        """Return whether v (f, 3) has converged. Call it in each iteration.

        direction: (f, 3) m/s, the next step.  error: energy error estimate of v, see Tolerance.
        """
        self._steps.append(longest(direction))
        turn = longest(v - self._start)
        # Displacements are bounded by those of the start and the change together, so most iterations skip the exact
        # ones.
        bound = _PART * self._relative * max(turn, _STEADY * (self.begun + turn))
        if min(1.0, _CARE * self._ratio) * self._left > bound:
            self._enough = 0.0
            return False
        way = self._problem.way(v)
        self._enough = _PART * self._relative * max(turn, _STEADY * way)
        most = max(turn, way)
        if self._steps[-1] > 0.0 and most > 0.0:
            # The motion norm belongs to the displacement; scale it up if the change is larger.
            part = error * way / (self._problem.motion(v) * most) if way > 0.0 else np.inf
            self._force = part * max(1.0, part * most / self._steps[-1])
        return self._left <= self._enough and self._force <= self._relative

    @property
    def last(self) -> bool:
        """Return whether the point after the next full step is predicted to be converged."""
        ratio = _CARE * self._ratio
        known = len(self._steps) >= _KNOWN and self._enough > 0.0
        return known and ratio * self._left <= self._enough and ratio * self._force <= self._relative

    @property
    def _ratio(self) -> float:
        """Estimated ratio of successive steps."""
        known = self._steps[-_KNOWN:]
        ratios = [after / before for before, after in pairwise(known) if before > 0.0]
        # The first step depends on the start and is by far the longest; it is left out.
        if len(self._steps) > _KNOWN and self._steps[1] > 0.0:
            ratios.append((self._steps[-1] / self._steps[1]) ** (1.0 / (len(self._steps) - 2)))
        return min(max(ratios), _SLOWEST) if ratios else 1.0

    @property
    def _left(self) -> float:
        """Estimated remaining displacement, m/s."""
        ratio = self._ratio
        return self._steps[-1] / (1.0 - ratio) ** 2 if ratio < 1.0 else np.inf


def longest(ways: Array) -> float:
    """Return the largest norm of vectors (f, 3)."""
    return float(np.sqrt(np.einsum("fi,fi->f", ways, ways).max(initial=0.0)))
