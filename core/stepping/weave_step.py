"""Time stepper of woven cloth, whose unknowns include yarn positions (docs/explanation/woven-cloth.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array
from ..solvers.factor import Solve, factorise
from ..solvers.multifrontal import Symbolic
from ..solvers.problem import Minimum, Outcome, Tolerance
from ..solvers.refactored import minimise_refactored
from ..system.inputs import Inputs, parted
from ..system.state import State
from ..system.system import System
from ..system.weave import weave_of
from .contact_step import ContactStep
from .controls import Controls, StepReport
from .held import Around
from .sleep import resting
from .step import Stepper
from .weave_problem import WeaveProblem
from .weave_sleep import asleep, counted

# How often a failed step is bisected.
_HALVINGS = 4
# Up to so many unknowns, a general factorisation is used instead of the multifrontal one.
_FEW = 600


def _always(problem: WeaveProblem) -> Callable[[Around | None], WeaveProblem]:
    """Return a factory that ignores the contact environment and returns the same problem."""
    return lambda around: problem


class WeaveStepper(Stepper):
    """Time stepper of a system of one woven cloth. It caches nothing but the elimination order.

    It uses Newton's method only: the stiffness changes most where yarns begin to slip, which no constant preconditioner
    represents.
    """

    def __init__(self, system: System) -> None:
        """system: a system with one block."""
        super().__init__(system)
        (block,) = system.blocks
        term = weave_of(block.terms)
        assert term is not None
        self._term = term
        cloth = term.cloth
        slides = cloth.stacked(np.zeros((cloth.count, 3)), np.ones(len(cloth.node))) > 0.0
        slides[: cloth.count] = ~system.fixed[:, None]
        self._free = slides
        self._scatter = cloth.scatter(slides)

    @cached_property
    def _symbolic(self) -> Symbolic:
        """Elimination order; the yarn positions of a crossing lie at its node."""
        cloth, rest = self._term.cloth, self.system.rest
        places = np.concatenate([rest, rest[cloth.node[cloth.crossings[:, 0]]]])
        # A contact acts on one node, or on the two of a yarn segment, which are coupled anyway.
        return Symbolic.of(self._scatter.matrix(np.ones(len(self._scatter.begun))), places)

    def _factorised(self, matrix: csr_matrix) -> Solve:
        if matrix.shape[0] > _FEW:
            # Single precision suffices for a preconditioner if no pivot is lost in rounding.
            for kind in (np.float32, np.float64):
                made = self._symbolic.factorised(matrix, kind)
                if made is not None:
                    return made
        return factorise(matrix)

    def _minimised(self, problem: WeaveProblem, start: Array, tolerance: Tolerance) -> Minimum:
        return minimise_refactored(problem, start, tolerance, self._factorised)

    def step(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        guess: Array | None = None,
        damped_at: Array | None = None,
    ) -> tuple[State, StepReport]:
        """Advance by h seconds while the pins move; a failed step is retried with halved h.

        guess, damping_positions: not used.
        """
        if asleep(self.system, state, inputs, controls):
            return resting(state, h), StepReport(Outcome.CONVERGED, 0, 0, 1, 0.0)
        report = StepReport(Outcome.ITERATIONS, 0, 0, 1, 0.0)
        for halving in range(_HALVINGS + 1):
            answer, report = self._in_parts(state, inputs, h, 2**halving, controls)
            if report.outcome is Outcome.CONVERGED:
                # Static equilibrium has no yarn settings, and needs no sleep counter.
                if controls.yarns:
                    answer = replace(answer, memory=counted(self.system, state, answer, inputs, controls))
                return answer, report
        return state, report

    def _in_parts(
        self, state: State, inputs: Inputs, h: float, parts: int, controls: Controls
    ) -> tuple[State, StepReport]:
        iterations = evaluations = 0
        residual = 0.0
        for part in range(parts):
            given = parted(inputs, part, parts)
            problem = WeaveProblem(
                self.system, self._term, self.pieces, self._free, self._scatter, state, given, h / parts, controls
            )
            contact: ContactStep | None = None
            if self.system.contact is None or all(one.touching is None for one in given):
                found = self._minimised(problem, problem.begun(), Tolerance(controls.tolerance, problem.noise))
            else:
                contact = ContactStep.of(self.system, state, given, h / parts, controls)
                found = contact.minimised(_always(problem), self._minimised, None, controls.tolerance)[1]
            iterations += found.iterations
            evaluations += found.evaluations
            residual = max(residual, found.residual)
            state = problem.state_after(found.velocities)
            if contact is not None:
                state = contact.ended(problem, state)
            if found.outcome is not Outcome.CONVERGED or not state.is_finite:
                outcome = found.outcome if state.is_finite else Outcome.NOT_FINITE
                return state, StepReport(outcome, iterations, evaluations, parts, residual)
        return state, StepReport(Outcome.CONVERGED, iterations, evaluations, parts, residual)
