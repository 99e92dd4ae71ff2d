"""Report of a step, and the guards that may decide it (docs/decisions/0042-decide-hard-steps-by-named-guards.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar

from ..solvers.objective import Minimum, Outcome


class Verdict(Enum):
    """Decision of a guard about a step."""

    REFINE_CONTACTS = "minimise again with other contacts"
    RETRY = "minimise again with fallback coefficients, then by Newton's method"
    BISECT = "repeat the step in twice as many parts"
    TRUNCATE = "move the bodies only as far as they do not intersect"
    ACCEPT = "accept an inaccurate result"
    PUSH_OUT = "push bodies out of each other and of colliders"
    LIMIT = "bring the step to an end, with limits on shape and speed"


@dataclass(frozen=True)
class Guard:
    """A named test of a step. If it fires, its verdict is followed and it is counted in the step's report.

    Each guard is a subclass, whose docstring gives the reason and the decision record.

    name: identifier in frame files and reports.
    verdict: its decision.
    is_enabled: whether the guard may fire. Tests switch off one at a time.
    """

    name: ClassVar[str]
    verdict: ClassVar[Verdict]
    is_enabled: bool = True

    def fires(self, applies: bool, counts: GuardCounts) -> bool:
        """Return whether the guard fires, and count it. applies: result of its test."""
        is_firing = self.is_enabled and applies
        if is_firing:
            counts[type(self)] += 1
        return is_firing


GuardCounts = Counter[type[Guard]]


@dataclass(frozen=True)
class StepReport:
    """Result of a step.

    outcome: of the worst substep.
    iterations, evaluations: sums over all substeps.
    substeps: number of substeps.
    residual: of the worst substep, see solvers.objective.Minimum.
    guards: how often each guard fired, also in attempts that were given up.
    """

    outcome: Outcome
    iterations: int
    evaluations: int
    substeps: int
    residual: float
    guards: Mapping[type[Guard], int] = field(default_factory=dict)

    def with_search(self, minimum: Minimum) -> StepReport:
        """Return the report with one more search. The first failure is its outcome."""
        return replace(
            self,
            outcome=minimum.outcome if self.has_converged else self.outcome,
            iterations=self.iterations + minimum.iterations,
            evaluations=self.evaluations + minimum.evaluations,
            residual=max(self.residual, minimum.residual),
        )

    def with_end(self, is_finite: bool) -> StepReport:
        """Return the report after the results of the searches so far were accepted. is_finite: whether they are."""
        return replace(self, outcome=Outcome.CONVERGED if is_finite else Outcome.NOT_FINITE)

    @property
    def has_converged(self) -> bool:
        """True if the step was made."""
        return self.outcome is Outcome.CONVERGED

    @property
    def is_rough(self) -> bool:
        """True if an inaccurate result was accepted."""
        return any(guard.verdict is Verdict.ACCEPT for guard in self.guards)

    @property
    def hard_guards(self) -> list[str]:
        """Names of the guards that made this a hard step. Contacts are refined in ordinary steps too."""
        return [guard.name for guard in self.guards if guard.verdict is not Verdict.REFINE_CONTACTS]
