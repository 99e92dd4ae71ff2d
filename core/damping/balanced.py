"""The schemes against a torque on forces of any sort: [Sch] section 4 names constraints and point damping."""

from __future__ import annotations

from ..arrays import Array
from .clusters import Clusters
from .torque import TORQUE_SCHEMES, Field


def balanced(forces: Array, positions: Array, clusters: Clusters, scheme: str, shares: Array | None = None) -> Array:
    """Forces (n, 3) N that leave the momenta of each cluster alone, from any forces (n, 3) N on the nodes.

    positions: (n, 3) m.  scheme: one of TORQUE_SCHEMES.  shares: as in torque.Field.

    First each cluster's net force goes, shared by mass, so that what accelerates all alike leaves nothing. A node of N
    clusters gives each an N-th of its force. Where a scheme looks for the factor that loses most energy it finds the
    one with which its forces come nearest to the given ones.
    """
    member = forces[clusters.nodes] * (clusters.mass / clusters.mesh.mass[clusters.nodes])[:, None]
    share = clusters.mass / clusters.sums(clusters.mass)[clusters.of]
    member = member - share[:, None] * clusters.sums(member)[clusters.of]
    # As if they damped the velocities that they take away in a second.
    taken = -member / clusters.mass[:, None]
    field = Field(clusters, member, positions[clusters.nodes], taken, 1.0, shares)
    return clusters.gathered(TORQUE_SCHEMES[scheme](field))
