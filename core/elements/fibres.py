"""The stretch of fibres that lie in tetrahedra, each along one direction of the rest shape."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index

# A fibre shorter than this part of its length at rest has no direction.
LEAST = 1e-30


class AlongFibres:
    """|F a| - t: how long a fibre is over its length at rest, less the length for which it strives (see Strain).

    F a = sum_k (grad N_k . a) x_k, so that a fibre is known by a number for each corner.
    """

    def __init__(self, shares: Array, elements: Index, lengths: float | Array = 1.0) -> None:
        """shares: (m, 4) 1/m, the shape functions' slopes along each fibre.  elements: (m, 4).  lengths: t, or (m,)."""
        self.elements = elements
        self.shares = shares
        self.lengths = lengths

    def striving(self, lengths: float | Array) -> AlongFibres:
        """The same fibres with another t."""
        return AlongFibres(self.shares, self.elements, lengths)

    def _units(self, corners: Array) -> tuple[Array, Array]:
        along = np.einsum("mk,mki->mi", self.shares, corners)
        length = np.linalg.norm(along, axis=1)
        return along / np.maximum(length, LEAST)[:, None], length

    def stretches(self, corners: Array) -> Array:
        """(m,) |F a|."""
        return self._units(corners)[1]

    def values(self, corners: Array) -> Array:
        return np.asarray((self._units(corners)[1] - self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        unit, _ = self._units(corners)
        return np.asarray((self.shares[:, :, None] * unit[:, None, :]).reshape(len(unit), 1, -1))

    def bent(self, corners: Array, stress: Array) -> Array:
        unit, length = self._units(corners)
        across = (np.eye(3) - unit[:, :, None] * unit[:, None, :]) / np.maximum(length, LEAST)[:, None, None]
        block = across * stress[:, :1, None]
        m, k = self.shares.shape
        pairs = self.shares[:, :, None] * self.shares[:, None, :]
        return np.asarray(np.einsum("mkl,mij->mkilj", pairs, block).reshape(m, 3 * k, 3 * k))
