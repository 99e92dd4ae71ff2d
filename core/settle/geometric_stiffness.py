"""Geometric stiffness: the effect of weight on the first eigenvalues of hanging bodies (docs/decisions/0004)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.arrays import Array
from ..solvers.modes import lowest_mode, smallest_eigenvalue, smallest_eigenvalue_above
from ..system.region import Region
from ..system.state import State
from ..system.system import System

# Motions of a hanging net with an eigenvalue below this many g/l are slack, not swings.
_SLACK_FACTOR = 0.3
_CHAIN_FACTOR = 1.446
# Eigenvalues below this fraction of a chain's do not belong to bending.
_ZERO_FRACTION = 1e-2
# A region hangs if its lowest free node is below its highest pin by at least this fraction of its reach.
_HANGING_FRACTION = 0.2
# Gravity assumed for weightless nets, m/s^2.
_STANDARD_GRAVITY = 9.81


def with_geometric_stiffness(system: System, state: State, factors: Array, posed: Array) -> tuple[Region, ...]:
    """Return the regions with the eigenvalue that weight adds to lambda_1 in a hanging state (docs/decisions/0004).

    factors: (b,) stiffness factor of each block.
    posed: (n, 3) m, the nodes in the first pose without weight.
    """
    first_factor = float(factors[0])
    tangent = system.tangent(state, factors / first_factor)

    def with_weight(region: Region) -> Region:
        if region.has_elastic_stiffness:
            found = smallest_eigenvalue(tangent, system.mass, region.free, region.rigid_modes, places=system.rest)
            added = first_factor * (found - system.eigenvalue(region, factors / first_factor))
            is_stable = found > 0.0 or region.rigid_modes > 0
        else:
            found, is_stable = _net_eigenvalue(system, region, state, factors)
            added = found - system.eigenvalue(region, factors)
        stands = _height(system, region, posed) >= _HANGING_FRACTION * _extent(posed[region.free])
        is_upright = is_stable and _height(system, region, state.positions) > 0.0
        return replace(region, gravity_eigenvalue=added, can_stand=is_upright or not stands)

    return tuple(with_weight(region) for region in system.regions)


def with_minimum_eigenvalues(system: System, factors: Array) -> tuple[Region, ...]:
    """Return the regions of a system that does not hang: nets get at least the lambda_1 of a hanging chain.

    This applies to systems that fall or have no weight.

    factors: (b,) stiffness factor of each block.
    """
    regions = []
    for region in system.regions:
        material = system.eigenvalue(region, factors)
        minimum = 0.0 if region.has_elastic_stiffness else chain_eigenvalue(system, region, system.rest)
        blocks = [system.blocks[k] for k in np.unique(system.node_blocks()[region.free])]
        if not region.has_elastic_stiffness and material == 0.0 and all(b.is_sheet or b.is_rope for b in blocks):
            # The eigenvalue at rest is unknown so far: stiff card may swing faster than it would hang.
            rest_state = State.at_rest(system.rest)
            bending = smallest_eigenvalue_above(
                system.tangent(rest_state, factors, True), system.mass, region.free, _ZERO_FRACTION * minimum
            )
            minimum = max(minimum, bending or 0.0)
        regions.append(replace(region, gravity_eigenvalue=max(minimum - material, 0.0)))
    return tuple(regions)


def chain_eigenvalue(system: System, region: Region, positions: Array) -> float:
    """Return lambda_1 = 1.446 g/l of a chain as long as a region hangs down in positions (n, 3), 1/s^2.

    (j/2)^2 = 1.446 with the first zero j of Bessel's J_0: the hanging chain of Bernoulli.
    """
    return _CHAIN_FACTOR * _gravity_over_length(system, region, positions)


def slack_eigenvalue_limit(system: System, region: Region, positions: Array) -> float:
    """Return the eigenvalue below which modes of a net at positions (n, 3) are slack motions, not swings, 1/s^2."""
    return _SLACK_FACTOR * _gravity_over_length(system, region, positions)


def _gravity_over_length(system: System, region: Region, positions: Array) -> float:
    """Return g over the height from the lowest free node to the highest pin, 1/s^2.

    A region that stands above its pins or beside them, or that has none, uses its reach.
    """
    gravity = float(np.linalg.norm(system.gravity)) or _STANDARD_GRAVITY
    reach, drop = _reach_and_drop(system, region, positions)
    length = drop if _hangs(reach, drop) else reach
    return gravity / max(length, 1e-3 * max(block.size for block in system.blocks))


def _reach_and_drop(system: System, region: Region, positions: Array) -> tuple[float, float]:
    """Return how far free nodes reach beyond the pins, and how far the lowest one is below the highest pin, m.

    The reach is measured along the axes: that of a wire between two pins is 0. Without pins it is the extent. The drop
    is 0 without gravity or pins.
    """
    free, pins = positions[region.free], positions[region.constrained_nodes]
    if not len(pins):
        return _extent(free), 0.0
    reach = np.maximum(free.max(axis=0) - pins.max(axis=0), pins.min(axis=0) - free.min(axis=0))
    gravity = float(np.linalg.norm(system.gravity))
    drop = float((free @ system.gravity).max() - (pins @ system.gravity).min()) / gravity if gravity else 0.0
    return max(float(reach.max()), 0.0), drop


def _extent(points: Array) -> float:
    return float(np.ptp(points, axis=0).max(initial=0.0))


def _height(system: System, region: Region, positions: Array) -> float:
    """Return the mean height of a region's free nodes above its pins, m; 0 without gravity or pins."""
    gravity = float(np.linalg.norm(system.gravity))
    if gravity == 0.0 or not len(region.constrained_nodes):
        return 0.0
    above = positions[region.free].mean(axis=0) - positions[region.constrained_nodes].mean(axis=0)
    return float(above @ system.gravity) / -gravity


def _hangs(reach: float, drop: float) -> bool:
    return drop >= _HANGING_FRACTION * reach


def _net_eigenvalue(system: System, region: Region, state: State, factors: Array) -> tuple[float, bool]:
    """Return lambda_1 of a net at rest under its weight, 1/s^2, and whether it can stand (docs/decisions/0004).

    In a hanging sheet, compressive geometric stiffness only causes wrinkles, so it is left out. Ropes, and regions that
    stand, include it: weight softens them. A region that cannot stand falls over and hangs, so it gets the lambda_1 of
    a hanging chain.
    """
    bound = slack_eigenvalue_limit(system, region, state.positions)
    is_rope = all(system.blocks[k].is_rope for k in np.unique(system.node_blocks()[region.free]))
    hangs = _hangs(*_reach_and_drop(system, region, state.positions))
    tangent = system.tangent(state, factors, hangs and not is_rope)
    falls = not hangs and lowest_mode(tangent, system.mass, region.free, -bound) is not None
    found = None if falls else smallest_eigenvalue_above(tangent, system.mass, region.free, bound)
    return chain_eigenvalue(system, region, state.positions) if found is None else found, not falls
