"""One tick of the machine that switches muscles, after [Ctl]'s control (docs/muscles.md)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Mask


def ticked(on: Mask, count: Array, total: Array, threshold: Array, delay: Array) -> tuple[Mask, Array]:
    """Which muscles are on from now on, and for how many ticks each has wanted to be otherwise; all (..., m).

    A muscle wants to be on where the total of its sensors is above the threshold, off where it is below, and to stay
    where they are equal. It switches at the first tick after as many as the delay at each of which it wanted to; once
    it does not, it begins anew.
    """
    other = np.where(on, total < threshold, total > threshold)
    waited = np.where(other, count + 1.0, 0.0)
    switches = waited > delay
    return np.asarray(on ^ switches), np.where(switches, 0.0, waited)
