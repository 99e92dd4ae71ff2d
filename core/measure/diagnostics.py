"""What can be measured of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..stepping.waveform import REST_FRACTION
from ..system.state import State
from ..system.system import System


@dataclass(frozen=True)
class Energies:
    """All in J. gravity: potential, zero at the origin."""

    kinetic: float
    elastic: float
    gravity: float


def energies(system: System, state: State) -> Energies:
    elastic = system.elastic_energy(state.positions)
    kinetic = 0.5 * float(system.mass @ (state.velocities**2).sum(axis=1))
    return Energies(kinetic, float(elastic), -float(system.mass @ state.positions @ system.gravity))


def linear_momentum(system: System, state: State) -> Array:
    """(3,) kg m/s."""
    return np.asarray(system.mass @ state.velocities)


def angular_momentum(system: System, state: State) -> Array:
    """(3,) kg m^2/s about the centre of mass."""
    centre = system.mass @ state.positions / system.mass.sum()
    return np.asarray(system.mass @ np.cross(state.positions - centre, state.velocities))


def rest_time(deformation: Array, spacing: float) -> float:
    """Time from which on the deformation stays within REST_FRACTION of its start.

    deformation: (k,), at least 0, at times 0, spacing, 2 spacing, …; between them it is taken as straight.
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
    """How often a signed deformation (k,) passes through rest to more than REST_FRACTION of its start."""
    relative = signed / signed[0]
    clear = relative[np.abs(relative) > REST_FRACTION]
    return int((np.sign(clear[1:]) != np.sign(clear[:-1])).sum())


def largest_distance(positions: Array, reference: Array) -> float:
    """[You]'s d2, m: the largest distance of a node from its reference; both (n, 3)."""
    return float(np.linalg.norm(positions - reference, axis=1).max())
