"""One tick of the controller that switches muscles, after [Ctl]'s control (docs/explanation/muscles.md)."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Mask


def step_muscle_switches(
    is_on: Mask, due_ticks: Array, sensor_sum: Array, threshold: Array, delay: Array
) -> tuple[Mask, Array]:
    """Return which muscles are on after a tick, and for how many ticks each has been due to switch; all (..., m).

    A muscle is due on where the sum of its sensors exceeds the threshold, and off where it is below. If they are equal,
    it keeps its state. It switches once it has been due for more consecutive ticks than the delay.
    """
    is_due = np.where(is_on, sensor_sum < threshold, sensor_sum > threshold)
    waited_ticks = np.where(is_due, due_ticks + 1.0, 0.0)
    switches = waited_ticks > delay
    return np.asarray(is_on ^ switches), np.where(switches, 0.0, waited_ticks)
