"""Stretch of elements, for the overlay of the most stretched one."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ...core.simulation.simulation import Simulation


def stretches(simulation: Simulation, name: str, positions: Array) -> Array:
    """Return the largest stretch or compression (m,) of each element: 1 at rest, infinite for inverted tetrahedra.

    positions: nodes (n, 3) m.  Elements that fully follow the animation are not simulated and count as 1.
    """
    block = simulation.model_of(name).block
    rest, tets = block.rest, block.groups[0]
    if tets.shape[1] != 4:
        # Elements of any other type: compare all distances between their nodes.
        one, other = np.triu_indices(tets.shape[1], 1)
        ratio = np.linalg.norm(positions[tets[:, one]] - positions[tets[:, other]], axis=2)
        ratio = ratio / np.linalg.norm(rest[tets[:, one]] - rest[tets[:, other]], axis=2)
        return np.asarray(np.maximum(ratio, 1.0 / np.maximum(ratio, 1e-9)).max(axis=1))

    def spans(points: Array) -> Array:
        corners = points[tets]
        return (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)

    F = spans(positions) @ np.linalg.inv(spans(rest))
    sizes = np.linalg.svd(F, compute_uv=False)
    worst = np.maximum(sizes[:, 0], 1.0 / np.maximum(sizes[:, 2], 1e-9))
    worst = np.where(np.linalg.det(F) > 0.0, worst, np.inf)
    return np.asarray(np.where(block.fixed[tets].all(axis=1), 1.0, worst))
