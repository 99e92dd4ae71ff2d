"""One tick of the controller that switches muscles, after [Ctl]'s control (docs/explanation/muscles.md)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Mask


def ticked(on: Mask, count: Array, total: Array, threshold: Array, delay: Array) -> tuple[Mask, Array]:
    """Return which muscles are on after a tick, and for how many ticks each has been due to switch; all (..., m).

    A muscle is due on where the sum of its sensors exceeds the threshold, and off where it is below. If they are equal,
    it keeps its state. It switches once it has been due for more consecutive ticks than the delay.
    """
    other = np.where(on, total < threshold, total > threshold)
    waited = np.where(other, count + 1.0, 0.0)
    switches = waited > delay
    return np.asarray(on ^ switches), np.where(switches, 0.0, waited)
