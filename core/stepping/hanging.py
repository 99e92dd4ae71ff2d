"""What the weight does to the first eigenvalues of what hangs (docs/decisions/0004)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..solvers.modes import smallest_above, smallest_eigenvalue
from ..system.region import Region
from ..system.state import State
from ..system.system import System

# Slower motions of a hanging net than this many g/l are slack, not swings.
_SLOWEST = 0.3
_CHAIN = 1.446
# What is slower than this part of a chain's is no bending.
_NONE = 1e-2
# m/s^2, the weight that a weightless net is slowed as if it had.
_USUAL = 9.81


def hanging(system: System, state: State, factors: Array) -> tuple[Region, ...]:
    """The regions with what the weight adds to lambda_1 where it hangs still in a state (docs/decisions/0004).

    factors: (b,) on each block's stiffness.
    """
    first = float(factors[0])
    stiff = system.tangent(state, factors / first)

    def weight(region: Region) -> float:
        if not region.stiff:
            return _net_eigenvalue(system, region, state, factors) - system.eigenvalue(region, factors)
        found = smallest_eigenvalue(stiff, system.mass, region.free, region.rigid_modes, places=system.rest)
        return first * (found - system.eigenvalue(region, factors / first))

    return tuple(replace(region, weight=weight(region)) for region in system.regions)


def floored(system: System, factors: Array) -> tuple[Region, ...]:
    """The regions of a system that does not hang, as it falls or has no weight: nets have at least a chain's lambda_1.

    factors: (b,) on each block's stiffness.
    """
    found = []
    for region in system.regions:
        material = system.eigenvalue(region, factors)
        least = 0.0 if region.stiff else pendulum(system, region, system.rest)
        if not region.stiff and all(system.blocks[k].is_sheet for k in np.unique(system.owner()[region.free])):
            # Of a sheet it is not known yet: one of card may swing faster than it would hang.
            still = State.at_rest(system.rest)
            own = smallest_above(system.tangent(still, factors, True), system.mass, region.free, _NONE * least)
            least = max(least, own or 0.0)
        found.append(replace(region, weight=max(least - material, 0.0)))
    return tuple(found)


def pendulum(system: System, region: Region, positions: Array) -> float:
    """lambda_1 = 1.446 g/l of a chain as long as a region hangs down in positions (n, 3); 1/s^2.

    (j/2)^2 = 1.446 with the first zero j of Bessel's J_0: the hanging chain of Bernoulli.
    """
    return _CHAIN * _drop(system, region, positions)


def slowest_swing(system: System, region: Region, positions: Array) -> float:
    """What is slower than this, 1/s^2, in a net at positions (n, 3) is slack, and no swing."""
    return _SLOWEST * _drop(system, region, positions)


def _drop(system: System, region: Region, positions: Array) -> float:
    """g over how far a region hangs below its highest pin, or its extent where nothing holds it; 1/s^2."""
    pull = float(np.linalg.norm(system.gravity))
    free = positions[region.free]
    length = float(np.ptp(free, axis=0).max(initial=0.0))
    if pull > 0.0 and len(region.held):
        down = system.gravity / pull
        length = float((free @ down).max() - (positions[region.held] @ down).min())
    return (pull or _USUAL) / max(length, 1e-3 * max(block.size for block in system.blocks))


def _net_eigenvalue(system: System, region: Region, state: State, factors: Array) -> float:
    """lambda_1 of a net where it hangs, 1/s^2, without what slack springs push across their direction.

    Of ropes with it, as of volumes: one that stands is softer by its weight (docs/decisions/0004).
    """
    bound = slowest_swing(system, region, state.positions)
    ropes = all(system.blocks[k].is_rope for k in np.unique(system.owner()[region.free]))
    found = smallest_above(system.tangent(state, factors, not ropes), system.mass, region.free, bound)
    return pendulum(system, region, state.positions) if found is None else found
