"""Work of a frame, counted in evaluations instead of seconds: every machine then makes the same decisions.

A unit is an evaluation of the potential of a small body with its share of a search. Everything else that takes time is
converted to units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.arrays import Array
from ..solvers.objective import Minimum, Tolerance

# Number of nodes that add as much to the time of an evaluation, or of a test, as its fixed part.
_NODES_PER_UNIT = 250.0
# Evaluations that take as long as a contact detection, and as an exact intersection test of two surfaces.
_DETECTION, _EXACT_TEST = 40.0, 15.0
# Work of an evaluation with its share of Newton's method, direct or by conjugate gradients, relative to L-BFGS.
_NEWTON_COST, _INEXACT_NEWTON_COST = 8.0, 3.0
# The same for solids, measured in frames in which plates crush them.
_SOLID_NODES_PER_UNIT, _SOLID_NODES_PER_TEST = 100.0, 3000.0
_SOLID_DETECTION, _SOLID_EXACT_TEST, _SOLID_NEWTON_COST = 8.0, 7.0, 4.0
# The same for woven cloth, measured under a hammer. Its factorisations take almost all of the time.
_WOVEN_NODES_PER_UNIT, _WOVEN_DETECTION, _WOVEN_EXACT_TEST, _WOVEN_NEWTON_COST = 10.0, 4.0, 4.0, 0.3
# The same for ropes and nets, measured under a hammer. Their compiled Newton iterations take a tenth of a millisecond.
_NET_NODES_PER_UNIT, _NET_DETECTION, _NET_EXACT_TEST, _NET_NEWTON_COST = 100.0, 4.0, 2.0, 0.15
# Nodes of woven cloth that add as much to the work of an evaluation, or of a test, as its fixed part, where nothing
# crushes it. With 250 as for other kinds, hardly a step of 2,000 crossings on a moving body converges, and its rough
# end takes as long (decision 0117).
_CALM_WOVEN_NODES_PER_UNIT = 10000.0
# Evaluations that each search may make, however little is left, and the same of woven cloth: an iteration of Newton's
# method does as much as several of L-BFGS.
_MIN_EVALUATIONS, _MIN_WOVEN_EVALUATIONS = 10, 4

Minimise = Callable[[Any, Array, Tolerance], Minimum]
"""Function that minimises an objective from a start (f, 3) m/s."""


@dataclass(frozen=True)
class WorkCosts:
    """Costs in units: evaluations of the potential of a small body, with their share of a search by L-BFGS.

    nodes_per_unit, nodes_per_test: number of nodes that add as much to an evaluation, and to a test, as its fixed part.
    detection, exact_test: of a contact detection, and of an exact intersection test of two surfaces.
    searched_pair: of each pair with contacts in a search for intersections.
    newton, inexact_newton: of an evaluation in a search by Newton's method, direct or by conjugate gradients.
    min_evaluations: evaluations that each search may make, however little is left.
    """

    nodes_per_unit: float = _NODES_PER_UNIT
    nodes_per_test: float = _NODES_PER_UNIT
    detection: float = _DETECTION
    exact_test: float = _EXACT_TEST
    searched_pair: float = 0.0
    newton: float = _NEWTON_COST
    inexact_newton: float = _INEXACT_NEWTON_COST
    min_evaluations: int = _MIN_EVALUATIONS

    @staticmethod
    def of_crushed_solids() -> WorkCosts:
        """Return the costs of solids that animated points crush."""
        return WorkCosts(
            nodes_per_unit=_SOLID_NODES_PER_UNIT,
            nodes_per_test=_SOLID_NODES_PER_TEST,
            detection=_SOLID_DETECTION,
            exact_test=_SOLID_EXACT_TEST,
            searched_pair=_SOLID_EXACT_TEST,
            newton=_SOLID_NEWTON_COST,
        )

    @staticmethod
    def of_nets() -> WorkCosts:
        """Return the costs of ropes and nets."""
        return WorkCosts(
            nodes_per_unit=_NET_NODES_PER_UNIT,
            detection=_NET_DETECTION,
            exact_test=_NET_EXACT_TEST,
            newton=_NET_NEWTON_COST,
        )

    @staticmethod
    def of_crushed_woven_cloth() -> WorkCosts:
        """Return the costs of woven cloth that animated points crush."""
        return WorkCosts(
            nodes_per_unit=_WOVEN_NODES_PER_UNIT,
            detection=_WOVEN_DETECTION,
            exact_test=_WOVEN_EXACT_TEST,
            newton=_WOVEN_NEWTON_COST,
            min_evaluations=_MIN_WOVEN_EVALUATIONS,
        )

    @staticmethod
    def of_calm_woven_cloth() -> WorkCosts:
        """Return the costs of woven cloth that nothing crushes."""
        return WorkCosts(
            nodes_per_unit=_CALM_WOVEN_NODES_PER_UNIT,
            nodes_per_test=_CALM_WOVEN_NODES_PER_UNIT,
            detection=_WOVEN_DETECTION,
            exact_test=_WOVEN_EXACT_TEST,
        )


@dataclass
class WorkMeter:
    """Meter of the work of one system in one frame.

    node_count: size of the system.
    budget: units that the frame may spend before its steps are only brought to an end; without limit by default.
    steps_per_frame, steps_begun: number of steps of the frame, and of those already begun.
    spent: units so far.
    limit: units at which the current step, or its current part, must end.
    costs: in the current step.
    factors: that steppers share between the steps of the frame, by stepper. A frame begins without them, so
        that it does not depend on the frames that were computed before it.
    """

    node_count: int = 0
    budget: float = math.inf
    steps_per_frame: int = 1
    steps_begun: int = 0
    spent: float = 0.0
    limit: float = math.inf
    costs: WorkCosts = field(default_factory=WorkCosts)
    factors: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_limited(self) -> bool:
        """True if the frame has a budget."""
        return math.isfinite(self.budget)

    @property
    def is_last_step(self) -> bool:
        """True if the current step ends the frame."""
        return self.steps_begun >= self.steps_per_frame

    @property
    def is_spent(self) -> bool:
        """True if the current limit is reached."""
        return self.spent >= self.limit

    def begin_step(self, max_work: float = math.inf, costs: WorkCosts | None = None) -> None:
        """Set the limit of the next step: twice its share of the remaining budget, but not less than half a share.

        max_work: units that a frame of such steps may spend.  costs: in the step; None for the last ones.
        """
        self.costs = costs or self.costs
        if self.is_limited:
            budget, steps_left = min(self.budget, max_work), max(self.steps_per_frame - self.steps_begun, 1)
            left = max(budget - self.spent, 0.0)
            self.limit = self.spent + max(min(left, 2.0 * left / steps_left), 0.5 * budget / self.steps_per_frame)
        self.steps_begun += 1

    def poll(self) -> None:
        """Do nothing. A meter may cancel the work here by an exception."""

    def charge_evaluations(self, evaluations: float) -> None:
        """Count evaluations of the potential, or of work that takes as long."""
        self.spent += evaluations * self.unit

    def charge_detection(self) -> None:
        """Count a contact detection."""
        self.poll()
        self.spent += self.costs.detection * self._test_unit

    def charge_search(self, pairs: int) -> None:
        """Count a search for intersections of a number of pairs of surfaces with contacts."""
        self.spent += self.costs.searched_pair * pairs * self._test_unit

    def charge_exact_tests(self, pairs: int) -> None:
        """Count exact intersection tests of pairs of surfaces."""
        self.spent += self.costs.exact_test * pairs * self._test_unit

    def metered(self, minimise: Minimise, cost: float) -> Minimise:
        """Return a minimiser within the limit. cost: of an evaluation and its share of a search, in ordinary ones."""

        def bounded(problem: Any, start: Array, tolerance: Tolerance) -> Minimum:
            self.poll()
            if self.is_limited:
                left = max(math.ceil((self.limit - self.spent) / (cost * self.unit)), self.costs.min_evaluations)
                tolerance = replace(tolerance, max_evaluations=left)
            minimum = minimise(problem, start, tolerance)
            self.charge_evaluations(cost * minimum.evaluations)
            return minimum

        return bounded

    @property
    def unit(self) -> float:
        """Units of an evaluation of this system."""
        return 1.0 + self.node_count / self.costs.nodes_per_unit

    @property
    def _test_unit(self) -> float:
        """Units of a test of this system, relative to that of a small one."""
        return 1.0 + self.node_count / self.costs.nodes_per_test


@dataclass
class SearchMeter(WorkMeter):
    """Meter of a search of many steps, each of which may spend all that is left.

    report: called often with the spent fraction of the budget; it may raise an exception to cancel the search.
    """

    report: Callable[[float], None] = lambda fraction: None

    def begin_step(self, max_work: float = math.inf, costs: WorkCosts | None = None) -> None:
        """Set the limit of the next step to the whole budget. Steps towards rest are never violent."""
        self.limit = self.budget

    @property
    def is_over(self) -> bool:
        """True if the search has spent its budget."""
        return self.spent >= self.budget

    def poll(self) -> None:
        """Report the spent fraction."""
        self.report(min(self.spent / self.budget, 1.0))
