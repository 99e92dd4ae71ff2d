"""How much each element of an object is stretched or squeezed, for the mark of the worst one."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ...core.simulation.simulation import Simulation


def stretches(simulation: Simulation, name: str, positions: Array) -> Array:
    """Largest of stretch and squeeze of each element (m,): 1 as at rest; infinite where a tet is turned over.

    What follows the animation altogether is not simulated, and counts as 1.
    """
    block = simulation.model_of(name).block
    rest, tets = block.rest, block.groups[0]
    if tets.shape[1] != 4:
        # Of whatever it is made, what lies between its nodes.
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
