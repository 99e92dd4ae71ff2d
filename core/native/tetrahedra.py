"""Compiled stable Neo-Hookean energy of linear tetrahedra."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index
from .arguments import require_indices, require_row_count, require_shape
from .library import LANES, KernelLibrary
from .sheets import CompiledElements


class CompiledTetrahedra(CompiledElements):
    """Compiled equivalent of energies.tetrahedra.TetElasticity."""

    def __init__(
        self, library: KernelLibrary, nodes: int, tets: Index, shape: Array, weights: Array, model: tuple[float, ...]
    ) -> None:
        """Arrange tetrahedra in batches for the kernel.

        nodes: number of nodes.  tets: (m, 4).  shape: (m, 4, 3) 1/m, gradients of the corners' shape functions.
        weights: (m,) m^3.  model: mu, lambda, alpha, and the offset that is subtracted from the energy density.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        require_row_count(nodes, "nodes")
        require_indices(tets, (len(tets), 4), nodes, "corners of tetrahedra")
        require_shape(shape, (len(tets), 4, 3), "shape gradients")
        require_shape(weights, (len(tets),), "weights of tetrahedra")
        coefficients = np.array(model, dtype=float)
        require_shape(coefficients, (4,), "coefficients of the model")
        padding = -len(tets) % LANES
        # The last batch is padded with copies of the last tetrahedron of zero weight.
        padded_tets = np.concatenate([tets, np.repeat(tets[-1:], padding, axis=0)])
        inverse = np.concatenate([shape[:, 1:], np.zeros((padding, 3, 3))])
        super().__init__(
            library.neo_hookean,
            nodes,
            padded_tets.reshape(-1, LANES, 4).transpose(0, 2, 1),
            inverse.reshape(-1, LANES, 3, 3).transpose(0, 2, 3, 1),
            np.concatenate([weights, np.zeros(padding)]),
            coefficients,
        )
        self._count = len(padded_tets)
