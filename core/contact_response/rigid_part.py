"""Rigid motion of a region, and the momentum balance of regions that only contacts hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from ..base.arrays import Array, Index
from ..contact.penalty_and_friction import ContactPotential
from ..geometry.mesh.rigid_motion import cross_product_sum, inverse_inertia
from ..objective.step_objective import StepObjective
from ..system.system import System

# Tolerance on the sum of a contact's weights: it vanishes if the contact joins only free regions.
_WEIGHT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class RigidMotion:
    """Rigid motion of a region.

    mass: kg.  centre: (3,) m.  velocity: (3,) m/s.  angular_momentum: (3,) kg m^2/s, about the centre.
    inertia: (3, 3) kg m^2.
    """

    mass: float
    centre: Array
    velocity: Array
    angular_momentum: Array
    inertia: Array

    @staticmethod
    def from_region(system: System, region: int, positions: Array, velocities: Array) -> RigidMotion:
        """Return the rigid motion of a region at positions and velocities (n, 3) of all nodes."""
        free = system.regions[region].free
        mass, x = system.mass[free], positions[free]
        total = float(mass.sum())
        centre = mass @ x / total
        offset = x - centre
        second = (mass[:, None] * offset).T @ offset
        inertia = np.trace(second) * np.eye(3) - second
        momentum = cross_product_sum((mass[:, None] * offset).T @ velocities[free])
        return RigidMotion(total, centre, mass @ velocities[free] / total, momentum, inertia)

    def angular_velocity(self, angular_momentum: Array) -> Array:
        """Return the angular velocity (3,) 1/s of an angular momentum; zero about a line that contains all the mass."""
        return np.asarray(inverse_inertia(self.inertia) @ angular_momentum)

    def velocity_at(self, offset: Array) -> Array:
        """Return the velocity (3,) m/s at an offset (3,) m from the centre."""
        return np.asarray(self.velocity + np.cross(self.angular_velocity(self.angular_momentum), offset))


def centre_of_mass_velocity(system: System, region: int, velocities: Array) -> Array:
    """Return the velocity (3,) m/s of a region's centre of mass, from velocities (n, 3) m/s of all nodes."""
    free = system.regions[region].free
    mass = system.mass[free]
    return np.asarray(mass @ velocities[free] / mass.sum())


def is_unconstrained(system: System, region: int) -> bool:
    """Return whether a region has all six rigid modes."""
    return system.regions[region].rigid_modes == 6


def region_indices(system: System) -> Index:
    """Return the region index of each free node, (n,); -1 for hard pins."""
    indices = np.full(len(system.rest), -1)
    for place, region in enumerate(system.regions):
        indices[region.free] = place
    return indices


def floating_clusters(
    system: System, contacts: ContactPotential, positions: Array, touched_regions: frozenset[int]
) -> list[Index]:
    """Return the free nodes of each cluster of unpinned regions that press only on each other at positions (n, 3) m.

    A cluster may be a single region that touched something only during the search.

    touched_regions: regions whose inertia includes possible contacts.
    """
    count, rows = len(system.regions), contacts.contacts
    is_supported = np.array([k not in touched_regions or not is_unconstrained(system, k) for k in range(count)])
    if is_supported.all() or system.links is not None:
        return []
    pressing = contacts.forces_at(positions).force > 0.0
    region_of_node = region_indices(system)
    # Row and region of each weight of the active contacts.
    weight_index = np.flatnonzero(pressing[rows.weight_rows])
    row, region_index = rows.weight_rows[weight_index], region_of_node[rows.weights.indices[weight_index]]
    touches_outside = np.abs(np.bincount(rows.weight_rows, rows.weights.data, minlength=len(rows))) > _WEIGHT_TOLERANCE
    touches_outside[row[region_index < 0]] = True
    is_free = region_index >= 0
    row, region_index = row[is_free], region_index[is_free]
    # Connect all regions of a row with the first one.
    first_weight = np.concatenate([[0], np.flatnonzero(np.diff(row)) + 1]) if len(row) else row
    leader = np.repeat(region_index[first_weight], np.diff(np.append(first_weight, len(row))))
    _, label = connected_components(
        csr_matrix((np.ones(len(row)), (leader, region_index)), shape=(count, count)), False
    )
    is_supported[region_index[touches_outside[row]]] = True
    groups = [np.flatnonzero(label == one) for one in np.unique(label[~is_supported])]
    return [np.concatenate([system.regions[k].free for k in one]) for one in groups if not is_supported[one].any()]


def conserve_momentum(system: System, problem: StepObjective, v: Array, h: float, groups: list[Index]) -> Array:
    """Return velocities (f, 3) m/s that conserve the momentum of each group, apart from external impulses in h seconds.

    The rigid motion of a group has inertia only. There psi is quadratic, and this is its minimum. The search leaves a
    momentum error from rounding in the preconditioner.
    """
    if not groups:
        return v
    free_index = problem.unknowns.row_of_node
    gradient, corrected = problem.value_gradient(v)[1], v.copy()
    for nodes in groups:
        corrected[free_index[nodes]] -= h / float(system.mass[nodes].sum()) * gradient[free_index[nodes]].sum(axis=0)
    residual = problem.value_gradient(corrected)[1]
    for nodes in groups:
        # Drag and position-dependent fields add to the inertia, so the minimum is elsewhere.
        if np.linalg.norm(residual[free_index[nodes]].sum(axis=0)) > 0.5 * np.linalg.norm(
            gradient[free_index[nodes]].sum(axis=0)
        ):
            corrected[free_index[nodes]] = v[free_index[nodes]]
    return corrected
