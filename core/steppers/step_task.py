"""Task of a stepper: one step with everything that it starts from, and its result before the limits at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..base.arrays import Array
from ..contact.collision_detection import CollisionDetection
from ..contact.collision_state import CollisionState
from ..settle.controls import Controls
from ..settle.step_report import GuardCounts, StepReport
from ..settle.work_meter import WorkMeter
from ..solvers.objective import Outcome
from ..system.inputs import Inputs, subinterval_inputs
from ..system.state import State
from ..system.system import System
from .violence import Violence


@dataclass(frozen=True)
class StepTask:
    """A step of h seconds, or a part of it, that a stepper has to make.

    state: at its start.
    guess, damping_positions: see Stepper.step().
    meter: work of the frame.  violence: of the whole step.
    counts: how often each guard fired in the whole step.
    detection: of contacts in the whole step; None if nothing has been detected yet.
    is_part: whether it is a part of a step. Parts search contacts thoroughly: the whole step may have missed some.
    """

    system: System
    state: State
    inputs: Inputs
    h: float
    controls: Controls
    guess: Array | None
    damping_positions: Array | None
    meter: WorkMeter
    violence: Violence
    counts: GuardCounts = field(default_factory=Counter)
    detection: CollisionDetection | None = None
    is_part: bool = False

    @property
    def has_contact(self) -> bool:
        """True if anything may be touched."""
        return self.system.contact is not None and any(one.contact is not None for one in self.inputs)

    @cached_property
    def collisions(self) -> CollisionState:
        """Surfaces in the step. There must be contacts."""
        factors = self.controls.stiffness_per_block(len(self.system.blocks))
        assert self.system.contact is not None
        return CollisionState.of(
            self.system.contact, self.state.positions, [one.contact for one in self.inputs], factors, self.h
        )

    def new_report(self, parts: int) -> StepReport:
        """Return the report of the step in parts, without any search so far."""
        return StepReport(Outcome.CONVERGED, 0, 0, parts, 0.0, self.counts)

    def part(self, state: State, place: int, count: int) -> StepTask:
        """Return one of a number of equal parts, which begins at a state. place: its number, from 0."""
        if count == 1 and state is self.state:
            return self
        return replace(
            self,
            state=state,
            inputs=subinterval_inputs(self.inputs, place, count),
            h=self.h / count,
            controls=self.controls.with_unchanged_dials() if place else self.controls,
            detection=self.detection if count == 1 else None,
            is_part=count > 1,
        )


@dataclass(frozen=True)
class SearchResult:
    """Result of the searches of a step.

    state: at its end, if the report says that it converged.
    is_regular: whether no guard made it a hard step.
    is_calmed: whether it was brought to an end in calm parts, see SpentWork.
    has_converged: whether the searches of all these parts converged.
    """

    state: State
    report: StepReport
    is_regular: bool = False
    is_calmed: bool = False
    has_converged: bool = False
