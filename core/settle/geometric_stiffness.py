"""Geometric stiffness: the effect of weight on the first eigenvalues of hanging bodies (docs/decisions/0004)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix, diags, identity, kron
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import spsolve

from ..base.arrays import Array, Index
from ..geometry.mesh.rigid_motion import fit_rigid_motion
from ..solvers.modes import (
    has_no_eigenvalue_below,
    lowest_mode,
    smallest_eigenvalue,
    smallest_eigenvalue_above,
)
from ..system.region import HangingShape, Region
from ..system.state import State
from ..system.system import System

# Motions of a hanging net with an eigenvalue below this many g/l are slack, not swings.
_SLACK_FACTOR = 0.3
_CHAIN_FACTOR = 1.446
# A sheet is stiff if its first eigenvalue is at least this many times that of a hanging chain. In 40
# random ones, the ratio is 1 to 4.1 for flags, capes and skirts, and 9 to 1,300 for plates, bowls and cards.
_STIFF_SHEET_RATIO = 6.0
# Eigenvalues below this fraction of a chain's do not belong to bending.
_ZERO_FRACTION = 1e-2
# A region hangs if its lowest free node is below its highest pin by at least this fraction of its reach.
_HANGING_FRACTION = 0.2
# Gravity assumed for weightless nets, m/s^2.
_STANDARD_GRAVITY = 9.81
# A region is stretched between two pins if the way from one to the other by its farthest node is shorter than this many
# times their distance.
_SPANNED_RATIO = 1.5
# Connections shorter than this fraction of the way to the pins count as this long.
_MIN_LENGTH_FRACTION = 1e-3


def with_geometric_stiffness(
    system: System,
    state: State,
    factors: Array,
    posed: Array,
    acceleration: Array,
    acceleration_gradient: Array | None = None,
) -> tuple[Region, ...]:
    """Return the regions with the eigenvalue that weight adds to lambda_1 in a hanging state (docs/decisions/0004).

    factors: (b,) stiffness factor of each block.
    posed: (n, 3) m, the nodes in the first pose without weight.
    acceleration: (3,) or (n, 3) m/s^2, external, in the hanging state.
    acceleration_gradient: (n, 3, 3) 1/s^2, its change with the position of each node; None if it does not change.
    """
    first_factor = float(factors[0])
    accelerations = np.broadcast_to(acceleration, posed.shape)
    tangent = system.tangent(state, factors / first_factor)
    stiffness_of_load = None
    if acceleration_gradient is not None and acceleration_gradient.any():
        stiffness_of_load = _load_stiffness(system.mass, acceleration_gradient)
        tangent = tangent + stiffness_of_load / first_factor

    def with_weight(region: Region) -> Region:
        truss = None
        if region.has_elastic_stiffness:
            found = smallest_eigenvalue(tangent, system.mass, region.free, region.rigid_modes, places=system.rest)
            added = first_factor * (found - system.eigenvalue(region, factors / first_factor))
            is_stable = found > 0.0 or region.rigid_modes > 0
        else:
            truss = _truss_eigenvalue(system, region, state, factors, stiffness_of_load)
            found, is_stable = truss or 0.0, True
            if truss is None:
                found, is_stable = _net_eigenvalue(system, region, state, factors, stiffness_of_load)
            added = found - system.eigenvalue(region, factors)
        stands = _height(system, region, posed) >= _HANGING_FRACTION * _extent(posed[region.free])
        is_upright = is_stable and _height(system, region, state.positions) > 0.0
        hanging, load = None, accelerations[region.free]
        is_uniform = bool((load == load[0]).all())
        if is_stable and (is_uniform or acceleration_gradient is None):
            rotation = fit_rigid_motion(system.rest[region.free], posed[region.free])[0]
            way = state.positions[region.free] - posed[region.free]
            hanging = HangingShape(way @ rotation, (load[0] if is_uniform else load) @ rotation, factors)
        can_stand = is_upright or not stands
        return replace(
            region,
            gravity_eigenvalue=added,
            is_truss=truss is not None,
            can_stand=can_stand,
            hanging_shape=hanging,
        )

    return tuple(with_weight(region) for region in system.regions)


def with_minimum_eigenvalues(system: System, factors: Array) -> tuple[Region, ...]:
    """Return the regions of a system that does not hang: nets get at least the lambda_1 of a hanging chain.

    This applies to systems that fall or have no weight.

    factors: (b,) stiffness factor of each block.
    """
    regions = []
    for region in system.regions:
        material = system.eigenvalue(region, factors)
        if not region.has_elastic_stiffness and _keeps_its_shape(system, region, factors):
            regions.append(replace(region, is_truss=True, gravity_eigenvalue=0.0))
            continue
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


def estimated_regions(system: System, factors: Array, posed: Array) -> tuple[Region, ...] | None:
    """Return the regions of a system of hanging sheets with lambda_1 estimated without their hanging shape.

    The tension of the weight is assumed to flow along the sheet to the nearest pins. Its geometric stiffness is added
    to the elastic stiffness at rest. Return None if that says too little: for other bodies, and for regions that stand
    or are stretched between pins.

    factors: (b,) stiffness factor of each block.
    posed: (n, 3) m, the nodes in the first pose without weight.
    """
    if not system.gravity.any() or not all(block.is_sheet and np.all(block.is_net) for block in system.blocks):
        return None
    elastic = system.tangent(State.at_rest(system.rest), factors, True)
    graph, regions = _distance_graph(elastic, posed), []
    for region in system.regions:
        stands = _height(system, region, posed) >= _HANGING_FRACTION * _extent(posed[region.free])
        if region.has_elastic_stiffness or region.rigid_modes or not len(region.constrained_nodes) or stands:
            return None
        distances, _, nearest = dijkstra(
            graph, indices=region.constrained_nodes, min_only=True, return_predecessors=True
        )
        farthest = region.free[int(np.argmax(distances[region.free]))]
        length = float(distances[farthest])
        between = np.linalg.norm(posed[region.constrained_nodes] - posed[nearest[farthest]], axis=1)
        ways = length + dijkstra(graph, indices=farthest)[region.constrained_nodes]
        if not 0.0 < length < np.inf or (ways < _SPANNED_RATIO * between).any():
            return None
        weight = _tension_stiffness(graph, distances, system.mass * float(np.linalg.norm(system.gravity)), region.free)
        bound = _SLACK_FACTOR * float(np.linalg.norm(system.gravity)) / length
        found = smallest_eigenvalue_above(elastic + weight, system.mass, region.free, bound)
        if found is None:
            return None
        regions.append(replace(region, gravity_eigenvalue=found - system.eigenvalue(region, factors)))
    return tuple(regions)


def _distance_graph(matrix: csr_matrix, positions: Array) -> csr_matrix:
    """Return the distances in m of nodes that share a block of a matrix (3n, 3n). positions: (n, 3) m."""
    blocks = matrix.tobsr((3, 3))
    rows, columns = np.arange(len(positions)).repeat(np.diff(blocks.indptr)), blocks.indices
    distances = np.linalg.norm(positions[rows] - positions[columns], axis=1)
    # A distance of zero would mean that there is no connection.
    return csr_matrix((np.maximum(distances, 1e-12), (rows, columns)), shape=(len(positions),) * 2)


def _tension_stiffness(graph: csr_matrix, distances: Array, weight: Array, free: Index) -> csr_matrix:
    """Return the geometric stiffness (3n, 3n) N/m if each node hangs from all neighbours that are closer to the pins.

    graph: lengths in m of the connections.  distances: (n,) m from the pins.  weight: (n,) N.  free: nodes that hang.
    """
    edges, is_free = graph.tocoo(), np.zeros(len(weight), dtype=bool)
    is_free[free] = True
    used = is_free[edges.row] & (distances[edges.col] < distances[edges.row])
    low, high, lengths = edges.row[used], edges.col[used], edges.data[used]
    slope = (distances[low] - distances[high]) / lengths
    total = np.bincount(low, slope**2, minlength=len(weight))
    # Each node passes its load on, in proportion to the squared slopes of the connections.
    passed = csr_matrix((slope**2 / total[low], (high, low)), shape=graph.shape)
    load = spsolve((identity(len(weight)) - passed).tocsc(), weight * is_free)
    stiffness = load[low] * slope / total[low] / np.maximum(lengths, _MIN_LENGTH_FRACTION * distances.max())
    laplacian = csr_matrix((stiffness, (low, high)), shape=graph.shape)
    laplacian = laplacian + laplacian.T
    return kron(diags(np.asarray(laplacian.sum(axis=1)).ravel()) - laplacian, identity(3), format="csr")


def chain_eigenvalue(system: System, region: Region, positions: Array) -> float:
    """Return lambda_1 = 1.446 g/l of a chain as long as a region hangs down in positions (n, 3), 1/s^2.

    (j/2)^2 = 1.446 with the first zero j of Bessel's J_0: the hanging chain of Bernoulli.
    """
    return _CHAIN_FACTOR * _gravity_over_length(system, region, positions)


def can_snap_taut(system: System, region: Region, eigenvalue: float) -> bool:
    """Return whether a region with a first eigenvalue in 1/s^2 is a net, or a slack sheet. Trusses are not."""
    blocks = [system.blocks[k] for k in np.unique(system.node_blocks()[region.free])]
    if region.is_truss or all(block.is_rope for block in blocks):
        return False
    is_stiff = eigenvalue >= _STIFF_SHEET_RATIO * chain_eigenvalue(system, region, system.rest)
    return not (is_stiff and all(block.is_sheet or block.is_rope for block in blocks))


def _keeps_its_shape(system: System, region: Region, factors: Array) -> bool:
    """Return whether springs resist all motions of a region that is not deformed."""
    blocks = [system.blocks[k] for k in np.unique(system.node_blocks()[region.free])]
    if not all(block.has_springs_only for block in blocks):
        return False
    bound = _ZERO_FRACTION * chain_eigenvalue(system, region, system.rest)
    tangent = system.tangent(State.at_rest(system.rest), factors)
    return has_no_eigenvalue_below(tangent, system.mass, region.free, bound)


def _truss_eigenvalue(
    system: System, region: Region, state: State, factors: Array, stiffness_of_load: csr_matrix | None
) -> float | None:
    """Return lambda_1 of a truss at rest under its weight, 1/s^2: that of the whole tangent, as of a solid.

    Return None for a net that has slack motions, or one that weight makes slack. See _net_eigenvalue.
    """
    if not _keeps_its_shape(system, region, factors):
        return None
    bound = slack_eigenvalue_limit(system, region, state.positions)
    tangent = system.tangent(state, factors)
    if stiffness_of_load is not None:
        tangent = (tangent + stiffness_of_load).tocsr()
    if not has_no_eigenvalue_below(tangent, system.mass, region.free, bound):
        return None
    return smallest_eigenvalue_above(tangent, system.mass, region.free, bound)


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


def _load_stiffness(mass: Array, gradient: Array) -> csr_matrix:
    """Return the stiffness (3n, 3n) N/m by which forces that vary in space resist motion.

    mass: (n,) kg.  gradient: (n, 3, 3) 1/s^2, of the accelerations.
    """
    blocks = -0.5 * mass[:, None, None] * (gradient + gradient.transpose(0, 2, 1))
    count = len(mass)
    return bsr_matrix((blocks, np.arange(count), np.arange(count + 1)), shape=(3 * count,) * 2).tocsr()


def _net_eigenvalue(
    system: System, region: Region, state: State, factors: Array, stiffness_of_load: csr_matrix | None = None
) -> tuple[float, bool]:
    """Return lambda_1 of a net at rest under its weight, 1/s^2, and whether it can stand (docs/decisions/0004).

    In a hanging sheet, compressive geometric stiffness only causes wrinkles, so it is left out. Ropes, and regions that
    stand, include it: weight softens them. A region that cannot stand falls over and hangs, so it gets the lambda_1 of
    a hanging chain.

    stiffness_of_load: (3n, 3n) N/m of a load that varies in space; None if it is uniform.
    """
    bound = slack_eigenvalue_limit(system, region, state.positions)
    is_rope = all(system.blocks[k].is_rope for k in np.unique(system.node_blocks()[region.free]))
    hangs = _hangs(*_reach_and_drop(system, region, state.positions))
    tangent = system.tangent(state, factors, hangs and not is_rope)
    if stiffness_of_load is not None:
        tangent = (tangent + stiffness_of_load).tocsr()
    falls = not hangs and lowest_mode(tangent, system.mass, region.free, -bound) is not None
    found = None if falls else smallest_eigenvalue_above(tangent, system.mass, region.free, bound)
    return chain_eigenvalue(system, region, state.positions) if found is None else found, not falls
