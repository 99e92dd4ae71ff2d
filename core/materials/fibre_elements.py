"""Stretch of fibres in tetrahedra, each along one direction of the rest shape."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index

# A fibre shorter than this, relative to its rest length, has no direction.
MIN_STRETCH = 1e-30


class FibreStrain:
    """Fibre strain |F a| - t: the stretch of a fibre minus its target stretch (see Strain).

    F a = sum_k (grad N_k . a) x_k, so a fibre is defined by one coefficient per corner.
    """

    def __init__(self, directional_gradients: Array, elements: Index, target_stretches: float | Array = 1.0) -> None:
        """Store the fibres.

        directional_gradients: (m, 4) 1/m, derivatives of the shape functions along each fibre.  elements: (m, 4).
        target_stretches: t, a number or (m,).
        """
        self.elements = elements
        self.directional_gradients = directional_gradients
        self.target_stretches = target_stretches

    def with_target_stretches(self, target_stretches: float | Array) -> FibreStrain:
        """Return the same fibres with other target stretches t."""
        return FibreStrain(self.directional_gradients, self.elements, target_stretches)

    def _directions_and_stretches(self, corners: Array) -> tuple[Array, Array]:
        """Return the unit directions (m, 3) and stretches (m,) of the fibres."""
        along = np.einsum("mk,mki->mi", self.directional_gradients, corners)
        length = np.linalg.norm(along, axis=1)
        return along / np.maximum(length, MIN_STRETCH)[:, None], length

    def stretches(self, corners: Array) -> Array:
        """Return the stretches |F a| (m,)."""
        return self._directions_and_stretches(corners)[1]

    def values(self, corners: Array) -> Array:
        return np.asarray((self._directions_and_stretches(corners)[1] - self.target_stretches)[:, None])

    def gradient(self, corners: Array) -> Array:
        unit, _ = self._directions_and_stretches(corners)
        return np.asarray((self.directional_gradients[:, :, None] * unit[:, None, :]).reshape(len(unit), 1, -1))

    def contracted_hessian(self, corners: Array, stress: Array) -> Array:
        unit, length = self._directions_and_stretches(corners)
        transverse = (np.eye(3) - unit[:, :, None] * unit[:, None, :]) / np.maximum(length, MIN_STRETCH)[:, None, None]
        block = transverse * stress[:, :1, None]
        m, k = self.directional_gradients.shape
        pairs = self.directional_gradients[:, :, None] * self.directional_gradients[:, None, :]
        return np.asarray(np.einsum("mkl,mij->mkilj", pairs, block).reshape(m, 3 * k, 3 * k))
