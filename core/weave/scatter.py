"""Sparse matrices of element blocks whose places are known once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask


@dataclass(frozen=True)
class Scatter:
    """Adds symmetric blocks (m, k, k) up to a matrix (d, d), which is that of ones for unknowns that are not free.

    places: where each number of the blocks goes among the matrix's; the last place is for what goes nowhere.
    indices, pointers, begun: of the matrix, and its numbers before anything is added.
    """

    places: Index
    indices: Index
    pointers: Index
    begun: Array

    @staticmethod
    def of(groups: Sequence[Index], free: Mask) -> Scatter:
        """groups: each (m, k), the unknowns of its blocks; d and more for none.  free: (d,)."""
        size = len(free)
        there, alone = np.append(free, False), np.flatnonzero(~free)
        rows, columns = [], []
        for group in groups:
            width = group.shape[1]
            rows.append(group.repeat(width, axis=1).ravel())
            columns.append(np.tile(group, (1, width)).ravel())
        row, column = np.concatenate(rows), np.concatenate(columns)
        counts = there[row] & there[column]
        keys = np.unique(np.concatenate([row[counts] * size + column[counts], alone * (size + 1)]))
        places = np.full(len(row), len(keys))
        places[counts] = np.searchsorted(keys, row[counts] * size + column[counts])
        pointers = np.concatenate([[0], np.cumsum(np.bincount(keys // size, minlength=size))])
        begun = np.zeros(len(keys))
        begun[np.searchsorted(keys, alone * (size + 1))] = 1.0
        return Scatter(places, keys % size, pointers, begun)

    def numbers(self, blocks: Sequence[Array]) -> Array:
        """Of the matrix, less the ones. blocks: (m, k, k) of each group."""
        flat = np.concatenate([block.reshape(-1) for block in blocks])
        return np.bincount(self.places, flat, minlength=len(self.begun) + 1)[:-1].astype(float)

    def matrix(self, numbers: Array) -> csr_matrix:
        """(d, d), with the ones."""
        size = len(self.pointers) - 1
        return csr_matrix((self.begun + numbers, self.indices, self.pointers), shape=(size, size))
