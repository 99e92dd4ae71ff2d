"""Where a static shape is a saddle: a sheet that hangs by its corners in its own plane folds at the first breath."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..solvers.modes import lowest_mode
from ..system.state import State
from ..system.system import System
from .hanging import slowest_swing

# What leaves a shape slower than this part of the slowest swing is called still: it would take seconds to be seen.
_UNSEEN = 0.1
# How far it is led out of the shape, of the size: far beyond rounding, and little beside a fold.
_FAR = 1e-3


def way_out(system: System, state: State, factors: Array) -> Array | None:
    """(n, 3) m, along the fastest way out of a state of rest that is a saddle; None where it is stable.

    Of sheets and ropes, whose energy falls on both sides of a flat shape that its weight presses together. factors:
    (b,) on each block's stiffness.  What touches is not asked: it may hold what would leave.
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
