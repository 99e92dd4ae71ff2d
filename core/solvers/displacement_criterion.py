"""Convergence criterion by visible node displacements (physics (1.6))."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..base.arrays import Array
from .objective import PreconditionedObjective

# Fraction of the tolerance that one step may use, because errors of steps add up.
_STEP_FRACTION = 0.5
# A steady motion needs no change of its velocities; its tolerance is this fraction of the usual one.
_STEADY_FRACTION = 0.1
# Largest ratio of successive steps that still predicts the remaining distance.
_MAX_RATIO = 0.9
# Number of known steps needed to predict the next one, and the margin of the predicted ratio: the first two ratios
# differ by up to a factor of 100, later ones by a third.
_KNOWN_STEPS, _RATIO_MARGIN = 3, 1.5


class DisplacementCriterion:
    """Convergence by the largest remaining node displacement, estimated from the lengths |d| of a search's steps.

    If steps shrink by a ratio r, |d|/(1 - r) remains when the next step is d. Slow searches have uneven steps, short in
    directions where more remains. The ratio is therefore the largest of the last two ratios and the mean one of the
    search, and |d|/(1 - r)^2 is used as the remaining distance.

    The stretch error of a slender body causes little displacement. But its force enters the history and bends the body
    in the next step, more strongly by the ratio of axial to bending stiffness. The step estimates that ratio: the error
    relative to the motion by energy, over the same by displacement. The error by energy times this ratio has to meet
    the tolerance, too (docs/decisions/0025).
    """

    def __init__(self, objective: PreconditionedObjective, start: Array, relative: float) -> None:
        """Start the criterion of a search.

        start: (f, 3) m/s, start of the search.  relative: see Tolerance.
        The attribute start_displacement (m/s) is the objective's max_displacement() at the start; infinite if unknown.
        """
        self._objective, self._start, self._relative = objective, start, relative
        self._steps: list[float] = []
        self._bound, self._force_error = 0.0, np.inf
        self.start_displacement = objective.max_displacement(start)

    def is_converged(self, v: Array, direction: Array, error: float) -> bool:
        """Return whether v (f, 3) has converged. Call it in each iteration.

        direction: (f, 3) m/s, the next step.  error: energy error estimate of v, see Tolerance.
        """
        self._steps.append(max_norm(direction))
        change = max_norm(v - self._start)
        # Displacements are bounded by those of the start and the change together, so most iterations skip the exact
        # ones.
        bound = _STEP_FRACTION * self._relative * max(change, _STEADY_FRACTION * (self.start_displacement + change))
        if min(1.0, _RATIO_MARGIN * self._step_ratio) * self._remaining > bound:
            self._bound = 0.0
            return False
        displacement = self._objective.max_displacement(v)
        self._bound = _STEP_FRACTION * self._relative * max(change, _STEADY_FRACTION * displacement)
        largest = max(change, displacement)
        if self._steps[-1] > 0.0 and largest > 0.0:
            # The motion norm belongs to the displacement; scale it up if the change is larger.
            error_fraction = (
                error * displacement / (self._objective.motion_norm(v) * largest) if displacement > 0.0 else np.inf
            )
            self._force_error = error_fraction * max(1.0, error_fraction * largest / self._steps[-1])
        return self._remaining <= self._bound and self._force_error <= self._relative

    @property
    def next_step_converges(self) -> bool:
        """Return whether the point after the next full step is predicted to be converged."""
        ratio = _RATIO_MARGIN * self._step_ratio
        known = len(self._steps) >= _KNOWN_STEPS and self._bound > 0.0
        return known and ratio * self._remaining <= self._bound and ratio * self._force_error <= self._relative

    @property
    def _step_ratio(self) -> float:
        """Estimated ratio of successive steps."""
        recent = self._steps[-_KNOWN_STEPS:]
        ratios = [after / before for before, after in pairwise(recent) if before > 0.0]
        # The first step depends on the start and is by far the longest; it is left out.
        if len(self._steps) > _KNOWN_STEPS and self._steps[1] > 0.0:
            ratios.append((self._steps[-1] / self._steps[1]) ** (1.0 / (len(self._steps) - 2)))
        return min(max(ratios), _MAX_RATIO) if ratios else 1.0

    @property
    def _remaining(self) -> float:
        """Estimated remaining displacement, m/s."""
        ratio = self._step_ratio
        return self._steps[-1] / (1.0 - ratio) ** 2 if ratio < 1.0 else np.inf


def max_norm(vectors: Array) -> float:
    """Return the largest norm of vectors (f, 3)."""
    return float(np.sqrt(np.einsum("fi,fi->f", vectors, vectors).max(initial=0.0)))


def limited(vectors: Array, longest: float) -> Array:
    """Return vectors (f, 3), all reduced by the factor with which none is longer than a limit."""
    return vectors * min(longest / max(max_norm(vectors), 1e-300), 1.0)
