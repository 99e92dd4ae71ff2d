"""Steps of woven cloth, whose unknowns are more than places in space (docs/weave.md)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array
from ..solvers.factor import Solve, factorise
from ..solvers.multifrontal import Symbolic
from ..solvers.problem import Outcome, Tolerance
from ..solvers.refactored import minimise_refactored
from ..system.inputs import Inputs, parted
from ..system.state import State
from ..system.system import System
from ..system.weave import weave_of
from .controls import Controls, StepReport
from .step import Stepper
from .weave_problem import WeaveProblem

# How often a failed step is cut in halves.
_HALVINGS = 4
# Fewer unknowns are factorised by what needs no fronts.
_FEW = 600


class WeaveStepper(Stepper):
    """Steps of a system of one woven cloth. Holds nothing but the order of elimination.

    By Newton's method alone: what the yarns resist changes most where they begin to slip, which no constant metric
    knows.
    """

    def __init__(self, system: System) -> None:
        """The system has one block."""
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
        """The order of elimination: a crossing's places lie where its node does."""
        cloth, rest = self._term.cloth, self.system.rest
        places = np.concatenate([rest, rest[cloth.node[cloth.crossings[:, 0]]]])
        return Symbolic.of(self._scatter.matrix(np.ones(len(self._scatter.begun))), places)

    def _factorised(self, matrix: csr_matrix) -> Solve:
        if matrix.shape[0] > _FEW:
            # For a metric digits enough, where none of its pivots is lost in rounding.
            for kind in (np.float32, np.float64):
                made = self._symbolic.factorised(matrix, kind)
                if made is not None:
                    return made
        return factorise(matrix)

    def step(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        guess: Array | None = None,
        damped_at: Array | None = None,
    ) -> tuple[State, StepReport]:
        """Advance by h seconds while the pins move; a step that fails is tried again with halved h.

        guess, damped_at: have no meaning here.
        """
        report = StepReport(Outcome.ITERATIONS, 0, 0, 1, 0.0)
        for halving in range(_HALVINGS + 1):
            answer, report = self._in_parts(state, inputs, h, 2**halving, controls)
            if report.outcome is Outcome.CONVERGED:
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
            tolerance = Tolerance(controls.tolerance, problem.noise)
            found = minimise_refactored(problem, problem.begun(), tolerance, self._factorised)
            iterations += found.iterations
            evaluations += found.evaluations
            residual = max(residual, found.residual)
            state = problem.state_after(found.velocities)
            if found.outcome is not Outcome.CONVERGED or not state.is_finite:
                outcome = found.outcome if state.is_finite else Outcome.NOT_FINITE
                return state, StepReport(outcome, iterations, evaluations, parts, residual)
        return state, StepReport(Outcome.CONVERGED, iterations, evaluations, parts, residual)
