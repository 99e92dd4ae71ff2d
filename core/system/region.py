"""Regions: connected components of free nodes with the pins at their borders.

See docs/explanation/physics/02-settle-law.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

from ..base.arrays import Array, Index, Mask
from ..geometry.mesh.rigid_motion import rigid_mode_basis
from ..solvers.modes import smallest_eigenvalue

# Lower bound on lambda_1 close to buckling, as a fraction of the elastic eigenvalue.
_MIN_EIGENVALUE_FRACTION = 0.05


@dataclass(frozen=True)
class HangingShape:
    """Equilibrium of a region under its load in the first pose.

    displacements: (f, 3) m, of the free nodes from their undeformed positions, in the frame of the rest shape.
    acceleration: (3,) or (f, 3) m/s^2, in the same frame.  factors: (b,) stiffness factor of each block.
    """

    displacements: Array
    acceleration: Array
    factors: Array

    def acceleration_change(self, acceleration: Array, rotation: Array) -> Array:
        """Return the difference between an acceleration and that of the equilibrium, in the frame of the rest shape.

        acceleration: (3,) or (f, 3) m/s^2.  rotation: (3, 3), of the region since rest.
        """
        return np.asarray(acceleration @ rotation - self.acceleration)


@dataclass(frozen=True)
class Region:
    """Free nodes connected by elements and links.

    free: (f,) free nodes.
    constrained_nodes: (p,) hard or soft pins of the region (soft ones are also in free).
    eigenvalue: the smallest non-rigid eigenvalue lambda_1 of K a = lambda M a at rest, 1/s^2.
    rigid_modes: number of undamped rigid modes, 0 to 6: those that the pins leave free, or 0 if pendulum motion is
        damped.
    has_elastic_stiffness: whether elasticity alone keeps the shape; otherwise weight does, as in a net.
    gravity_eigenvalue: contribution of the weight to lambda_1 in the hanging shape, 1/s^2 (docs/decisions/0004).
    is_truss: whether it is a net of springs none of whose motions is slack, neither without weight nor in its hanging
        shape.
    can_stand: False if weight makes a region fall over that stands above its pins in the first pose.
    hanging_shape: None without weight, and where the equilibrium is unstable or unknown.
    """

    free: Index
    constrained_nodes: Index
    eigenvalue: float
    rigid_modes: int
    has_elastic_stiffness: bool = True
    gravity_eigenvalue: float = 0.0
    is_truss: bool = False
    can_stand: bool = True
    hanging_shape: HangingShape | None = None

    def effective_eigenvalue(self, eigenvalue: float) -> float:
        """Return an elastic lambda_1 plus the contribution of the weight, 1/s^2."""
        return max(eigenvalue + self.gravity_eigenvalue, _MIN_EIGENVALUE_FRACTION * eigenvalue)


def find_regions(
    rest: Array,
    groups: Sequence[Index],
    mass: Array,
    stiffness: csr_matrix | None,
    is_fixed: Mask,
    is_soft: Mask,
    keeps_pendulum_free: Mask,
    is_net: Mask,
    is_sheet: Mask | None = None,
) -> tuple[Region, ...]:
    """Divide the free nodes into regions.

    rest: (n, 3) m.  groups: (m, k) each, node numbers of elements.  mass: (n,) kg.
    stiffness: (3n, 3n) N/m, Hessian at rest with soft pins; if None, eigenvalues are set to 1.
    is_fixed, is_soft: (n,) masks of hard and soft pins.
    keeps_pendulum_free: (n,) whether the node's block leaves pendulum motion undamped.
    is_net: (n,) whether its block is a net.
    is_sheet: (n,) whether its block is a sheet.

    The first eigenvalue at rest is set to 0 where it is computed in the hanging shape only: in sheets, which have many
    slow bending modes, and in nets whose pins leave a pendulum, such as a rope on one pin.
    """
    adjacency = node_adjacency(groups, len(rest))
    free_nodes = np.flatnonzero(~is_fixed)
    regions = []
    for free in connected_parts(adjacency, free_nodes):
        border = np.unique(adjacency[free].indices)
        constrained_nodes = np.union1d(border[is_fixed[border]], free[is_soft[free]]).astype(np.int64)
        rigid_count = rigid_mode_basis(rest[free], rest[constrained_nodes], mass[free]).shape[2]
        undamped_count = rigid_count if keeps_pendulum_free[free].all() or not len(constrained_nodes) else 0
        has_net = bool(is_net[free].any())
        eigenvalue = 1.0
        swings_by_weight = has_net and len(constrained_nodes) > 0 and rigid_count > undamped_count
        if swings_by_weight or (is_sheet is not None and is_sheet[free].all()):
            eigenvalue = 0.0
        elif stiffness is not None:
            eigenvalue = max(smallest_eigenvalue(stiffness, mass, free, rigid_count, has_net, rest), 0.0)
        regions.append(
            Region(free, constrained_nodes, eigenvalue, undamped_count, not has_net and undamped_count == rigid_count)
        )
    return tuple(regions)


def connected_parts(adjacency: csr_matrix, nodes: Index) -> list[Index]:
    """Return the connected components of nodes (k,), each in the order of the given ones.

    adjacency: (n, n), see node_adjacency(). Ways through other nodes do not connect.
    """
    count, labels = connected_components(adjacency[nodes][:, nodes], directed=False)
    order = np.argsort(labels, kind="stable")
    return np.split(nodes[order], np.cumsum(np.bincount(labels, minlength=count))[:-1]) if count else []


def node_adjacency(groups: Sequence[Index], count: int) -> csr_matrix:
    """Return the adjacency matrix (n, n) of nodes that share an element."""
    total = csr_matrix((count, count), dtype=np.int8)
    for group in groups:
        k = group.shape[1]
        ends = np.array([(i, j) for i in range(k) for j in range(k) if i != j])
        a, b = group[:, ends[:, 0]].ravel(), group[:, ends[:, 1]].ravel()
        total = total + coo_matrix((np.ones(len(a), dtype=np.int8), (a, b)), shape=(count, count)).tocsr()
    return total.tocsr()


def longest_ways(regions: Sequence[Region], rest: Array, adjacency: csr_matrix) -> tuple[float, ...]:
    """Return the longest way through each region along its elements at rest, m, found in two sweeps.

    rest: (n, 3) m.  adjacency: (n, n), see node_adjacency().

    The region is about as long when it is straightened. Ways along elements zigzag: those across a square net without
    diagonals are up to 1.41 times too long. So two nodes with at least two common neighbours count as connected.
    """
    if not regions:
        return ()
    # Regions may share pins, so each has its own copies of them.
    parts = [np.union1d(region.free, region.constrained_nodes) for region in regions]
    nodes, starts = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    owner = np.arange(len(regions)).repeat(np.diff(starts))
    pairs = adjacency[nodes][:, nodes].tocoo()
    is_inside = (pairs.data > 0) & (owner[pairs.row] == owner[pairs.col])
    pairs = pairs.row[is_inside], pairs.col[is_inside]
    near = csr_matrix((np.ones(len(pairs[0]), dtype=np.int32), pairs), shape=(len(nodes), len(nodes)))
    near = (near + ((near @ near) > 1)).tocoo()
    lengths = np.linalg.norm(rest[nodes[near.row]] - rest[nodes[near.col]], axis=1)
    # A length of zero would mean that there is no connection.
    graph = csr_matrix((np.maximum(lengths, 1e-12), (near.row, near.col)), shape=near.shape)
    sources, ways = starts[:-1], np.zeros(len(regions))
    for _ in range(2):
        found = dijkstra(graph, directed=False, indices=sources, min_only=True)
        found[np.isinf(found)] = 0.0
        ways = np.maximum.reduceat(found, starts[:-1])
        # The first of the farthest nodes of each region.
        farthest = np.flatnonzero(found == ways[owner])
        sources = farthest[np.unique(owner[farthest], return_index=True)[1]]
    return tuple(ways.tolist())


@dataclass(frozen=True)
class RegionStack:
    """Regions with equally many free nodes and pins, see System.held_nodes().

    places: (r,) indices of the regions.  free: (r, f).  pins: (r, p).
    """

    places: Index
    free: Index
    pins: Index


def stack_regions(free: Sequence[Index], pins: Sequence[Index]) -> tuple[RegionStack, ...]:
    """Return all regions by the free nodes and the pins of each, those of equal size in one stack.

    Hair has hundreds of small regions.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for place, (one, its_pins) in enumerate(zip(free, pins, strict=True)):
        alike.setdefault((len(one), len(its_pins)), []).append(place)
    return tuple(
        RegionStack(
            np.array(places),
            np.stack([free[place] for place in places]),
            np.stack([pins[place] for place in places]),
        )
        for places in alike.values()
    )
