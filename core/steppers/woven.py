"""Time stepper of woven cloth, whose unknowns include yarn positions (docs/explanation/woven-cloth.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..objective.weave_problem import AnyStepProblem, WeaveProblem
from ..settle.controls import Controls
from ..settle.support_modes import ContactEnvironment
from ..solvers.factorisation import Solve, factorise
from ..solvers.multifrontal import SymbolicFactorisation
from ..solvers.newton_cg import minimise_newton_cg
from ..solvers.objective import Minimum, Tolerance
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from ..system.weave_term import find_weave_term
from .implicit import Stepper
from .step_policy import Minimiser, SpentWork

# Up to so many unknowns, a general factorisation is used instead of the multifrontal one.
_MIN_MULTIFRONTAL_UNKNOWNS = 600


class WeaveStepper(Stepper):
    """Time stepper of a system of one woven cloth. It caches nothing but the elimination order.

    It uses Newton's method only: the stiffness changes most where yarns begin to slip, which no constant preconditioner
    represents.
    """

    def __init__(self, system: System) -> None:
        """system: a system with one block."""
        super().__init__(system)
        self.policy = replace(self.policy, spent_work=SpentWork.of_woven_cloth())
        (block,) = system.blocks
        term = find_weave_term(block.terms)
        assert term is not None
        self._term = term
        cloth = term.cloth
        free_mask = cloth.stack_unknowns(np.zeros((cloth.count, 3)), np.ones(len(cloth.node))) > 0.0
        free_mask[: cloth.count] = ~system.is_fixed[:, None]
        self._is_free = free_mask
        self._scatter = cloth.assembly_pattern(free_mask)

    @cached_property
    def _symbolic(self) -> SymbolicFactorisation:
        """Elimination order; the yarn positions of a crossing lie at its node."""
        cloth, rest = self._term.cloth, self.system.rest
        places = np.concatenate([rest, rest[cloth.node[cloth.crossings[:, 0]]]])
        # A contact acts on one node, or on the two of a yarn segment, which are coupled anyway.
        return SymbolicFactorisation.of(self._scatter.matrix(np.ones(len(self._scatter.identity_data))), places)

    def _factorise(self, matrix: csr_matrix) -> Solve:
        if matrix.shape[0] > _MIN_MULTIFRONTAL_UNKNOWNS:
            # Single precision suffices for a preconditioner if no pivot is lost in rounding.
            for kind in (np.float32, np.float64):
                solve = self._symbolic.factorise(matrix, kind)
                if solve is not None:
                    return solve
        return factorise(matrix)

    def _minimise(self, problem: WeaveProblem, start: Array, tolerance: Tolerance) -> Minimum:
        return minimise_newton_cg(problem, start, tolerance, self._factorise)

    def attempts(self, controls: Controls) -> list[tuple[bool, Minimiser]]:
        """Return the only attempt: its law has no history, and Newton's method is used already."""
        return [(False, self._minimise)]

    def has_unknowns(self) -> bool:
        return bool(self._is_free.any())

    def make_problem(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        use_fallback_coefficients: bool,
        damping_positions: Array | None,
        environment: ContactEnvironment | None,
    ) -> AnyStepProblem:
        """Return the objective of a substep of h seconds. The last three arguments are not used."""
        return WeaveProblem(
            self.system, self._term, self.region_slices, self._is_free, self._scatter, state, inputs, h, controls
        )
