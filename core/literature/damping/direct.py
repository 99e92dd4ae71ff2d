"""Direct damping towards common motion: of the body ([Sch] (7)), or of many small clusters (section 3.2)."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array
from .clusters import CLUSTERS, Clusters
from .damping import DampedBody, Damping
from .frame_rate import retained_fraction
from .stages import damping_stages
from .torque import TORQUE_SCHEMES, DampingForces


class DirectDamping(Damping):
    """Direct damping of relative velocities in clusters, without a net torque if the scheme removes it."""

    name = "DIRECT"
    number = 6
    label = "Direct"
    description = "Damps motion relative to the mean motion of the body, of each piece or of each small part"
    parameters = ("gamma", "clusters", "torque", "torque_then")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        self._mesh = body.mesh
        self._stages = []
        for kind, torque in damping_stages(body.dials):
            clusters = CLUSTERS[kind](self._mesh)
            painted = body.block.ray_origin_weights
            shares = None if painted is None else ray_origin_weights(clusters, painted)
            self._stages.append((clusters, torque, shares))

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        gamma = 1.0 - retained_fraction(self.body.dials["gamma"], h)
        velocities = predicted
        for clusters, torque, shares in self._stages:
            velocities = damp_relative_velocities(clusters, positions, velocities, gamma, h, torque, shares)
        return velocities


def damp_relative_velocities(
    clusters: Clusters,
    positions: Array,
    velocities: Array,
    gamma: float,
    h: float,
    torque: str,
    shares: Array | None = None,
) -> Array:
    """Return the velocities (n, 3) m/s after damping in clusters, [Sch] (7) and (8).

    Needs no mesh: clusters of nearest points damp a cloud of particles, see nearest_clusters(). Only the schemes along
    edges need edges.

    gamma: damped part of the relative velocities, 0 to 1.  h: step in s.  torque: a name of TORQUE_SCHEMES.
    shares: (p,) weights of the memberships in the origin of the rays, None for the centre of mass.
    """
    member = velocities[clusters.node_index]
    relative = member - clusters.mean_per_cluster(member)[clusters.cluster_index]
    forces = -(gamma / h) * clusters.mass[:, None] * relative
    damping_forces = DampingForces(clusters, forces, positions[clusters.node_index], relative, h, shares)
    torque_free = TORQUE_SCHEMES[torque](damping_forces)
    return np.asarray(velocities + h * clusters.sum_per_node(torque_free) / clusters.mesh.mass[:, None])


def ray_origin_weights(clusters: Clusters, painted: Array) -> Array:
    """Return the weights (p,) of the memberships in their cluster's centre: mass times the node's painted value (n,).

    Clusters without paint are weighted by mass alone. The factor of mass makes paint of 1 everywhere the centre of
    mass, and limits the acceleration of nodes that take up a net force to the painted share.
    """
    weight = clusters.mass * painted[clusters.node_index]
    total = clusters.sum_per_cluster(weight)[clusters.cluster_index]
    return np.divide(weight, total, out=clusters.mass_fractions, where=total > 0.0)
