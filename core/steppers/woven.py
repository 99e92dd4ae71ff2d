"""Time stepper of woven cloth, whose unknowns include yarn positions (docs/explanation/woven-cloth.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..objective.weave_problem import WeaveProblem, WovenUnknowns
from ..settle.controls import Controls
from ..solvers.factorisation import Solve, factorise
from ..solvers.multifrontal import SymbolicFactorisation
from ..solvers.newton_cg import minimise_newton_cg
from ..solvers.objective import Minimum, Tolerance
from ..system.system import System
from .implicit import Stepper
from .step_policy import Minimiser, SpentWork

# Up to so many unknowns, a general factorisation is used instead of the multifrontal one.
_MIN_MULTIFRONTAL_UNKNOWNS = 600


class WeaveStepper(Stepper):
    """Time stepper of a system of one woven cloth. It caches nothing but the elimination order.

    It uses Newton's method only: the stiffness changes most where yarns begin to slip, which no constant preconditioner
    represents.
    """

    problem_type = WeaveProblem

    def __init__(self, system: System) -> None:
        """system: a system with one block."""
        super().__init__(system)
        self.policy = replace(self.policy, spent_work=SpentWork.of_woven_cloth())
        self.unknowns: WovenUnknowns = WovenUnknowns(system)

    @cached_property
    def _symbolic(self) -> SymbolicFactorisation:
        """Elimination order; the yarn positions of a crossing lie at its node."""
        pattern, cloth, rest = self.unknowns.pattern, self.unknowns.term.cloth, self.system.rest
        places = np.concatenate([rest, rest[cloth.node[cloth.crossings[:, 0]]]])
        # A contact acts on one node, or on the two of a yarn segment, which are coupled anyway.
        return SymbolicFactorisation.of(pattern.matrix(np.ones(len(pattern.identity_data))), places)

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
