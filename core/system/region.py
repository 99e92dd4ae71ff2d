"""Regions: connected pieces of free nodes with the pins that border them (physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index, Mask
from ..geometry.rigid import rigid_basis
from ..solvers.modes import smallest_eigenvalue

# A body on the verge of buckling keeps this part of its first eigenvalue.
_LEAST = 0.05


@dataclass(frozen=True)
class Region:
    """Free nodes that elements and links join.

    free: (f,) free nodes.
    held: (p,) nodes that hold the region, hard or soft pins (soft ones are also in free).
    eigenvalue: the smallest non-rigid eigenvalue lambda_1 of K a = lambda M a at rest, 1/s^2.
    rigid_modes: how many rigid motions are left undamped, 0 to 6: those that the pins leave, or none where the swing
        about them is damped too.
    stiff: whether its shape is kept by elasticity alone; else weight keeps it, as in a net.
    weight: what the body's own weight adds to lambda_1 where it hangs, 1/s^2 (docs/decisions/0004).
    """

    free: Index
    held: Index
    eigenvalue: float
    rigid_modes: int
    stiff: bool = True
    weight: float = 0.0

    def with_weight(self, eigenvalue: float) -> float:
        """A lambda_1 of the elasticity alone with what the weight adds, 1/s^2."""
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
    """Cut the free nodes into regions.

    rest: (n, 3).  groups: each (m, k), nodes that belong together.  mass: (n,) kg.  stiffness: the Hessian at rest
    with soft pins, (3n, 3n) N/m; without it the eigenvalues are taken as 1.  fixed, soft: (n,) the hard and the soft
    pins.  swings: (n,) whether the node's block leaves swinging about the pins undamped.
    net: (n,) whether its block is a net, see Block.
    sheet: (n,) whether its block is a sheet, of whose many slow bends the first eigenvalue at rest says nothing: it
        counts as 0, and what matters is found where it hangs.
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
    """(n, n), not zero where two of n nodes are in one element of a group."""
    total = csr_matrix((count, count), dtype=np.int8)
    for group in groups:
        k = group.shape[1]
        ends = np.array([(i, j) for i in range(k) for j in range(k) if i != j])
        a, b = group[:, ends[:, 0]].ravel(), group[:, ends[:, 1]].ravel()
        total = total + coo_matrix((np.ones(len(a), dtype=np.int8), (a, b)), shape=(count, count)).tocsr()
    return total.tocsr()
