"""Stretch of fibres in tetrahedra, each along one direction of the rest shape."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index

# A fibre shorter than this, relative to its rest length, has no direction.
LEAST = 1e-30


class AlongFibres:
    """Fibre strain |F a| - t: the stretch of a fibre minus its target stretch (see Strain).

    F a = sum_k (grad N_k . a) x_k, so a fibre is defined by one coefficient per corner.
    """

    def __init__(self, shares: Array, elements: Index, lengths: float | Array = 1.0) -> None:
        """Store the fibres.

        directional_gradients: (m, 4) 1/m, derivatives of the shape functions along each fibre.  elements: (m, 4).
        target_stretches: t, a number or (m,).
        """
        self.elements = elements
        self.shares = shares
        self.lengths = lengths

    def striving(self, lengths: float | Array) -> AlongFibres:
        """Return the same fibres with other target stretches t."""
        return AlongFibres(self.shares, self.elements, lengths)

    def _units(self, corners: Array) -> tuple[Array, Array]:
        """Return the unit directions (m, 3) and stretches (m,) of the fibres."""
        along = np.einsum("mk,mki->mi", self.shares, corners)
        length = np.linalg.norm(along, axis=1)
        return along / np.maximum(length, LEAST)[:, None], length

    def stretches(self, corners: Array) -> Array:
        """Return the stretches |F a| (m,)."""
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
