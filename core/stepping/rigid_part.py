"""A region's rigid motion, as contact moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index
from ..contact.rows import ContactEnergy
from ..solvers.problem import Searched
from ..system.system import System


class Slotted(Searched, Protocol):
    """A problem that says which of its rows are whose."""

    @property
    def slots(self) -> Index:
        """(n,) the row of v that is each node's velocity; any for those that are not free."""
        ...


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


def adrift(system: System, contacts: ContactEnergy, positions: Array, touched: frozenset[int]) -> list[Index]:
    """Free nodes of each group of regions that press only each other at positions (n, 3) m, and that nothing holds.

    A group may be one region, which was touched only on the way there.

    touched: regions whose inertia is that of what is touched.
    """
    pressing = np.flatnonzero(contacts.at(positions).force > 0.0)
    if system.joints is not None:
        return []
    weights = contacts.rows.weights[pressing].tocsr()
    where = np.full(len(system.rest), -1)
    for place, region in enumerate(system.regions):
        where[region.free] = place
    row = np.repeat(np.arange(len(pressing)), np.diff(weights.indptr))
    other = where[weights.indices]
    outside = np.abs(np.asarray(weights.sum(axis=1)).ravel()) > _NOTHING
    outside[row[other < 0]] = True
    count, own = len(system.regions), other >= 0
    presses = csr_matrix((np.ones(int(own.sum())), (row[own], other[own])), shape=(len(pressing), count))
    _, label = connected_components(presses.T @ presses, directed=False)
    held = np.array([k not in touched or not flies(system, k) for k in range(count)])
    held[other[own & outside[row]]] = True
    groups = [np.flatnonzero(label == one) for one in np.unique(label[~held])]
    return [np.concatenate([system.regions[k].free for k in one]) for one in groups if not held[one].any()]


def balanced(system: System, problem: Slotted, v: Array, h: float, groups: list[Index]) -> Array:
    """Velocities v (f, 3) m/s with which each group has the momentum that it had and what pulls gave it in h s.

    What moves as a whole feels nothing but its inertia: there psi is a quadratic, and this its minimum. A search leaves
    a momentum of its metric's rounding.
    """
    if not groups:
        return v
    slot = problem.slots
    before, moved = problem.value_gradient(v)[1], v.copy()
    for nodes in groups:
        moved[slot[nodes]] -= h / float(system.mass[nodes].sum()) * before[slot[nodes]].sum(axis=0)
    after = problem.value_gradient(moved)[1]
    for nodes in groups:
        # A drag, or a field that a body feels where it is, is more than inertia.
        if np.linalg.norm(after[slot[nodes]].sum(axis=0)) > 0.5 * np.linalg.norm(before[slot[nodes]].sum(axis=0)):
            moved[slot[nodes]] = v[slot[nodes]]
    return moved
