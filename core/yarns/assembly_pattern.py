"""Sparse matrix assembly from element blocks with a pattern that is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, Mask


@dataclass(frozen=True)
class AssemblyPattern:
    """Assembly pattern of symmetric blocks (m, k, k) into a matrix (d, d), the identity for unknowns that are not free.

    positions: index of each block entry in the data of the matrix; the last index is for discarded entries.
    indices, pointers: CSR structure of the matrix.  identity_data: matrix data before assembly.
    """

    positions: Index
    indices: Index
    pointers: Index
    identity_data: Array

    @staticmethod
    def of(groups: Sequence[Index], free: Mask) -> AssemblyPattern:
        """Build the pattern. groups: unknowns (m, k) of the blocks of each group; d for none.  free: (d,) mask."""
        size = len(free)
        is_free, fixed = np.append(free, False), np.flatnonzero(~free)
        rows, columns = [], []
        for group in groups:
            width = group.shape[1]
            rows.append(group.repeat(width, axis=1).ravel())
            columns.append(np.tile(group, (1, width)).ravel())
        row, column = np.concatenate(rows), np.concatenate(columns)
        counts = is_free[row] & is_free[column]
        keys = np.unique(np.concatenate([row[counts] * size + column[counts], fixed * (size + 1)]))
        positions = np.full(len(row), len(keys))
        positions[counts] = np.searchsorted(keys, row[counts] * size + column[counts])
        pointers = np.concatenate([[0], np.cumsum(np.bincount(keys // size, minlength=size))])
        identity_data = np.zeros(len(keys))
        identity_data[np.searchsorted(keys, fixed * (size + 1))] = 1.0
        return AssemblyPattern(positions, keys % size, pointers, identity_data)

    def assemble(self, blocks: Sequence[Array]) -> Array:
        """Return the assembled matrix data, without the identity. blocks: (m, k, k) of each group."""
        flat = np.concatenate([block.reshape(-1) for block in blocks])
        return np.bincount(self.positions, flat, minlength=len(self.identity_data) + 1)[:-1].astype(float)

    def matrix(self, numbers: Array) -> csr_matrix:
        """Return the matrix (d, d) from assembled data, including the identity."""
        size = len(self.pointers) - 1
        return csr_matrix((self.identity_data + numbers, self.indices, self.pointers), shape=(size, size))
