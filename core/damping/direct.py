"""Direct damping towards common motion: of the body ([Sch] (7)), or of many small clusters (section 3.2)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .clusters import CLUSTERS, Clusters
from .damping import DampedBody, Damping
from .rate import remembered
from .stages import stages
from .torque import TORQUE_SCHEMES, Field


class Direct(Damping):
    """Direct damping of relative velocities in clusters, without a net torque if the scheme removes it."""

    name = "DIRECT"
    label = "Direct"
    text = "Damps motion relative to the mean motion of the body, of each piece or of each small part"
    parameters = ("gamma", "clusters", "torque", "torque_then")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        self._mesh = body.mesh
        self._sequence = []
        for kind, torque in stages(body.dials):
            clusters = CLUSTERS[kind](self._mesh)
            shares = None if body.block.centre is None else shared(clusters, body.block.centre)
            self._sequence.append((clusters, torque, shares))

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        gamma = 1.0 - remembered(self.body.dials["gamma"], h)
        velocities = predicted
        for clusters, torque, shares in self._sequence:
            member = velocities[clusters.nodes]
            relative = member - clusters.means(member)[clusters.of]
            forces = -(gamma / h) * clusters.mass[:, None] * relative
            field = Field(clusters, forces, positions[clusters.nodes], relative, h, shares)
            pushed = TORQUE_SCHEMES[torque](field)
            velocities = velocities + h * clusters.gathered(pushed) / self._mesh.mass[:, None]
        return velocities


def shared(clusters: Clusters, painted: Array) -> Array:
    """Return the weights (p,) of the memberships in their cluster's centre: mass times the node's painted value (n,).

    Clusters without paint are weighted by mass alone. The factor of mass makes paint of 1 everywhere the centre of
    mass, and limits the acceleration of nodes that take up a net force to the painted share.
    """
    weight = clusters.mass * painted[clusters.nodes]
    total, mass = clusters.sums(weight), clusters.sums(clusters.mass)
    part = np.divide(weight, total[clusters.of], out=np.zeros_like(weight), where=total[clusters.of] > 0.0)
    return np.where(total[clusters.of] > 0.0, part, clusters.mass / mass[clusters.of])
