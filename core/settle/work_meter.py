"""Work of a frame, counted in evaluations instead of seconds: every machine then makes the same decisions.

A unit is an evaluation of the potential of a small body with its share of a search. Everything else that takes time is
converted to units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..base.arrays import Array
from ..solvers.objective import Minimum, Tolerance

# Number of nodes that add as much to the time of an evaluation as its fixed part.
_NODES_PER_UNIT = 250.0
# Evaluations that take as long as a contact detection, and as an exact intersection test of two surfaces.
_DETECTION, _EXACT_TEST = 40.0, 15.0
# Evaluations that each search may make, however little is left.
_MIN_EVALUATIONS = 10

Minimise = Callable[[Any, Array, Tolerance], Minimum]
"""Function that minimises an objective from a start (f, 3) m/s."""


@dataclass
class WorkMeter:
    """Meter of the work of one system in one frame.

    node_count: size of the system.
    budget: units that the frame may spend before its steps are only brought to an end; without limit by default.
    steps_per_frame, steps_begun: number of steps of the frame, and of those already begun.
    spent: units so far.
    limit: units at which the current step, or its current part, must end.
    """

    node_count: int = 0
    budget: float = math.inf
    steps_per_frame: int = 1
    steps_begun: int = 0
    spent: float = 0.0
    limit: float = math.inf

    @property
    def is_limited(self) -> bool:
        """True if the frame has a budget."""
        return math.isfinite(self.budget)

    @property
    def is_spent(self) -> bool:
        """True if the current limit is reached."""
        return self.spent >= self.limit

    def begin_step(self, max_work: float = math.inf) -> None:
        """Set the limit of the next step: twice its share of the remaining budget, but not less than half a share.

        max_work: units that a frame of such steps may spend.
        """
        if self.is_limited:
            left, steps_left = max(self.budget - self.spent, 0.0), max(self.steps_per_frame - self.steps_begun, 1)
            least, most = 0.5 * self.budget / self.steps_per_frame, max_work / self.steps_per_frame
            self.limit = self.spent + min(max(min(left, 2.0 * left / steps_left), least), most)
        self.steps_begun += 1

    def charge_evaluations(self, evaluations: float) -> None:
        """Count evaluations of the potential, or of work that takes as long."""
        self.spent += evaluations * self._unit

    def charge_detection(self) -> None:
        """Count a contact detection."""
        self.charge_evaluations(_DETECTION)

    def charge_exact_tests(self, pairs: int) -> None:
        """Count exact intersection tests of pairs of surfaces."""
        self.charge_evaluations(_EXACT_TEST * pairs)

    def metered(self, minimise: Minimise, cost: float) -> Minimise:
        """Return a minimiser within the limit. cost: of an evaluation and its share of a search, in ordinary ones."""

        def bounded(problem: Any, start: Array, tolerance: Tolerance) -> Minimum:
            if self.is_limited:
                left = max(int((self.limit - self.spent) / (cost * self._unit)), _MIN_EVALUATIONS)
                tolerance = replace(tolerance, max_evaluations=left)
            minimum = minimise(problem, start, tolerance)
            self.charge_evaluations(cost * minimum.evaluations)
            return minimum

        return bounded

    @property
    def _unit(self) -> float:
        """Units of an evaluation of this system."""
        return 1.0 + self.node_count / _NODES_PER_UNIT
