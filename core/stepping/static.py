"""The static shape: where a system comes to rest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..solvers.problem import Outcome
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from ..system.weave import has_weave
from .controls import Controls, YarnDials
from .falling import fallen, stopped
from .first_mode import FirstModeLaw
from .remembered import presses
from .step import Stepper
from .unstable import way_out

# Each step leaves this part of the first mode; the end is when none moves a node by more than a part of the size.
_REMAINDER = 0.1
_STILL = 1e-9
# What folds under its weight creeps on for long: sheets and ropes are still sooner, and their steps rougher.
_THIN_STILL, _THIN_TOLERANCE = 1e-6, 0.1
# Where they touch, what touches differs a little from step to step.
_TOUCHING_STILL = 1e-4
_MOST = 60
# How often it is led out of a saddle.
_SADDLES = 3
# Nearer to rest than this part of the size, what creeps is guessed from so many steps, unless the last guess left so
# many times as long a way; ways that differ by less than this part say nothing.
_NEAR, _DEPTH, _WORSE, _ALIKE = 0.01, 6, 2.0, 1e-3


def settled(
    stepper: Stepper,
    state: State,
    inputs: Inputs,
    tolerance: float,
    factors: Array | None = None,
    yarns: tuple[YarnDials, ...] = (),
) -> State:
    """The state at rest under what pulls it with the pins at the inputs' end, reached by strongly damped steps.

    factors: (b,) on each block's stiffness; 1 if None.  yarns: where what is woven may slide, else nothing does.

    Where a step fails, as when the body collapses under its weight, the last good shape is returned.
    """
    system = stepper.system
    # Any step length does; with this one the first mode's inertia matches its stiffness.
    scale = np.ones(len(system.blocks)) if factors is None else factors
    eigenvalues = [_calming(system, region, scale) for region in system.regions]
    h = 1.0 / math.sqrt(max(eigenvalues)) if eigenvalues else 1.0
    laws = tuple(FirstModeLaw(-math.log(_REMAINDER) / h, 0.0, eigenvalue) for eigenvalue in eigenvalues)
    woven = has_weave(system)
    thin = woven or any(block.is_sheet or block.is_rope for block in system.blocks)
    tolerance = max(tolerance, _THIN_TOLERANCE) if thin else tolerance
    controls = Controls(laws, 0.0, tolerance, tuple(float(one) for one in scale), yarns)
    touching = any(one.touching is not None for one in inputs)
    part = (_TOUCHING_STILL if touching else _THIN_STILL) if thin else _STILL
    limit = part * np.array([block.size for block in system.blocks])[system.owner()]
    still = tuple(one.ended() for one in inputs)
    if woven:
        state = fallen(stepper, state, still, controls)
    near = _NEAR / part if thin and not touching else None
    state, calm = _descended(stepper, state, still, h, controls, limit, near)
    # What presses on something may be held by it.
    for _ in range(_SADDLES if thin and calm else 0):
        way = None if presses(system, state) else way_out(system, state, scale)
        if way is None:
            break
        state = replace(state, positions=state.positions + way)
        if woven:
            state = fallen(stepper, state, still, controls)
        state, _ = _descended(stepper, state, still, h, controls, limit, near)
    return state


def _descended(
    stepper: Stepper, state: State, still: Inputs, h: float, controls: Controls, limit: Array, near: float | None
) -> tuple[State, bool]:
    """After strongly damped steps, and whether the last one moved no node by more than its limit (n,) m.

    near: times the limit, from where on what creeps is guessed; None if it never is, as what is touched is not to be
    jumped through.
    """
    series = None if near is None else _Series()
    for _ in range(_MOST):
        after, report = stepper.step(state, still, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            break
        moved = np.abs(after.positions - state.positions).max(axis=1)
        begun = state.positions
        state = stopped(after)
        if (moved <= limit).all():
            return state, True
        if series is not None and near is not None and (moved <= near * limit).all():
            state = replace(state, positions=series.mixed(begun, state.positions))
    return state, False


class _Series:
    """Steps towards rest, each of which is guessed from some before it.

    Anderson, *Iterative Procedures for Nonlinear Integral Equations* (1965): that mean of the last steps is gone on
    from of which the ways cancel best.
    """

    def __init__(self) -> None:
        self._from: list[Array] = []
        self._ways: list[Array] = []

    def mixed(self, begun: Array, ended: Array) -> Array:
        """(n, 3) m, from where to go on after a step from begun to ended."""
        if self._ways and np.linalg.norm(ended - begun) > _WORSE * np.linalg.norm(self._ways[-1]):
            # It is another way down than the one that was guessed along.
            self._from.clear()
            self._ways.clear()
        self._from.append(begun)
        self._ways.append(ended - begun)
        del self._from[:-_DEPTH], self._ways[:-_DEPTH]
        if len(self._ways) == 1:
            return ended
        changes = np.stack([(one - self._ways[-1]).ravel() for one in self._ways[:-1]], axis=1)
        amounts = np.linalg.lstsq(changes, -self._ways[-1].ravel(), rcond=_ALIKE)[0]
        found = ended.copy()
        for amount, first, way in zip(amounts, self._from[:-1], self._ways[:-1], strict=True):
            found += amount * ((first + way) - ended)
        return found


def _calming(system: System, region: Region, factors: Array) -> float:
    """lambda_1 at rest, 1/s^2; where only weight holds the shape, that of a pendulum as long as the region."""
    found = system.eigenvalue(region, factors)
    # Beads in a chain turn about the points that hold them: nothing but weight brings them back.
    if found > 0.0 and (region.rigid_modes or region.stiff):
        return found
    length = float(np.ptp(system.rest[region.free], axis=0).max(initial=0.0))
    return max(found, float(np.linalg.norm(system.gravity)) / max(length, 1e-12), 1.0)
