"""Direct damping towards the motion of a whole: the body's ([Sch] (7)), or of many small clusters (section 3.2)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .clusters import CLUSTERS, Clusters
from .damping import DampedBody, Damping
from .rate import remembered
from .stages import stages
from .torque import TORQUE_SCHEMES, Field


class Direct(Damping):
    name = "DIRECT"
    label = "Direct"
    text = "Motion beside the common one is damped at once: of the body, its pieces, or each small part of it"
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
    """(p,) shares of the memberships in their cluster's middle: mass times what is painted (n,) at the nodes.

    By mass alone where nothing of a cluster is painted. With the mass, painted 1 all over is the centre of mass, and
    what takes up a net force is accelerated by no more than the paint says.
    """
    weight = clusters.mass * painted[clusters.nodes]
    total, mass = clusters.sums(weight), clusters.sums(clusters.mass)
    part = np.divide(weight, total[clusters.of], out=np.zeros_like(weight), where=total[clusters.of] > 0.0)
    return np.where(total[clusters.of] > 0.0, part, clusters.mass / mass[clusters.of])
