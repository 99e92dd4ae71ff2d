"""Geometric stiffness: the effect of weight on the first eigenvalues of hanging bodies (docs/decisions/0004)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..solvers.modes import smallest_above, smallest_eigenvalue
from ..system.region import Region
from ..system.state import State
from ..system.system import System

# Motions of a hanging net with an eigenvalue below this many g/l are slack, not swings.
_SLOWEST = 0.3
_CHAIN = 1.446
# Eigenvalues below this fraction of a chain's do not belong to bending.
_NONE = 1e-2
# Gravity assumed for weightless nets, m/s^2.
_USUAL = 9.81


def hanging(system: System, state: State, factors: Array) -> tuple[Region, ...]:
    """Return the regions with the eigenvalue that weight adds to lambda_1 in a hanging state (docs/decisions/0004).

    factors: (b,) stiffness factor of each block.
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
    """Return the regions of a system that does not hang: nets get at least the lambda_1 of a hanging chain.

    This applies to systems that fall or have no weight.

    factors: (b,) stiffness factor of each block.
    """
    found = []
    for region in system.regions:
        material = system.eigenvalue(region, factors)
        least = 0.0 if region.stiff else pendulum(system, region, system.rest)
        if not region.stiff and all(system.blocks[k].is_sheet for k in np.unique(system.owner()[region.free])):
            # The eigenvalue of a sheet at rest is unknown so far: stiff card may swing faster than it would hang.
            still = State.at_rest(system.rest)
            own = smallest_above(system.tangent(still, factors, True), system.mass, region.free, _NONE * least)
            least = max(least, own or 0.0)
        found.append(replace(region, weight=max(least - material, 0.0)))
    return tuple(found)


def pendulum(system: System, region: Region, positions: Array) -> float:
    """Return lambda_1 = 1.446 g/l of a chain as long as a region hangs down in positions (n, 3), 1/s^2.

    (j/2)^2 = 1.446 with the first zero j of Bessel's J_0: the hanging chain of Bernoulli.
    """
    return _CHAIN * _drop(system, region, positions)


def slowest_swing(system: System, region: Region, positions: Array) -> float:
    """Return the eigenvalue below which modes of a net at positions (n, 3) are slack motions, not swings, 1/s^2."""
    return _SLOWEST * _drop(system, region, positions)


def _drop(system: System, region: Region, positions: Array) -> float:
    """Return g over the height from the lowest free node to the highest pin, 1/s^2.

    A region without pins uses its extent.
    """
    pull = float(np.linalg.norm(system.gravity))
    free = positions[region.free]
    length = float(np.ptp(free, axis=0).max(initial=0.0))
    if pull > 0.0 and len(region.held):
        down = system.gravity / pull
        length = float((free @ down).max() - (positions[region.held] @ down).min())
    return (pull or _USUAL) / max(length, 1e-3 * max(block.size for block in system.blocks))


def _net_eigenvalue(system: System, region: Region, state: State, factors: Array) -> float:
    """Return lambda_1 of a hanging net, 1/s^2, without the compressive geometric stiffness of its springs.

    Ropes include it, as volumes do: weight softens a rope that stands (docs/decisions/0004).
    """
    bound = slowest_swing(system, region, state.positions)
    ropes = all(system.blocks[k].is_rope for k in np.unique(system.owner()[region.free]))
    found = smallest_above(system.tangent(state, factors, not ropes), system.mass, region.free, bound)
    return pendulum(system, region, state.positions) if found is None else found
