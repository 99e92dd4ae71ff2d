"""Damping per step, as [Sch] defines gamma."""

from __future__ import annotations

from ...base.arrays import Array
from ..damping.damping import Damping
from ..damping.frame_rate import REFERENCE_FRAME_RATE


class PerStepDamping(Damping):
    """Damping that removes its gamma in every step, independent of the step size, as in the paper."""

    def __init__(self, inner: Damping) -> None:
        self._inner = inner

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        return self._inner.damp_velocities(positions, start_velocities, predicted, 1.0 / REFERENCE_FRAME_RATE)
