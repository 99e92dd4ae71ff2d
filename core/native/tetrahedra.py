"""The stable Neo-Hookean energy of linear tetrahedra, compiled."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from .library import LOT, Library


class Tetrahedra:
    """The same as energies.tetrahedra.TetElasticity, by another order of sums."""

    def __init__(
        self, library: Library, nodes: int, tets: Index, shape: Array, weights: Array, model: tuple[float, ...]
    ) -> None:
        """tets: (m, 4), of so many nodes.  shape: (m, 4, 3) 1/m, gradients of the corners' shape functions.

        weights: (m,) m^3.  model: mu, lambda, alpha, and what is subtracted from the density.

        Raises ValueError where these do not fit each other: memory is read as they say.
        """
        if not len(tets) == len(shape) == len(weights):
            raise ValueError(f"of {len(tets)} tetrahedra there are {len(shape)} shapes and {len(weights)} weights")
        if len(tets) and not 0 <= tets.min() <= tets.max() < nodes:
            raise ValueError(f"a tetrahedron has a node beyond the {nodes}")
        self._call, self._nodes = library.neo_hookean, nodes
        more = -len(tets) % LOT
        self._count = len(tets) + more
        # What fills up the last lot has no weight, and is where another one is.
        of = np.concatenate([tets, np.repeat(tets[-1:], more, axis=0)])
        inverse = np.concatenate([shape[:, 1:], np.zeros((more, 3, 3))])
        self._held = (
            np.ascontiguousarray(of.reshape(-1, LOT, 4).transpose(0, 2, 1), dtype=np.int32),
            np.ascontiguousarray(inverse.reshape(-1, LOT, 3, 3).transpose(0, 2, 3, 1)),
            np.concatenate([weights, np.zeros(more)]),
            np.array(model, dtype=float),
        )
        self._corners, self._inverse, self._weights, self._model = (one.ctypes.data for one in self._held)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """In J and N, of positions (n, 3) m."""
        if positions.shape != (self._nodes, 3):
            raise ValueError(f"positions are {positions.shape} instead of {(self._nodes, 3)}")
        x, gradient = np.ascontiguousarray(positions, dtype=float), np.zeros((self._nodes, 3))
        value = self._call(
            self._count, self._corners, self._inverse, self._weights, x.ctypes.data, self._model, gradient.ctypes.data
        )
        return float(value), gradient
