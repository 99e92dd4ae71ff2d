"""A region's rigid motion, as contact moves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..contact.rows import ContactEnergy
from ..solvers.problem import Problem
from ..system.system import System

# Weights of what presses add up to this little where only bodies press each other.
_NOTHING = 1e-9


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


def adrift(system: System, contacts: ContactEnergy, positions: Array) -> bool:
    """Whether everything may go anywhere, as what presses at positions (n, 3) m is of bodies alone."""
    if system.fixed.any() or system.joints is not None or not all(flies(system, k) for k in range(len(system.regions))):
        return False
    pressing = np.flatnonzero(contacts.at(positions).force > 0.0)
    return bool(np.abs(np.asarray(contacts.rows.weights[pressing].sum(axis=1))).max(initial=0.0) < _NOTHING)


def balanced(system: System, problem: Problem, v: Array, h: float) -> Array:
    """Velocities v (f, 3) m/s with which what is adrift has the momentum that it had and what pulls gave it in h s.

    What moves as a whole feels nothing but its inertia: there psi is a quadratic, and this its minimum. A search leaves
    a momentum of its metric's rounding.
    """
    return np.asarray(v - h / float(system.mass.sum()) * problem.value_gradient(v)[1].sum(axis=0))
