"""Implicit steps: backward Euler's minimisation from other starts and over other time intervals.

Velocity-level dampings act on the velocities at the step's start; potentials enter the minimisation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..solvers.problem import Outcome
from ..stepping.controls import Controls, StepReport
from ..stepping.step import Stepper
from ..system.inputs import BlockInputs, Inputs, NoReferenceMotion
from ..system.state import State
from .integrator import Dynamics, Integrator


def _damped(dynamics: Dynamics, state: State, h: float) -> State:
    return replace(state, velocities=dynamics.damped(state, state.velocities, h))


def _stage(
    stepper: Stepper,
    state: State,
    start: Array,
    velocities: Array,
    inputs: Inputs,
    h: float,
    controls: Controls,
    damped_at: Array | None = None,
) -> tuple[Array, StepReport]:
    """Return backward Euler's velocities v (n, 3) from a start over h: M (v - v_start)/h = f(start + h v) - C v."""
    # With a follow-through of 1 the reference motion cancels, so it is omitted.
    begin = State(state.time, start, velocities, np.zeros_like(start), state.memory)
    plain = tuple(replace(one, reference=NoReferenceMotion()) for one in inputs)
    # The start forces may have made the stage's velocities far too large; the state's own are a better guess.
    after, report = stepper.step(begin, plain, h, replace(controls, follow_through=1.0), state.velocities, damped_at)
    return after.velocities, report


class BackwardEuler(Integrator):
    """Backward Euler, M (v+ - v)/h = f(x+) - C v+, x+ = x + h v+, solved to the tolerance."""

    name = "BACKWARD_EULER"
    label = "Backward Euler"
    text = "Solves an implicit step that is always stable. Longer steps add more numerical damping"
    order = 1
    implicit = follows_through = True

    @staticmethod
    def step(
        dynamics: Dynamics, state: State, inputs: Inputs, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        after, report = dynamics.stepper.step(_damped(dynamics, state, h), inputs, h, controls)
        return (after, report) if report.outcome is Outcome.CONVERGED else (state, report)


class LinearBackwardEuler(Integrator):
    """Backward Euler with a single Newton iteration, as in most solvers."""

    name = "LINEAR_BACKWARD_EULER"
    label = "Backward Euler, One Iteration"
    text = "Solves an implicit step with linearised forces. Fastest implicit method, less accurate in large bends"
    order = 1
    implicit = True

    @staticmethod
    def step(
        dynamics: Dynamics, state: State, inputs: Inputs, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        begin = _damped(dynamics, state, h)
        v, report = _stage(dynamics.linear, state, state.positions, begin.velocities, inputs, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            return state, report
        return dynamics.pinned(state, state.positions + h * v, v.copy(), inputs, h), report


class ImplicitMidpoint(Integrator):
    """Implicit midpoint rule: half a backward Euler step, doubled.

    M (v+ - v)/h = f(x + h v_m/2) - C v_m, v_m = (v + v+)/2, x+ = x + h v_m.
    """

    name = "IMPLICIT_MIDPOINT"
    label = "Implicit Midpoint"
    text = "Solves an implicit, second-order step without numerical damping. Swings continue undamped"
    order = 2
    implicit = True

    @staticmethod
    def step(
        dynamics: Dynamics, state: State, inputs: Inputs, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        begin = _damped(dynamics, state, h)
        half = tuple(replace(one, end=0.5 * (one.start + one.end)) for one in inputs)
        # C evaluated at the start would leave a first-order error.
        there = dynamics.system.placed(state.positions + 0.5 * h * begin.velocities, half)
        middle, report = _stage(
            dynamics.stepper, state, state.positions, begin.velocities, half, 0.5 * h, controls, there
        )
        if report.outcome is not Outcome.CONVERGED:
            return state, report
        return dynamics.pinned(state, state.positions + h * middle, 2.0 * middle - begin.velocities, inputs, h), report


class Newmark(Integrator):
    """Newmark's method with beta = 1/4 and gamma = 1/2, the average acceleration.

    x+ = x + h (v + v+)/2 and M (v+ - v) = h/2 (f + f+): half a step of backward Euler from x + h v/2 and v + h a/2.
    """

    name = "NEWMARK"
    label = "Newmark"
    text = "Averages the accelerations at both ends of the step. Implicit, second order, almost no numerical damping"
    order = 2
    implicit = True

    @staticmethod
    def step(
        dynamics: Dynamics, state: State, inputs: Inputs, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        begin = _damped(dynamics, state, h)
        system = dynamics.system
        force = dynamics.force(state, begin.velocities, inputs, dynamics.factors(controls), ended=False)
        start = state.positions + 0.5 * h * begin.velocities
        speed = begin.velocities + 0.5 * h * force / system.mass[:, None]
        # A pin's mean velocity is the same in both halves.
        half = tuple(replace(one, start=0.5 * (one.start + one.end)) for one in inputs)
        start = system.placed(start, tuple(BlockInputs(one.start, one.start) for one in half))
        # Evaluate C near the end: in the middle it would leave a first-order error.
        there = system.placed(state.positions + h * begin.velocities, inputs)
        after, report = _stage(dynamics.stepper, state, start, speed, half, 0.5 * h, controls, there)
        if report.outcome is not Outcome.CONVERGED:
            return state, report
        return dynamics.pinned(
            state, state.positions + 0.5 * h * (begin.velocities + after), after.copy(), inputs, h
        ), report
