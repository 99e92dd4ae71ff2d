"""Point damping, f = -gamma_p v ([Sch] section 2). It slows falling and flying as much as swinging."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array
from .damping import Damping
from .frame_rate import retained_fraction


class PointDamping(Damping):
    """Damping of absolute velocities."""

    name = "POINT"
    number = 3
    label = "Point"
    description = "Damps all motion like thick air, including falling"
    parameters = ("gamma",)
    conserves_linear_momentum = conserves_angular_momentum = False

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        mass = self.body.block.mass
        # One coefficient in kg/s for all nodes: it removes gamma at a node of mean mass, and at most all at the others.
        damping_coefficient = (1.0 - retained_fraction(self.body.dials["gamma"], h)) * float(mass.mean())
        return np.asarray((1.0 - np.minimum(damping_coefficient / mass, 1.0))[:, None] * predicted)
