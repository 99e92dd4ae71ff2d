"""Equilibrium in force fields that vary in space, by Newton's method (docs/decisions/0124).

Let e(x) be the equilibrium under the accelerations that act at x, kept constant. The one in the field is the fixed
point x = e(x). Its change has the Jacobian K^-1 M G, with the stiffness K in e(x) and the gradient G of the
accelerations in x, so that Newton's method solves

    (K - M G) d = K (e(x) - x),   x <- x + d
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix
from scipy.sparse.linalg import splu

from ..base.arrays import Array
from ..solvers.modes import has_no_eigenvalue_below
from ..system.state import State
from ..system.system import System
from .body_forces import BodyLoad, acceleration_gradient
from .statics import StaticSolver

# The equilibrium is known once the next estimate is this near, as a fraction of the size.
_TOLERANCE = 1e-4
_MAX_STEPS = 16
# Searches after which the distance must have decreased to a part of the first one.
_TRIAL_STEPS, _TRIAL_DECREASE = 4, 0.5
# Longest step as a fraction of the size, the decrease of the distance below which a step is shortened, and its
# shortest part.
_LONGEST_STEP, _REQUIRED_DECREASE, _SHORTEST_PART = 0.5, 0.7, 1.0 / 16.0


@dataclass(frozen=True)
class FieldEquilibrium:
    """Equilibrium of an island in force fields.

    accelerations: (n, 3) m/s^2, of the nodes.  gradient: (n, 3, 3) 1/s^2, their change with the positions.
    """

    state: State
    accelerations: Array
    gradient: Array

    def is_stable(self, system: System, factors: Array) -> bool:
        """Return whether each motion of a system is resisted. factors: (b,) stiffness factor of each block."""
        symmetric = 0.5 * (self.gradient + self.gradient.transpose(0, 2, 1))
        tangent = (system.tangent(self.state, factors) - _mass_times(system, symmetric)).tocsr()
        return all(has_no_eigenvalue_below(tangent, system.mass, one.free, 0.0) for one in system.regions)


def find_field_equilibrium(
    statics: StaticSolver, island: int, loads: Sequence[BodyLoad], state: State
) -> FieldEquilibrium | None:
    """Return the equilibrium of an island in the first pose under loads; None if it is not found.

    loads: of the island's bodies.  state: from which the search starts.
    """
    system, factors = statics.islands[island].system, statics.stiffness_factors(island)
    size = min(block.size for block in system.blocks)
    start, step, part, distance = state, np.zeros_like(state.positions), 1.0, np.inf
    cut_count, first_distance = statics.progress.cut_count, np.inf
    for number in range(_MAX_STEPS):
        fields = statics.fields_at(island, state)
        after = statics.equilibrium_under(island, loads, state)
        move = after.positions - state.positions
        last_distance, distance = distance, float(np.abs(move).max()) / size
        if number == 0:
            first_distance = distance
        is_hopeless = number >= _TRIAL_STEPS and distance > _TRIAL_DECREASE * first_distance
        if is_hopeless or statics.progress.cut_count > cut_count:
            return None
        if distance <= _TOLERANCE:
            accelerations = statics.acceleration_under(island, loads, fields)
            return FieldEquilibrium(after, accelerations, acceleration_gradient(loads, fields))
        if distance > _REQUIRED_DECREASE * last_distance and part > _SHORTEST_PART:
            part, distance = 0.5 * part, last_distance
        else:
            start, step = state, _newton_step(system, after, factors, acceleration_gradient(loads, fields), move)
            if not np.isfinite(step).all():
                return None
            longest = _LONGEST_STEP * size
            part = longest / max(float(np.abs(step).max()), longest)
        state = State.at_rest(start.positions + part * step, start.time, start.history)
    return None


def _newton_step(system: System, state: State, factors: Array, gradient: Array, move: Array) -> Array:
    """Return the step (n, 3) m to the fixed point. state: e(x).  move: (n, 3) m, e(x) - x."""
    free = np.flatnonzero(~system.is_fixed)
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    stiffness = system.tangent(state, factors).tocsr()[dof][:, dof]
    matrix = stiffness - _mass_times(system, gradient)[dof][:, dof]
    step = np.zeros_like(move)
    try:
        step[free] = splu(matrix.tocsc()).solve(stiffness @ move.ravel()[dof]).reshape(-1, 3)
    except RuntimeError:
        # The matrix is singular.
        return np.full_like(move, np.nan)
    return step


def _mass_times(system: System, gradient: Array) -> csr_matrix:
    """Return M G (3n, 3n) N/m of the nodes' masses and a gradient (n, 3, 3) 1/s^2."""
    count = len(system.mass)
    blocks = system.mass[:, None, None] * gradient
    return bsr_matrix((blocks, np.arange(count), np.arange(count + 1)), shape=(3 * count,) * 2).tocsr()
