"""Time stepper of woven cloth, whose unknowns include yarn positions (docs/explanation/woven-cloth.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..contact_response.contact_solve import ContactSolve
from ..objective.sleep import contact_dial_values, has_contact_force, has_same_accelerations, sleep_step
from ..objective.weave_problem import WeaveProblem
from ..settle.controls import Controls, StepReport
from ..settle.support_modes import ContactEnvironment
from ..solvers.factorisation import Solve, factorise
from ..solvers.multifrontal import SymbolicFactorisation
from ..solvers.newton_cg import minimise_newton_cg
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..system.history import History, YarnSleep
from ..system.inputs import Inputs, subinterval_inputs
from ..system.state import State
from ..system.system import System
from ..system.weave_term import find_weave_term
from .implicit import Stepper

# Number of consecutive still steps before sleep, and the largest motion of nodes and yarns in them over the size.
_REQUIRED_STILL_STEPS, _STILL_TOLERANCE = 3, 1e-7


def is_weave_asleep(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the next step would change nothing, as cloth and yarns are at rest and inputs are constant."""
    sleep = state.history.block(system.name).yarn_sleep
    if (
        sleep is None
        or sleep.still_steps < _REQUIRED_STILL_STEPS
        or state.reference.any()
        or not all(one.is_still for one in inputs)
    ):
        return False
    if not _has_same_inputs(sleep, inputs, controls):
        return False
    touching, last_contacts = any(one.contact is not None for one in inputs), system.last_contacts(state)
    last_dials = np.zeros(0) if last_contacts is None else last_contacts.dial_values
    if touching and not np.array_equal(last_dials, contact_dial_values(inputs)):
        return False
    if any(region.rigid_modes for region in system.regions):
        # An unpinned region sleeps only on a contact; without one it keeps flying.
        return touching and has_contact_force(system, state)
    return True


def with_weave_sleep_counter(
    system: System, before: State, after: State, inputs: Inputs, controls: Controls
) -> History:
    """Return the history after a step, with its counter of still steps updated."""
    name, size = system.name, system.blocks[0].size
    old, new = before.history.block(name), after.history.block(name)
    displacement = np.abs(after.positions - before.positions).max(initial=0.0)
    sliding = np.inf
    if old.yarns is not None and new.yarns is not None:
        sliding = np.abs(new.yarns.positions - old.yarns.positions).max(initial=0.0)
    count = 0.0
    if max(displacement, sliding) <= _STILL_TOLERANCE * size and all(one.is_still for one in inputs):
        past = old.yarn_sleep
        is_same = past is not None and _has_same_inputs(past, inputs, controls)
        count = min(past.still_steps + 1.0, _REQUIRED_STILL_STEPS) if is_same and past is not None else 1.0
    sleep = YarnSleep(count, _yarn_dial_values(controls), inputs[0].acceleration)
    return after.history.with_block(name, replace(new, yarn_sleep=sleep))


def _has_same_inputs(past: YarnSleep, inputs: Inputs, controls: Controls) -> bool:
    """Return whether the settings of the yarns and the acceleration are those of the still steps."""
    return np.array_equal(past.dial_values, _yarn_dial_values(controls)) and has_same_accelerations(
        (past.acceleration,), (inputs[0].acceleration,)
    )


def _yarn_dial_values(controls: Controls) -> Array:
    """Return the values (k,) of all settings that change the stiffness or the grip of the yarns."""
    own = [value for one in controls.yarns for value in (one.friction, one.grip, one.drag, one.stretch, one.bend)]
    return np.array([*controls.stiffness_per_block(1), *own])


# How often a failed step is bisected.
_MAX_BISECTIONS = 4
# Up to so many unknowns, a general factorisation is used instead of the multifrontal one.
_MIN_MULTIFRONTAL_UNKNOWNS = 600


def _reuse_problem(problem: WeaveProblem) -> Callable[[ContactEnvironment | None], WeaveProblem]:
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

    def step(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        guess: Array | None = None,
        damping_positions: Array | None = None,
    ) -> tuple[State, StepReport]:
        """Advance by h seconds while the pins move; a failed step is retried with halved h.

        guess, damping_positions: not used.
        """
        if is_weave_asleep(self.system, state, inputs, controls):
            return sleep_step(state, h), StepReport(Outcome.CONVERGED, 0, 0, 1, 0.0)
        report = StepReport(Outcome.ITERATIONS, 0, 0, 1, 0.0)
        for halving in range(_MAX_BISECTIONS + 1):
            answer, report = self._step_in_subintervals(state, inputs, h, 2**halving, controls)
            if report.outcome is Outcome.CONVERGED:
                # Static equilibrium has no yarn settings, and needs no sleep counter.
                if controls.yarns:
                    answer = replace(
                        answer, history=with_weave_sleep_counter(self.system, state, answer, inputs, controls)
                    )
                return answer, report
        return state, report

    def _step_in_subintervals(
        self, state: State, inputs: Inputs, h: float, parts: int, controls: Controls
    ) -> tuple[State, StepReport]:
        iterations = evaluations = 0
        residual = 0.0
        for part in range(parts):
            part_inputs = subinterval_inputs(inputs, part, parts)
            problem = WeaveProblem(
                self.system,
                self._term,
                self.region_slices,
                self._is_free,
                self._scatter,
                state,
                part_inputs,
                h / parts,
                controls,
            )
            contact: ContactSolve | None = None
            if self.system.contact is None or all(one.contact is None for one in part_inputs):
                minimum = self._minimise(problem, problem.initial_guess(), Tolerance(controls.tolerance, problem.noise))
            else:
                contact = ContactSolve.create(self.system, state, part_inputs, h / parts, controls)
                minimum = contact.solve(_reuse_problem(problem), self._minimise, None, controls.tolerance)[1]
            iterations += minimum.iterations
            evaluations += minimum.evaluations
            residual = max(residual, minimum.residual)
            state = problem.state_after(minimum.velocities)
            if contact is not None:
                state = contact.state_with_contact_history(problem, state)
            if minimum.outcome is not Outcome.CONVERGED or not state.is_finite:
                outcome = minimum.outcome if state.is_finite else Outcome.NOT_FINITE
                return state, StepReport(outcome, iterations, evaluations, parts, residual)
        return state, StepReport(Outcome.CONVERGED, iterations, evaluations, parts, residual)
