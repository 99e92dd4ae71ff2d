"""Stretch of elements, for the overlay of the most stretched one."""

from __future__ import annotations

import numpy as np

from ....core.base.arrays import Array
from ....core.simulation.simulation import Simulation


def element_stretches(simulation: Simulation, name: str, positions: Array) -> Array:
    """Return the largest stretch or compression (m,) of each element: 1 at rest, infinite for inverted tetrahedra.

    positions: nodes (n, 3) m.  Elements that fully follow the animation are not simulated and count as 1.
    """
    block = simulation.model_of(name).block
    rest, tets = block.rest, block.groups[0]
    if tets.shape[1] != 4:
        # Elements of any other type: compare all distances between their nodes.
        first, second = np.triu_indices(tets.shape[1], 1)
        ratio = np.linalg.norm(positions[tets[:, first]] - positions[tets[:, second]], axis=2)
        ratio = ratio / np.linalg.norm(rest[tets[:, first]] - rest[tets[:, second]], axis=2)
        return np.asarray(np.maximum(ratio, 1.0 / np.maximum(ratio, 1e-9)).max(axis=1))

    def edge_matrices(points: Array) -> Array:
        corners = points[tets]
        return (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)

    F = edge_matrices(positions) @ np.linalg.inv(edge_matrices(rest))
    singular_values = np.linalg.svd(F, compute_uv=False)
    largest = np.maximum(singular_values[:, 0], 1.0 / np.maximum(singular_values[:, 2], 1e-9))
    largest = np.where(np.linalg.det(F) > 0.0, largest, np.inf)
    return np.asarray(np.where(block.is_fixed[tets].all(axis=1), 1.0, largest))
