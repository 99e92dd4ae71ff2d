"""Damping per step, as [Sch] defines gamma."""

from __future__ import annotations

from ..arrays import Array
from ..damping.damping import Damping
from ..damping.rate import RATE


class PerStep(Damping):
    """Damping that removes its gamma in every step, independent of the step size, as in the paper."""

    def __init__(self, inner: Damping) -> None:
        self._inner = inner

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        return self._inner.velocities(positions, before, predicted, 1.0 / RATE)
