"""Buckling of a static shape that is a saddle point, as a flat sheet pinned by its corners in its own plane."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..solvers.modes import lowest_mode
from ..system.state import State
from ..system.system import System
from .hanging import slowest_swing

# Growth with a smaller eigenvalue than this fraction of the slowest swing's counts as stable: it takes seconds to show.
_UNSEEN = 0.1
# Displacement along the buckling mode as a fraction of the size: far above rounding, and small against a fold.
_FAR = 1e-3


def way_out(system: System, state: State, factors: Array) -> Array | None:
    """Return the fastest buckling mode of an unstable equilibrium, (n, 3) m; None if it is stable.

    Only sheets and ropes are tested: compressed by its weight, a flat shape loses energy on both sides. Contacts, which
    may stabilise the shape, are ignored. factors: (b,) stiffness factor of each block.
    """
    stiffness, found = None, np.zeros_like(state.positions)
    for region in system.regions:
        if region.stiff or not len(region.held):
            continue
        if stiffness is None:
            stiffness = system.tangent(state, factors)
        bound = -_UNSEEN * slowest_swing(system, region, state.positions)
        mode = lowest_mode(stiffness, system.mass, region.free, bound)
        if mode is not None:
            size = max(system.blocks[k].size for k in np.unique(system.owner()[region.free]))
            found[region.free] = _FAR * size * mode
    return found if found.any() else None
