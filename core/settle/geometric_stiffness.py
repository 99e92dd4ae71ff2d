"""Geometric stiffness: the effect of weight on the first eigenvalues of hanging bodies (docs/decisions/0004)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.arrays import Array
from ..solvers.modes import smallest_eigenvalue, smallest_eigenvalue_above
from ..system.region import Region
from ..system.state import State
from ..system.system import System

# Motions of a hanging net with an eigenvalue below this many g/l are slack, not swings.
_SLACK_FACTOR = 0.3
_CHAIN_FACTOR = 1.446
# Eigenvalues below this fraction of a chain's do not belong to bending.
_ZERO_FRACTION = 1e-2
# Gravity assumed for weightless nets, m/s^2.
_STANDARD_GRAVITY = 9.81


def with_geometric_stiffness(system: System, state: State, factors: Array) -> tuple[Region, ...]:
    """Return the regions with the eigenvalue that weight adds to lambda_1 in a hanging state (docs/decisions/0004).

    factors: (b,) stiffness factor of each block.
    """
    first_factor = float(factors[0])
    tangent = system.tangent(state, factors / first_factor)

    def gravity_eigenvalue(region: Region) -> float:
        if not region.has_elastic_stiffness:
            return _net_eigenvalue(system, region, state, factors) - system.eigenvalue(region, factors)
        found = smallest_eigenvalue(tangent, system.mass, region.free, region.rigid_modes, places=system.rest)
        return first_factor * (found - system.eigenvalue(region, factors / first_factor))

    return tuple(replace(region, gravity_eigenvalue=gravity_eigenvalue(region)) for region in system.regions)


def with_minimum_eigenvalues(system: System, factors: Array) -> tuple[Region, ...]:
    """Return the regions of a system that does not hang: nets get at least the lambda_1 of a hanging chain.

    This applies to systems that fall or have no weight.

    factors: (b,) stiffness factor of each block.
    """
    regions = []
    for region in system.regions:
        material = system.eigenvalue(region, factors)
        minimum = 0.0 if region.has_elastic_stiffness else chain_eigenvalue(system, region, system.rest)
        if not region.has_elastic_stiffness and all(
            system.blocks[k].is_sheet for k in np.unique(system.node_blocks()[region.free])
        ):
            # The eigenvalue of a sheet at rest is unknown so far: stiff card may swing faster than it would hang.
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

    A region without pins uses its extent.
    """
    gravity = float(np.linalg.norm(system.gravity))
    free = positions[region.free]
    length = float(np.ptp(free, axis=0).max(initial=0.0))
    if gravity > 0.0 and len(region.constrained_nodes):
        down = system.gravity / gravity
        length = float((free @ down).max() - (positions[region.constrained_nodes] @ down).min())
    return (gravity or _STANDARD_GRAVITY) / max(length, 1e-3 * max(block.size for block in system.blocks))


def _net_eigenvalue(system: System, region: Region, state: State, factors: Array) -> float:
    """Return lambda_1 of a hanging net, 1/s^2, without the compressive geometric stiffness of its springs.

    Ropes include it, as volumes do: weight softens a rope that stands (docs/decisions/0004).
    """
    bound = slack_eigenvalue_limit(system, region, state.positions)
    is_rope = all(system.blocks[k].is_rope for k in np.unique(system.node_blocks()[region.free]))
    found = smallest_eigenvalue_above(system.tangent(state, factors, not is_rope), system.mass, region.free, bound)
    return chain_eigenvalue(system, region, state.positions) if found is None else found
