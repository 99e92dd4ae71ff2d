"""Buckling of a static shape that is a saddle point, as a flat sheet pinned by its corners in its own plane."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from ..settle.geometric_stiffness import slack_eigenvalue_limit
from ..solvers.modes import lowest_mode
from ..system.state import State
from ..system.system import System

# Growth with a smaller eigenvalue than this fraction of the slowest swing's counts as stable: it takes seconds to show.
_STABLE_FRACTION = 0.1
# Displacement along the buckling mode as a fraction of the size: far above rounding, and small against a fold.
_PERTURBATION = 1e-3


def buckling_direction(system: System, state: State, factors: Array) -> Array | None:
    """Return the fastest buckling mode of an unstable equilibrium, (n, 3) m; None if it is stable.

    Only sheets and ropes are tested: compressed by its weight, a flat shape loses energy on both sides. Contacts, which
    may stabilise the shape, are ignored. factors: (b,) stiffness factor of each block.
    """
    stiffness, direction = None, np.zeros_like(state.positions)
    for region in system.regions:
        if region.has_elastic_stiffness or not len(region.constrained_nodes):
            continue
        if stiffness is None:
            stiffness = system.tangent(state, factors)
        eigenvalue_bound = -_STABLE_FRACTION * slack_eigenvalue_limit(system, region, state.positions)
        mode = lowest_mode(stiffness, system.mass, region.free, eigenvalue_bound)
        if mode is not None:
            size = max(system.blocks[k].size for k in np.unique(system.node_blocks()[region.free]))
            direction[region.free] = _PERTURBATION * size * mode
    return direction if direction.any() else None
