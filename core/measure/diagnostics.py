"""Energies, momenta and rest times of a simulated system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from ..settle.waveform import REST_FRACTION
from ..system.state import State
from ..system.system import System


@dataclass(frozen=True)
class Energies:
    """Energies in J. gravity: potential energy, zero at the origin."""

    kinetic: float
    elastic: float
    gravity: float


def energies(system: System, state: State) -> Energies:
    """Return the energies of a system in a state."""
    elastic = system.elastic_energy(state.positions)
    kinetic = 0.5 * float(system.mass @ (state.velocities**2).sum(axis=1))
    return Energies(kinetic, float(elastic), -float(system.mass @ state.positions @ system.gravity))


def linear_momentum(system: System, state: State) -> Array:
    """Return the linear momentum (3,) in kg m/s."""
    return np.asarray(system.mass @ state.velocities)


def angular_momentum(system: System, state: State) -> Array:
    """Return the angular momentum (3,) about the centre of mass in kg m^2/s."""
    centre = system.mass @ state.positions / system.mass.sum()
    return np.asarray(system.mass @ np.cross(state.positions - centre, state.velocities))


def rest_time(deformation: Array, spacing: float) -> float:
    """Return the time after which the deformation stays within REST_FRACTION of its start.

    deformation: (k,), nonnegative, at times 0, spacing, 2 spacing, …; interpolated linearly.
    Infinite if it is not at rest in the end.
    """
    limit = REST_FRACTION * float(deformation[0])
    above = np.flatnonzero(deformation > limit)
    if len(above) == 0:
        return 0.0
    k = int(above[-1])
    if k + 1 == len(deformation):
        return float("inf")
    return spacing * (k + float((deformation[k] - limit) / (deformation[k] - deformation[k + 1])))


def count_swings(signed: Array) -> int:
    """Return how often a signed deformation (k,) passes rest by more than REST_FRACTION of its start."""
    relative = signed / signed[0]
    clear = relative[np.abs(relative) > REST_FRACTION]
    return int((np.sign(clear[1:]) != np.sign(clear[:-1])).sum())


def largest_distance(positions: Array, reference: Array) -> float:
    """Return [You]'s d2: the largest distance in m of a node from its reference; both (n, 3)."""
    return float(np.linalg.norm(positions - reference, axis=1).max())
