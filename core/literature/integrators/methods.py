"""Integrators: backward Euler's minimisation from other starts and over other time intervals, and explicit Euler steps.

Velocity-level dampings act on the velocities at the step's start; potentials enter the minimisation. Explicit steps are
cheap, and stable only for steps shorter than about 2 over the highest frequency.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from ...base.arrays import Array
from ...settle.controls import Controls
from ...settle.step_report import StepReport
from ...solvers.displacement_criterion import max_norm
from ...solvers.objective import Outcome
from ...steppers.implicit import Stepper
from ...system.inputs import BlockInputs, Inputs, ReferenceMotion
from ...system.state import State
from .integrator import DampedSystem, Integrator, StepResult

# Change of a step's end, as a fraction of its displacement, below which Newmark's method does not repeat it.
_NEWMARK_TOLERANCE = 0.01
# Largest number of solves per step of Newmark's method.
_MAX_NEWMARK_PASSES = 6
_DONE = StepReport(Outcome.CONVERGED, 1, 1, 1, 0.0)
_FAILED = StepReport(Outcome.NOT_FINITE, 1, 1, 1, np.inf)
# A displacement of so many times the body's size in one step counts as a runaway.
_RUNAWAY = 1e6


def _solve_stage(
    stepper: Stepper,
    state: State,
    start_positions: Array,
    velocities: Array,
    inputs: Inputs,
    h: float,
    controls: Controls,
    damping_positions: Array | None = None,
) -> tuple[Array, StepReport]:
    """Return backward Euler's velocities v (n, 3) from a start over h: M (v - v_start)/h = f(start + h v) - C v."""
    # With a follow-through of 1 the reference motion cancels, so it is omitted.
    start_state = State(state.time, start_positions, velocities, np.zeros_like(start_positions), state.history)
    pinned_inputs = tuple(replace(one, reference=ReferenceMotion()) for one in inputs)
    # The start forces may have made the stage's velocities far too large; the state's own are a better guess.
    after, report = stepper.step(
        start_state, pinned_inputs, h, replace(controls, follow_through=1.0), state.velocities, damping_positions
    )
    return after.velocities, report


class BackwardEuler(Integrator):
    """Backward Euler, M (v+ - v)/h = f(x+) - C v+, x+ = x + h v+, solved to the tolerance."""

    name = "BACKWARD_EULER"
    number = 0
    label = "Backward Euler"
    description = "Solves an implicit step that is always stable. Longer steps add more numerical damping"
    order = 1
    is_implicit = supports_follow_through = True

    @staticmethod
    def step(dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        damped = replace(state, velocities=dynamics.damped_velocities(state, state.velocities, h))
        after, report = dynamics.stepper.step(damped, inputs, h, controls)
        return (after, report) if report.outcome is Outcome.CONVERGED else (state, report)


class LinearBackwardEuler(Integrator):
    """Backward Euler with a single Newton iteration, as in most solvers."""

    name = "LINEAR_BACKWARD_EULER"
    number = 1
    label = "Backward Euler, One Iteration"
    description = (
        "Solves an implicit step with linearised forces. Fastest implicit method, less accurate in large bends"
    )
    order = 1
    is_implicit = True

    @staticmethod
    def step(dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        velocities = dynamics.damped_velocities(state, state.velocities, h)
        v, report = _solve_stage(dynamics.linear_stepper, state, state.positions, velocities, inputs, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            return state, report
        return dynamics.state_with_pins(state, state.positions + h * v, v.copy(), inputs, h), report


class ImplicitMidpoint(Integrator):
    """Implicit midpoint rule: half a backward Euler step, doubled.

    M (v+ - v)/h = f(x + h v_m/2) - C v_m, v_m = (v + v+)/2, x+ = x + h v_m.
    """

    name = "IMPLICIT_MIDPOINT"
    number = 3
    label = "Implicit Midpoint"
    description = "Solves an implicit, second-order step without numerical damping. Swings continue undamped"
    order = 2
    is_implicit = True
    min_substeps = 2

    @staticmethod
    def step(dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        velocities = dynamics.damped_velocities(state, state.velocities, h)
        half_inputs = tuple(replace(one, end=0.5 * (one.start + one.end)) for one in inputs)
        # C evaluated at the start would leave a first-order error.
        midpoint = dynamics.system.with_pins(state.positions + 0.5 * h * velocities, half_inputs)
        middle, report = _solve_stage(
            dynamics.stepper, state, state.positions, velocities, half_inputs, 0.5 * h, controls, midpoint
        )
        if report.outcome is not Outcome.CONVERGED:
            return state, report
        end = state.positions + h * middle
        return dynamics.state_with_pins(state, end, 2.0 * middle - velocities, inputs, h), report


class Newmark(Integrator):
    """Newmark's method with beta = 1/4 and gamma = 1/2, the average acceleration.

    x+ = x + h (v + v+)/2 and M (v+ - v) = h/2 (f + f+): half a step of backward Euler from x + h v/2 and v + h a/2.
    """

    name = "NEWMARK"
    number = 2
    label = "Newmark"
    description = (
        "Averages the accelerations at both ends of the step. Implicit, second order, almost no numerical damping"
    )
    order = 2
    is_implicit = True
    min_substeps = 2

    @staticmethod
    def step(dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        system, damped = dynamics.system, dynamics.damped_velocities(state, state.velocities, h)
        force = dynamics.start_force(state, damped, inputs, controls)
        start = state.positions + 0.5 * h * damped
        start_velocities = damped + 0.5 * h * force / system.mass[:, None]
        # A pin's mean velocity is the same in both halves.
        half_inputs = tuple(replace(one, start=0.5 * (one.start + one.end)) for one in inputs)
        start = system.with_pins(start, tuple(BlockInputs(one.start, one.start) for one in half_inputs))

        def end_positions(velocities: Array) -> Array:
            return system.with_pins(state.positions + 0.5 * h * (damped + velocities), inputs)

        # C must be that of the end. A position that is only predicted leaves an error that adds energy in long steps.
        velocities, predicted = damped, end_positions(damped)
        for k in range(_MAX_NEWMARK_PASSES):
            velocities, report = _solve_stage(
                dynamics.stepper, state, start, start_velocities, half_inputs, 0.5 * h, controls, predicted
            )
            if report.outcome is not Outcome.CONVERGED:
                return state, report
            previous, predicted = predicted, end_positions(velocities)
            error, displacement = max_norm(predicted - previous), max_norm(predicted - state.positions)
            if dynamics.stepper.viscous is None or (k > 0 and error <= _NEWMARK_TOLERANCE * displacement):
                break
        end = state.positions + 0.5 * h * (damped + velocities)
        return dynamics.state_with_pins(state, end, velocities.copy(), inputs, h), report


class ExplicitEuler(Integrator):
    """Base class of Euler steps: v+ = v + h a(x, v), and x+ = x + h times one of both velocities."""

    order = 1
    is_implicit = False
    uses_new_velocities: ClassVar[bool]

    @classmethod
    def step(cls, dynamics: DampedSystem, state: State, inputs: Inputs, h: float, controls: Controls) -> StepResult:
        system = dynamics.system
        with np.errstate(over="ignore", invalid="ignore"):
            force = dynamics.start_force(state, state.velocities, inputs, controls)
            predicted = dynamics.with_pin_velocities(state.velocities + h * force / system.mass[:, None], inputs, h)
            v = dynamics.damped_velocities(state, predicted, h)
            moved = state.positions + h * (v if cls.uses_new_velocities else state.velocities)
            after = dynamics.state_with_pins(state, moved, v.copy(), inputs, h)
            limit = _RUNAWAY * max(block.size for block in system.blocks)
            if not after.is_finite or float(np.abs(after.positions - state.positions).max()) > limit:
                return state, _FAILED
            return after, _DONE


class SymplecticEuler(ExplicitEuler):
    """Symplectic Euler step: v+ = v + h a(x, v), x+ = x + h v+."""

    name = "SYMPLECTIC_EULER"
    number = 4
    label = "Symplectic Euler"
    description = "Moves positions by the new velocities. Explicit; stable for short substeps only"
    uses_new_velocities = True


class ForwardEuler(ExplicitEuler):
    """Forward Euler step: x+ = x + h v, v+ = v + h a(x, v). It amplifies every oscillation."""

    name = "FORWARD_EULER"
    number = 5
    label = "Forward Euler"
    description = "Moves positions by the old velocities. Explicit; every swing grows unless it is damped"
    uses_new_velocities = False
