"""Torque schemes for arbitrary forces: [Sch] section 4 names constraints and point damping."""

from __future__ import annotations

from ...base.arrays import Array
from .clusters import Clusters
from .torque import TORQUE_SCHEMES, DampingForces


def remove_torque(
    forces: Array, positions: Array, clusters: Clusters, scheme: str, ray_weights: Array | None = None
) -> Array:
    """Return forces (n, 3) N that conserve the momenta of each cluster, from any forces (n, 3) N on the nodes.

    positions: (n, 3) m.  scheme: one of TORQUE_SCHEMES.  ray_weights: as in torque.DampingForces.

    The net force of each cluster is removed first, distributed by mass, so that a uniform acceleration leaves nothing.
    A node of N clusters gives each an N-th of its force. A scheme that looks for the factor of largest energy loss
    finds the one whose forces are nearest to the given ones.
    """
    member_forces = forces[clusters.node_index] * (clusters.mass / clusters.mesh.mass[clusters.node_index])[:, None]
    mass_fractions = clusters.mass / clusters.sum_per_cluster(clusters.mass)[clusters.cluster_index]
    member_forces = (
        member_forces - mass_fractions[:, None] * clusters.sum_per_cluster(member_forces)[clusters.cluster_index]
    )
    # Treat the forces as damping of the velocities that they remove in a second.
    removed_velocities = -member_forces / clusters.mass[:, None]
    damping_forces = DampingForces(
        clusters, member_forces, positions[clusters.node_index], removed_velocities, 1.0, ray_weights
    )
    return clusters.sum_per_node(TORQUE_SCHEMES[scheme](damping_forces))
