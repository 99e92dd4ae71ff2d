"""A region's rigid motion, as contact moves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..system.system import System


@dataclass(frozen=True)
class Rigid:
    """A region's rigid motion.

    mass: kg.  centre: (3,) m.  velocity: (3,) m/s.  momentum: (3,) kg m^2/s, about the centre.  inertia: (3, 3) kg m^2.
    """

    mass: float
    centre: Array
    velocity: Array
    momentum: Array
    inertia: Array

    @staticmethod
    def of(system: System, region: int, positions: Array, velocities: Array) -> Rigid:
        free = system.regions[region].free
        mass, x = system.mass[free], positions[free]
        total = float(mass.sum())
        centre = mass @ x / total
        offset = x - centre
        second = (mass[:, None] * offset).T @ offset
        inertia = np.trace(second) * np.eye(3) - second
        momentum = (mass[:, None] * np.cross(offset, velocities[free])).sum(axis=0)
        return Rigid(total, centre, mass @ velocities[free] / total, momentum, inertia)

    def turned(self, momentum: Array) -> Array:
        """(3,) 1/s, how fast an angular momentum turns it; not at all about a line that all of it lies on."""
        return np.asarray(np.linalg.pinv(self.inertia, rcond=1e-9) @ momentum)

    def at(self, offset: Array) -> Array:
        """(3,) m/s, its velocity so far from its centre."""
        return np.asarray(self.velocity + np.cross(self.turned(self.momentum), offset))


def flies(system: System, region: int) -> bool:
    """Whether a region may go anywhere."""
    return system.regions[region].rigid_modes == 6
