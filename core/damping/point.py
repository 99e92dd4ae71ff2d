"""Point damping, f = -gamma_p v ([Sch] section 2). It slows falling and flying as much as swinging."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .damping import Damping
from .rate import remembered


class Point(Damping):
    """Damping of absolute velocities."""

    name = "POINT"
    label = "Point"
    text = "Damps all motion like thick air, including falling"
    parameters = ("gamma",)
    linear = angular = False

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        mass = self.body.block.mass
        # One coefficient in kg/s for all nodes: it removes gamma at a node of mean mass, and at most all at the others.
        strength = (1.0 - remembered(self.body.dials["gamma"], h)) * float(mass.mean())
        return np.asarray((1.0 - np.minimum(strength / mass, 1.0))[:, None] * predicted)
