"""Rigid motion of a region, and the momentum balance of regions that only contacts hold."""

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
    """Objective that maps nodes to the rows of its velocities."""

    @property
    def slots(self) -> Index:
        """Row of v of each node's velocity, (n,); arbitrary for nodes that are not free."""
        ...


# Tolerance on the sum of a contact's weights: it vanishes if the contact joins only free regions.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Rigid:
    """Rigid motion of a region.

    mass: kg.  centre: (3,) m.  velocity: (3,) m/s.  angular_momentum: (3,) kg m^2/s, about the centre.
    inertia: (3, 3) kg m^2.
    """

    mass: float
    centre: Array
    velocity: Array
    momentum: Array
    inertia: Array

    @staticmethod
    def of(system: System, region: int, positions: Array, velocities: Array) -> Rigid:
        """Return the rigid motion of a region at positions and velocities (n, 3) of all nodes."""
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
        """Return the angular velocity (3,) 1/s of an angular momentum; zero about a line that contains all the mass."""
        return np.asarray(spinning(self.inertia) @ momentum)

    def at(self, offset: Array) -> Array:
        """Return the velocity (3,) m/s at an offset (3,) m from the centre."""
        return np.asarray(self.velocity + np.cross(self.turned(self.momentum), offset))


def drift(system: System, region: int, velocities: Array) -> Array:
    """Return the velocity (3,) m/s of a region's centre of mass, from velocities (n, 3) m/s of all nodes."""
    free = system.regions[region].free
    mass = system.mass[free]
    return np.asarray(mass @ velocities[free] / mass.sum())


def flies(system: System, region: int) -> bool:
    """Return whether a region has all six rigid modes."""
    return system.regions[region].rigid_modes == 6


def adrift(system: System, contacts: ContactEnergy, positions: Array, touched: frozenset[int]) -> list[Index]:
    """Return the free nodes of each cluster of unpinned regions that press only on each other at positions (n, 3) m.

    A cluster may be a single region that touched something only during the search.

    touched_regions: regions whose inertia includes possible contacts.
    """
    count, rows = len(system.regions), contacts.rows
    held = np.array([k not in touched or not flies(system, k) for k in range(count)])
    if held.all() or system.joints is not None:
        return []
    pressing = contacts.at(positions).force > 0.0
    where = np.full(len(system.rest), -1)
    for place, region in enumerate(system.regions):
        where[region.free] = place
    # Row and region of each weight of the active contacts.
    some = np.flatnonzero(pressing[rows.of])
    row, other = rows.of[some], where[rows.weights.indices[some]]
    outside = np.abs(np.bincount(rows.of, rows.weights.data, minlength=len(rows))) > _NOTHING
    outside[row[other < 0]] = True
    own = other >= 0
    row, other = row[own], other[own]
    # Connect all regions of a row with the first one.
    first = np.concatenate([[0], np.flatnonzero(np.diff(row)) + 1]) if len(row) else row
    leader = np.repeat(other[first], np.diff(np.append(first, len(row))))
    _, label = connected_components(csr_matrix((np.ones(len(row)), (leader, other)), shape=(count, count)), False)
    held[other[outside[row]]] = True
    groups = [np.flatnonzero(label == one) for one in np.unique(label[~held])]
    return [np.concatenate([system.regions[k].free for k in one]) for one in groups if not held[one].any()]


def balanced(system: System, problem: Slotted, v: Array, h: float, groups: list[Index]) -> Array:
    """Return velocities (f, 3) m/s that conserve the momentum of each group, apart from external impulses in h seconds.

    The rigid motion of a group has inertia only. There psi is quadratic, and this is its minimum. The search leaves a
    momentum error from rounding in the preconditioner.
    """
    if not groups:
        return v
    slot = problem.slots
    before, moved = problem.value_gradient(v)[1], v.copy()
    for nodes in groups:
        moved[slot[nodes]] -= h / float(system.mass[nodes].sum()) * before[slot[nodes]].sum(axis=0)
    after = problem.value_gradient(moved)[1]
    for nodes in groups:
        # Drag and position-dependent fields add to the inertia, so the minimum is elsewhere.
        if np.linalg.norm(after[slot[nodes]].sum(axis=0)) > 0.5 * np.linalg.norm(before[slot[nodes]].sum(axis=0)):
            moved[slot[nodes]] = v[slot[nodes]]
    return moved
