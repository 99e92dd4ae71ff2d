"""Direct damping towards the motion of a whole: the body's ([Sch] (7)), or of many small clusters (section 3.2)."""

from __future__ import annotations

from ..arrays import Array
from .clusters import CLUSTERS, Clusters
from .damping import DampedBody, Damping
from .rate import remembered
from .torque import TORQUE_SCHEMES, Field


class Direct(Damping):
    name = "DIRECT"
    label = "Direct"
    text = "Motion beside the common one is damped at once: of the body, its pieces, or each small part of it"
    parameters = ("gamma", "clusters", "torque")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        self._mesh = body.mesh
        # Global then local: a sequence.
        names = body.dials["clusters"].split("_THEN_")
        self._sequence = [CLUSTERS[name](self._mesh) for name in names]

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        gamma = 1.0 - remembered(self.body.dials["gamma"], h)
        velocities = predicted
        for clusters in self._sequence:
            velocities = self._damped(clusters, positions, velocities, gamma, h)
        return velocities

    def _damped(self, clusters: Clusters, positions: Array, velocities: Array, gamma: float, h: float) -> Array:
        member = velocities[clusters.nodes]
        relative = member - clusters.means(member)[clusters.of]
        forces = -(gamma / h) * clusters.mass[:, None] * relative
        field = Field(clusters, forces, positions[clusters.nodes], relative, h)
        pushed = TORQUE_SCHEMES[self.body.dials["torque"]](field)
        return velocities + h * clusters.gathered(pushed) / self._mesh.mass[:, None]
