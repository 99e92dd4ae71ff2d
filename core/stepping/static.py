"""Static equilibrium: the shape in which a system comes to rest."""

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

# Each step leaves this fraction of the first mode. Equilibrium is reached when no node moves by more than a fraction of
# the size.
_REMAINDER = 0.1
_STILL = 1e-9
# Folding sheets and ropes creep for long, so they have looser limits on motion and on the solver's tolerance.
_THIN_STILL, _THIN_TOLERANCE = 1e-6, 0.1
# With contacts, the contact set differs slightly from step to step.
_TOUCHING_STILL = 1e-4
_MOST = 60
# Number of attempts to leave a saddle point.
_SADDLES = 3
# Anderson mixing: distance from rest at which it begins (fraction of the size), number of steps it uses, growth of the
# last displacement at which it restarts, and cut-off below which differences of displacements are ignored.
_NEAR, _DEPTH, _WORSE, _ALIKE = 0.01, 6, 2.0, 1e-3


def settled(
    stepper: Stepper,
    state: State,
    inputs: Inputs,
    tolerance: float,
    factors: Array | None = None,
    yarns: tuple[YarnDials, ...] = (),
) -> State:
    """Return the static equilibrium under external forces, with the pins at the end of the inputs.

    It is reached by strongly damped steps. If a step fails, as when the body collapses under its weight, the last good
    shape is returned.

    factors: (b,) stiffness factor of each block; 1 if None.  yarns: settings with which woven cloth may slide; without
    them nothing slides.
    """
    system = stepper.system
    # Any step length works; with this one the first mode's inertia matches its stiffness.
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
    # A contact may stabilise the shape, so a saddle is sought only without contacts.
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
    """Take strongly damped steps; return the state, and whether the last one moved no node by more than its limit.

    limit: (n,) m.  mixing_limit: multiple of the limit below which Anderson mixing begins; None to disable it, as with
    contacts, which an extrapolated step could pass through.
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
    """Anderson mixing of the last steps towards rest.

    Anderson, *Iterative Procedures for Nonlinear Integral Equations* (1965): continue from the mean of the last steps
    whose displacements cancel best.
    """

    def __init__(self) -> None:
        self._from: list[Array] = []
        self._ways: list[Array] = []

    def mixed(self, begun: Array, ended: Array) -> Array:
        """Return the positions (n, 3) m to continue from after a step from start to end."""
        if self._ways and np.linalg.norm(ended - begun) > _WORSE * np.linalg.norm(self._ways[-1]):
            # The descent has changed its direction, so the stored steps are useless.
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
    """Return lambda_1 at rest, 1/s^2; if only weight restores the shape, that of a pendulum as long as the region."""
    found = system.eigenvalue(region, factors)
    # Beads of a chain rotate about their attachment points: only weight restores them.
    if found > 0.0 and (region.rigid_modes or region.stiff):
        return found
    length = float(np.ptp(system.rest[region.free], axis=0).max(initial=0.0))
    return max(found, float(np.linalg.norm(system.gravity)) / max(length, 1e-12), 1.0)
