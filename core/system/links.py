"""Links: points of two blocks that are held together, softly or rigidly ([Ctl]'s point-to-point constraints)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..elements.assembly import assembled

# A gap below this part of the blocks' size counts as none: the link then pulls in every direction.
TOUCHING = 1e-6
_TINY = 1e-30


@dataclass(frozen=True)
class Joints:
    """All links of a system, each between two points that are weighted means of nodes.

    difference: (l, n), a row for each link: the first point's weights, and the second's with the other sign.
    stiffness: (l,) N/m.
    lengths: (l,) m, the distance that a link keeps; 0 where the points coincide.
    rigid: (l,) whether the stiffness goes with the stiffest block that the link joins, as no dial softens it.
    owners: (l, 2) places of the joined blocks.
    """

    difference: csr_matrix
    stiffness: Array
    lengths: Array
    rigid: Mask
    owners: Index
    rounding: ClassVar[float] = 0.0

    @cached_property
    def pairs(self) -> Index:
        """(q, 2) nodes that a link makes neighbours."""
        found = []
        for row in range(self.difference.shape[0]):
            nodes = self.difference.indices[self.difference.indptr[row] : self.difference.indptr[row + 1]]
            found.append(np.stack([np.full(len(nodes) - 1, nodes[0]), nodes[1:]], axis=1))
        return np.concatenate(found).astype(np.int64) if found else np.zeros((0, 2), dtype=np.int64)

    @cached_property
    def soft(self) -> Joints | None:
        """Those that give way; None where all are rigid."""
        keep = np.flatnonzero(~self.rigid)
        if not len(keep):
            return None
        return Joints(
            self.difference[keep], self.stiffness[keep], self.lengths[keep], self.rigid[keep], self.owners[keep]
        )

    def strength(self, factors: Array) -> Array:
        """(l,) N/m with the blocks' stiffness factors (b,)."""
        return np.where(self.rigid, self.stiffness * factors[self.owners].max(axis=1), self.stiffness)

    def scaled(self, parts: Array) -> Joints:
        """The same with each link's stiffness times the mean of parts (n,) at its points."""
        return replace(self, stiffness=self.stiffness * 0.5 * (abs(self.difference) @ parts))

    def gaps(self, positions: Array) -> Array:
        """(l,) m by which each link is longer than it is to be."""
        return np.asarray(np.linalg.norm(self.difference @ positions, axis=1) - self.lengths)

    def noise(self) -> Array:
        """(n, 3) N/m, the gradient of random changes of all gaps."""
        change = np.random.default_rng(0).standard_normal((len(self.stiffness), 3))
        return np.asarray(self.difference.T @ (self.strength(np.ones(self.owners.max() + 1))[:, None] * change))

    def value_gradient(self, positions: Array, factors: Array) -> tuple[float, Array]:
        """E = sum k/2 (|d| - L)^2 in J and its gradient (n, 3) in N, with d the way between a link's points."""
        k = self.strength(factors)
        way = self.difference @ positions
        length = np.linalg.norm(way, axis=1)
        # For L = 0 this is k d exactly, whatever the length.
        pull = (k * (1.0 - self.lengths / np.maximum(length, _TINY)))[:, None] * way
        energy = 0.5 * float(k @ (length - self.lengths) ** 2)
        return energy, np.asarray(self.difference.T @ pull)

    def hessian(self, positions: Array, factors: Array, project: bool) -> csr_matrix:
        """(3n, 3n) N/m; with project, without what a compressed link has across its direction."""
        k = self.strength(factors)
        way = self.difference @ positions
        length = np.maximum(np.linalg.norm(way, axis=1), _TINY)
        unit = way / length[:, None]
        across = 1.0 - self.lengths / length
        across = np.where(self.lengths == 0.0, 1.0, np.maximum(across, 0.0) if project else across)
        along = unit[:, :, None] * unit[:, None, :]
        blocks = k[:, None, None] * (along + across[:, None, None] * (np.eye(3) - along))
        inner = assembled(blocks, np.arange(len(k))[:, None], len(k))
        spread = _threefold(self.difference)
        return (spread.T @ inner @ spread).tocsr()


def _threefold(matrix: csr_matrix) -> csr_matrix:
    """The matrix (l, n) for each of the three coordinates, (3l, 3n)."""
    wide = matrix.tocoo()
    rows = (3 * wide.row[:, None] + np.arange(3)).ravel()
    columns = (3 * wide.col[:, None] + np.arange(3)).ravel()
    return csr_matrix((wide.data.repeat(3), (rows, columns)), shape=(3 * matrix.shape[0], 3 * matrix.shape[1]))


def rigid_stiffness(diagonals: Array) -> Array:
    """N/m, so stiff that a link gives nothing beside its blocks. diagonals: (l,) N/m, theirs at its ends."""
    return np.asarray(_RIGID * diagonals)


# Times the stiffness of the nodes at a link's ends: at 1e4 a welded bar bends by a ten-thousandth more.
_RIGID = 1e4
