"""Individual dampers of springs, each with a coefficient of its own ([Ctl]), beside the damping of the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..materials import Energy, SoftPins
from ..materials.assembly import assemble_matrix
from .history import BlockHistory
from .inputs import BlockInputs
from .term import ForceTerm, StiffnessScaling


@dataclass(frozen=True)
class SpringDampers(ForceTerm):
    """Dampers along springs. Their coefficients do not depend on the stiffness of the body.

    ends: (e, 2) nodes.  damping: (e,) N s/m.
    """

    ends: Index
    damping: Array
    damping_scaling: ClassVar[StiffnessScaling | None] = StiffnessScaling.FIXED

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return SoftPins(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 3)))

    def damping_matrix(self, history: BlockHistory, positions: Array) -> csr_matrix | None:
        return axial_damping_matrix(self.ends, self.damping, positions)


def axial_damping_matrix(ends: Index, damping: Array, positions: Array) -> csr_matrix:
    """Return the damping matrix (3n, 3n) N s/m, c n n^T of each damper along its spring; rotation is not damped.

    ends: (e, 2) nodes.  damping: (e,) N s/m.  positions: (n, 3) m.
    """
    difference = positions[ends[:, 0]] - positions[ends[:, 1]]
    unit = difference / np.maximum(np.linalg.norm(difference, axis=1), 1e-30)[:, None]
    axes = np.concatenate([unit, -unit], axis=1)
    return assemble_matrix(damping[:, None, None] * axes[:, :, None] * axes[:, None, :], ends, len(positions))
