"""A region's rigid motion, as contact moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index
from ..contact.rows import ContactEnergy
from ..geometry.rigid import spinning, turning
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
        momentum = turning((mass[:, None] * offset).T @ velocities[free])
        return Rigid(total, centre, mass @ velocities[free] / total, momentum, inertia)

    def turned(self, momentum: Array) -> Array:
        """(3,) 1/s, how fast an angular momentum turns it; not at all about a line that all of it lies on."""
        return np.asarray(spinning(self.inertia) @ momentum)

    def at(self, offset: Array) -> Array:
        """(3,) m/s, its velocity so far from its centre."""
        return np.asarray(self.velocity + np.cross(self.turned(self.momentum), offset))


def drift(system: System, region: int, velocities: Array) -> Array:
    """(3,) m/s, the velocity of a region's centre of mass, of velocities (n, 3) m/s of all nodes."""
    free = system.regions[region].free
    mass = system.mass[free]
    return np.asarray(mass @ velocities[free] / mass.sum())


def flies(system: System, region: int) -> bool:
    """Whether a region may go anywhere."""
    return system.regions[region].rigid_modes == 6


def adrift(system: System, contacts: ContactEnergy, positions: Array, touched: frozenset[int]) -> list[Index]:
    """Free nodes of each group of regions that press only each other at positions (n, 3) m, and that nothing holds.

    A group may be one region, which was touched only on the way there.

    touched: regions whose inertia is that of what is touched.
    """
    count, rows = len(system.regions), contacts.rows
    held = np.array([k not in touched or not flies(system, k) for k in range(count)])
    if held.all() or system.joints is not None:
        return []
    pressing = contacts.at(positions).force > 0.0
    where = np.full(len(system.rest), -1)
    for place, region in enumerate(system.regions):
        where[region.free] = place
    # Each weight's row and region, of the rows that press.
    some = np.flatnonzero(pressing[rows.of])
    row, other = rows.of[some], where[rows.weights.indices[some]]
    outside = np.abs(np.bincount(rows.of, rows.weights.data, minlength=len(rows))) > _NOTHING
    outside[row[other < 0]] = True
    own = other >= 0
    row, other = row[own], other[own]
    # All regions of a row hang together with its first one.
    first = np.concatenate([[0], np.flatnonzero(np.diff(row)) + 1]) if len(row) else row
    leader = np.repeat(other[first], np.diff(np.append(first, len(row))))
    _, label = connected_components(csr_matrix((np.ones(len(row)), (leader, other)), shape=(count, count)), False)
    held[other[outside[row]]] = True
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
