"""Torque schemes for arbitrary forces: [Sch] section 4 names constraints and point damping."""

from __future__ import annotations

from ..arrays import Array
from .clusters import Clusters
from .torque import TORQUE_SCHEMES, Field


def balanced(forces: Array, positions: Array, clusters: Clusters, scheme: str, shares: Array | None = None) -> Array:
    """Return forces (n, 3) N that conserve the momenta of each cluster, from any forces (n, 3) N on the nodes.

    positions: (n, 3) m.  scheme: one of TORQUE_SCHEMES.  ray_weights: as in torque.DampingForces.

    The net force of each cluster is removed first, distributed by mass, so that a uniform acceleration leaves nothing.
    A node of N clusters gives each an N-th of its force. A scheme that looks for the factor of largest energy loss
    finds the one whose forces are nearest to the given ones.
    """
    member = forces[clusters.nodes] * (clusters.mass / clusters.mesh.mass[clusters.nodes])[:, None]
    share = clusters.mass / clusters.sums(clusters.mass)[clusters.of]
    member = member - share[:, None] * clusters.sums(member)[clusters.of]
    # Treat the forces as damping of the velocities that they remove in a second.
    taken = -member / clusters.mass[:, None]
    field = Field(clusters, member, positions[clusters.nodes], taken, 1.0, shares)
    return clusters.gathered(TORQUE_SCHEMES[scheme](field))
