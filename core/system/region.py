"""Regions: connected components of free nodes with the pins at their borders (physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index, Mask
from ..geometry.rigid import rigid_basis
from ..solvers.modes import smallest_eigenvalue

# Lower bound on lambda_1 close to buckling, as a fraction of the elastic eigenvalue.
_LEAST = 0.05


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
    """

    free: Index
    held: Index
    eigenvalue: float
    rigid_modes: int
    stiff: bool = True
    weight: float = 0.0

    def with_weight(self, eigenvalue: float) -> float:
        """Return an elastic lambda_1 plus the contribution of the weight, 1/s^2."""
        return max(eigenvalue + self.weight, _LEAST * eigenvalue)


def find_regions(
    rest: Array,
    groups: Sequence[Index],
    mass: Array,
    stiffness: csr_matrix | None,
    fixed: Mask,
    soft: Mask,
    swings: Mask,
    net: Mask,
    sheet: Mask | None = None,
) -> tuple[Region, ...]:
    """Divide the free nodes into regions.

    rest: (n, 3) m.  groups: (m, k) each, node numbers of elements.  mass: (n,) kg.
    stiffness: (3n, 3n) N/m, Hessian at rest with soft pins; if None, eigenvalues are set to 1.
    is_fixed, is_soft: (n,) masks of hard and soft pins.
    keeps_pendulum_free: (n,) whether the node's block leaves pendulum motion undamped.
    is_net: (n,) whether its block is a net.
    is_sheet: (n,) whether its block is a sheet. A sheet has many slow bending modes, so its first eigenvalue at rest is
        set to 0 and computed in the hanging shape instead.
    """
    touching = neighbours(groups, len(rest))
    loose = np.flatnonzero(~fixed)
    count, labels = connected_components(touching[loose][:, loose], directed=False)
    order = np.argsort(labels, kind="stable")
    pieces = np.split(loose[order], np.cumsum(np.bincount(labels, minlength=count))[:-1]) if count else []
    regions = []
    for free in pieces:
        border = np.unique(touching[free].indices)
        held = np.union1d(border[fixed[border]], free[soft[free]]).astype(np.int64)
        left = rigid_basis(rest[free], rest[held], mass[free]).shape[2]
        modes = left if swings[free].all() or not len(held) else 0
        loose_shape = bool(net[free].any())
        eigenvalue = 1.0
        if sheet is not None and sheet[free].all():
            eigenvalue = 0.0
        elif stiffness is not None:
            eigenvalue = max(smallest_eigenvalue(stiffness, mass, free, left, loose_shape, rest), 0.0)
        regions.append(Region(free, held, eigenvalue, modes, not loose_shape and modes == left))
    return tuple(regions)


def neighbours(groups: Sequence[Index], count: int) -> csr_matrix:
    """Return the adjacency matrix (n, n) of nodes that share an element."""
    total = csr_matrix((count, count), dtype=np.int8)
    for group in groups:
        k = group.shape[1]
        ends = np.array([(i, j) for i in range(k) for j in range(k) if i != j])
        a, b = group[:, ends[:, 0]].ravel(), group[:, ends[:, 1]].ravel()
        total = total + coo_matrix((np.ones(len(a), dtype=np.int8), (a, b)), shape=(count, count)).tocsr()
    return total.tocsr()
