"""Removal of the torque from damping forces, [Sch] section 3.3, schemes (a) to (c), and our own (d).

A scheme maps forces f (p, 3) in N on the memberships of clusters, whose sum in each cluster is zero, to forces without
torque. Only scheme "NONE" leaves them unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye, hstack, vstack

from ...base.arrays import Array
from .clusters import Clusters, unit_directions


def remove_torque(forces: Array, positions: Array, clusters: Clusters, scheme: str) -> Array:
    """Return forces (n, 3) N that conserve the momenta of each cluster, from any forces (n, 3) N on the nodes.

    positions: (n, 3) m.  scheme: one of TORQUE_SCHEMES.

    The net force of each cluster is removed first, distributed by mass, so that a uniform acceleration leaves nothing.
    A node of N clusters gives each an N-th of its force. A scheme that looks for the factor of largest energy loss
    finds the one whose forces are nearest to the given ones.
    """
    member_forces = forces[clusters.node_index] * (clusters.mass / clusters.mesh.mass[clusters.node_index])[:, None]
    member_forces = _without_net_force(clusters, member_forces, clusters.mass_fractions)
    # Treat the forces as damping of the velocities that they remove in a second.
    removed_velocities = -member_forces / clusters.mass[:, None]
    damping_forces = DampingForces(clusters, member_forces, positions[clusters.node_index], removed_velocities, 1.0)
    return clusters.sum_per_node(TORQUE_SCHEMES[scheme](damping_forces))


# An eigenvalue of a cluster's inertia below this fraction of the largest counts as zero.
_FLAT = 1e-10


@dataclass(frozen=True)
class DampingForces:
    """Damping forces on the memberships of clusters.

    forces: (p, 3) N.  positions: (p, 3) m.  velocities: (p, 3) m/s, relative to the cluster's centre.
    step_length: h in s.
    ray_weights: (p,) alpha_i, which sum to 1 in each cluster and define the origin of the rays; by mass if None.
    """

    clusters: Clusters
    forces: Array
    positions: Array
    velocities: Array
    step_length: float
    ray_weights: Array | None = None


def _without_net_force(clusters: Clusters, forces: Array, share: Array) -> Array:
    """Return the forces (p, 3) N without the net force of each cluster, of which each membership takes a share (p,)."""
    return np.asarray(forces - share[:, None] * clusters.sum_per_cluster(forces)[clusters.cluster_index])


def angular_velocities(clusters: Clusters, offsets: Array, momenta: Array) -> Array:
    """Return angular velocities (count, 3) that give each cluster the angular momentum of momenta (p, 3)."""
    second = clusters.sum_per_cluster(clusters.mass[:, None, None] * offsets[:, :, None] * offsets[:, None, :])
    inertia = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    angular = clusters.sum_per_cluster(np.cross(offsets, momenta))
    values, vectors = np.linalg.eigh(inertia)
    # A cluster that is a line has no rotation about itself.
    has_inertia = values > _FLAT * values[:, -1:]
    along = np.einsum("cik,ci->ck", vectors, angular)
    principal_rates = np.where(has_inertia, along / np.where(has_inertia, values, 1.0), 0.0)
    return np.asarray(np.einsum("cik,ck->ci", vectors, principal_rates))


def _edge_forces(damping_forces: DampingForces) -> Array:
    """Return f_e = f_i - f_j along the edges, unscaled."""
    pairs = damping_forces.clusters.edges
    unit = unit_directions(damping_forces.positions[pairs[:, 0]] - damping_forces.positions[pairs[:, 1]])
    size = ((damping_forces.forces[pairs[:, 0]] - damping_forces.forces[pairs[:, 1]]) * unit).sum(axis=1, keepdims=True)
    total = np.zeros_like(damping_forces.forces)
    for side, sign in ((0, 1.0), (1, -1.0)):
        for axis in range(3):
            total[:, axis] += np.bincount(pairs[:, side], sign * (size * unit)[:, axis], minlength=len(total))
    return total


def torque_free_edges(damping_forces: DampingForces) -> Array:
    """Apply scheme (a) with the factor of largest energy loss, at most 1."""
    return _scale_for_energy_loss(damping_forces, _edge_forces(damping_forces))


def _scale_for_energy_loss(damping_forces: DampingForces, forces: Array) -> Array:
    """Scale the forces of each cluster by the factor between 0 and 1 that loses most energy."""
    clusters = damping_forces.clusters
    power = clusters.sum_per_cluster((damping_forces.velocities * forces).sum(axis=1))
    gain = damping_forces.step_length * clusters.sum_per_cluster((forces**2).sum(axis=1) / clusters.mass)
    factor = np.clip(np.divide(-power, gain, out=np.zeros_like(gain), where=gain > 0.0), 0.0, 1.0)
    return np.asarray(factor[clusters.cluster_index, None] * forces)


def torque_free_edges_as_printed(damping_forces: DampingForces) -> Array:
    """Apply scheme (a) with the paper's factor as intended, min |f_i| / |f'_i|, at most 1; energy is not bounded."""
    forces, clusters = _edge_forces(damping_forces), damping_forces.clusters
    new = np.linalg.norm(forces, axis=1)
    ratio = np.divide(np.linalg.norm(damping_forces.forces, axis=1), new, out=np.ones_like(new), where=new > 0.0)
    factor = np.ones(clusters.cluster_count)
    np.minimum.at(factor, clusters.cluster_index, ratio)
    return np.asarray(factor[clusters.cluster_index, None] * forces)


def torque_free_radial(damping_forces: DampingForces) -> Array:
    """Apply scheme (b): project on the rays from the centre, then remove the net force, distributed by mass."""
    clusters = damping_forces.clusters
    centres = clusters.mean_per_cluster(damping_forces.positions)
    return _without_net_force(clusters, _along_rays(damping_forces, centres), clusters.mass_fractions)


def _along_rays(damping_forces: DampingForces, origins: Array) -> Array:
    """Return the forces (p, 3) N projected on the rays from the origins (count, 3) m."""
    unit = unit_directions(damping_forces.positions - origins[damping_forces.clusters.cluster_index])
    return np.asarray((damping_forces.forces * unit).sum(axis=1, keepdims=True) * unit)


def torque_free_rays(damping_forces: DampingForces) -> Array:
    """Apply scheme (b) with rays from any point x = sum alpha_i x_i, and the factor of largest energy loss.

    With weights by mass it is (b) itself. Without the factor, energy could be added: nodes of large alpha_i take up the
    net force, whatever their mass.
    """
    clusters = damping_forces.clusters
    share = clusters.mass_fractions if damping_forces.ray_weights is None else damping_forces.ray_weights
    origins = clusters.sum_per_cluster(share[:, None] * damping_forces.positions)
    forces = _without_net_force(clusters, _along_rays(damping_forces, origins), share)
    return _scale_for_energy_loss(damping_forces, forces)


def unchanged_forces(damping_forces: DampingForces) -> Array:
    """Return the forces unchanged, [Sch] section 4: rotation is damped as well."""
    return damping_forces.forces


def torque_free_by_lp(damping_forces: DampingForces) -> Array:
    """Apply scheme (c): a linear programme for the nearest forces, by sum of magnitudes, with zero sum and torque."""
    clusters, forces = damping_forces.clusters, damping_forces.forces.copy()
    bounds = np.searchsorted(clusters.cluster_index, np.arange(clusters.cluster_count + 1))
    centre = clusters.mean_per_cluster(damping_forces.positions)[clusters.cluster_index]
    for start, end in itertools.pairwise(bounds):
        forces[start:end] = _nearest_torque_free(forces[start:end], (damping_forces.positions - centre)[start:end])
    return forces


def _nearest_torque_free(forces: Array, offset: Array) -> Array:
    """Return the forces (q, 3) N nearest to the given ones by the sum of magnitudes that have zero sum and torque."""
    size, max_offset = float(np.abs(forces).max()), float(np.abs(offset).max())
    if size == 0.0 or max_offset == 0.0:
        return forces
    wanted, arm, count = (forces / size).ravel(), offset / max_offset, len(offset)
    # Rows of (f, f x arm): the 6 sums that have to vanish.
    sums = np.tile(np.eye(3), (1, count))
    cross = np.concatenate([np.cross(arm[i], np.eye(3)).T for i in range(count)], axis=1)
    zero = np.concatenate([sums, cross])
    unit = eye(3 * count)
    found = linprog(
        np.concatenate([np.zeros(3 * count), np.ones(3 * count)]),
        A_ub=vstack([hstack([unit, -unit]), hstack([-unit, -unit])]),
        b_ub=np.concatenate([wanted, -wanted]),
        A_eq=hstack([csr_matrix(zero), csr_matrix((6, 3 * count))]),
        b_eq=np.zeros(6),
        bounds=[(None, None)] * (3 * count) + [(0.0, None)] * (3 * count),
        method="highs",
    )
    # HiGHS stops at 1e-7; least squares remove the remaining error.
    x = found.x[: 3 * count]
    x = x - np.linalg.pinv(zero) @ (zero @ x)
    return np.asarray(size * x.reshape(-1, 3))


def torque_free_rigid(damping_forces: DampingForces) -> Array:
    """Apply our scheme (d): subtract each cluster's best-fit rigid motion, whose mass-weighted moment then vanishes."""
    clusters = damping_forces.clusters
    offset = damping_forces.positions - clusters.mean_per_cluster(damping_forces.positions)[clusters.cluster_index]
    # A rigid field with the same torque is the rotation that these forces cause if taken as momenta.
    spin = angular_velocities(clusters, offset, damping_forces.forces)
    return np.asarray(damping_forces.forces - clusters.mass[:, None] * np.cross(spin[clusters.cluster_index], offset))


TORQUE_SCHEMES: dict[str, Callable[[DampingForces], Array]] = {
    "RIGID": torque_free_rigid,
    "EDGES": torque_free_edges,
    "EDGES_PRINTED": torque_free_edges_as_printed,
    "RADII": torque_free_radial,
    "PROGRAMME": torque_free_by_lp,
    "RAYS": torque_free_rays,
    "NONE": unchanged_forces,
}
