"""Links: soft or rigid connections between points of two blocks ([Ctl]'s point-to-point constraints)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, kron

from ..base.arrays import Array, Index, Mask
from ..materials.assembly import assemble_matrix

# Gaps below this fraction of the blocks' size count as zero. The link then pulls in every direction.
COINCIDENCE_TOLERANCE = 1e-6
_TINY = 1e-30


@dataclass(frozen=True)
class Links:
    """All links of a system. Each link connects two points, which are weighted means of nodes.

    difference: (l, n), one row per link: weights of the first point minus weights of the second.
    stiffness: (l,) N/m.
    rest_lengths: (l,) m; 0 where the points coincide.
    is_rigid: (l,) whether the stiffness is scaled with the stiffer of the two blocks.
    block_indices: (l, 2) indices of the linked blocks.
    """

    difference: csr_matrix
    stiffness: Array
    rest_lengths: Array
    is_rigid: Mask
    block_indices: Index
    rounding: ClassVar[float] = 0.0

    @cached_property
    def node_pairs(self) -> Index:
        """Pairs of nodes that a link connects, (q, 2)."""
        found = []
        for row in range(self.difference.shape[0]):
            nodes = self.difference.indices[self.difference.indptr[row] : self.difference.indptr[row + 1]]
            found.append(np.stack([np.full(len(nodes) - 1, nodes[0]), nodes[1:]], axis=1))
        return np.concatenate(found).astype(np.int64) if found else np.zeros((0, 2), dtype=np.int64)

    @cached_property
    def soft_links(self) -> Links | None:
        """Links that are not rigid; None if all are rigid."""
        rows = np.flatnonzero(~self.is_rigid)
        if not len(rows):
            return None
        return Links(
            self.difference[rows],
            self.stiffness[rows],
            self.rest_lengths[rows],
            self.is_rigid[rows],
            self.block_indices[rows],
        )

    def effective_stiffness(self, factors: Array) -> Array:
        """Return the stiffness with the blocks' stiffness factors (b,), (l,) N/m."""
        return np.where(self.is_rigid, self.stiffness * factors[self.block_indices].max(axis=1), self.stiffness)

    def with_nodal_scale(self, factors: Array) -> Links:
        """Return the links with each stiffness times the mean of factors (n,) at the link's points."""
        return replace(self, stiffness=self.stiffness * 0.5 * (abs(self.difference) @ factors))

    def gaps(self, positions: Array) -> Array:
        """Return the elongation of each link beyond its rest length, (l,) m."""
        return np.asarray(np.linalg.norm(self.difference @ positions, axis=1) - self.rest_lengths)

    def random_gradient(self) -> Array:
        """Return the gradient of random changes of all gaps, (n, 3) N/m."""
        change = np.random.default_rng(0).standard_normal((len(self.stiffness), 3))
        return np.asarray(
            self.difference.T @ (self.effective_stiffness(np.ones(self.block_indices.max() + 1))[:, None] * change)
        )

    def value_gradient(self, positions: Array, factors: Array) -> tuple[float, Array]:
        """Return E = sum k/2 (|d| - L)^2 in J and its gradient (n, 3) N, with d the vector between a link's points."""
        k = self.effective_stiffness(factors)
        difference = self.difference @ positions
        length = np.linalg.norm(difference, axis=1)
        # For L = 0 this is k d exactly, whatever the length.
        force = (k * (1.0 - self.rest_lengths / np.maximum(length, _TINY)))[:, None] * difference
        energy = 0.5 * float(k @ (length - self.rest_lengths) ** 2)
        return energy, np.asarray(self.difference.T @ force)

    def hessian(self, positions: Array, factors: Array, project: bool) -> csr_matrix:
        """Return the Hessian, (3n, 3n) N/m; project omits the negative transverse stiffness of compressed links."""
        k = self.effective_stiffness(factors)
        difference = self.difference @ positions
        length = np.maximum(np.linalg.norm(difference, axis=1), _TINY)
        unit = difference / length[:, None]
        transverse = 1.0 - self.rest_lengths / length
        transverse = np.where(self.rest_lengths == 0.0, 1.0, np.maximum(transverse, 0.0) if project else transverse)
        axial = unit[:, :, None] * unit[:, None, :]
        blocks = k[:, None, None] * (axial + transverse[:, None, None] * (np.eye(3) - axial))
        inner = assemble_matrix(blocks, np.arange(len(k))[:, None], len(k))
        expanded = kron(self.difference, np.eye(3), format="csr")
        return (expanded.T @ inner @ expanded).tocsr()


def rigid_stiffness(diagonals: Array) -> Array:
    """Return the stiffness of a rigid link, (l,) N/m. diagonals: (l,) N/m, stiffness of the blocks at its ends."""
    return np.asarray(_RIGID_RATIO * diagonals)


# Stiffness relative to the nodes at the ends of a link: at 1e4 a welded bar bends by 1e-4 more.
_RIGID_RATIO = 1e4
