"""Natural Bounce: the overshoot at which a swinging body keeps its real weight (docs/decisions/0016).

A law with a^2 + w^2 = lambda_1 has the natural inertia time s = h. A body that follows it falls, swings and is thrown
as in nature, and still comes to rest at the settle time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..base.arrays import Array
from .waveform import REST_FRACTION, visible_swings

# Overshoots among which the search takes place.
_CANDIDATES = np.concatenate([[0.001], np.linspace(0.002, 0.97, 1936)])
# Peaks keep clear of REST_FRACTION where possible: the last visible peak is above the first number, the next one below
# the second. Otherwise a neighbouring mode, which loses slightly more or less, would rest a swing earlier or later.
# Overshoots above 0.58, 0.83 and 0.90 cannot keep clear: one swing more or less of many matters less.
_PEAK_CLEARANCES = ((0.013, 0.0075), (0.0115, 0.0095), (0.0105, 0.0095), (0.01, 0.01))
# A clear overshoot is accepted if its weight is within this factor of the natural one.
_MAX_WEIGHT_RATIO = 1.35


def natural_overshoot(settle: float, eigenvalue: float, counts_from_stop: bool) -> float:
    """Return the overshoot at which a swinging body keeps its real weight.

    settle: s.  eigenvalue: lambda_1 in 1/s^2.
    counts_from_stop: whether the settle time counts from a stop, not a release.

    Where the settle time is too short for any overshoot, return the nearest one, which is almost none.
    """
    target_square = eigenvalue * settle**2
    tables = [_overshoots_clear_of_threshold(counts_from_stop, *clear) for clear in _PEAK_CLEARANCES]
    candidates = [_nearest_overshoot(table, target_square) for table in tables]
    if target_square < tables[0][1].min():
        return candidates[0][0]
    return next(
        (one for one, off in candidates if off <= np.log(_MAX_WEIGHT_RATIO)),
        min(candidates, key=lambda pair: pair[1])[0],
    )


def shortest_settle_time(eigenvalue: float, counts_from_stop: bool) -> float:
    """Return the settle time in s below which a swinging body has to be lighter than in nature."""
    return float(np.sqrt(_overshoots_clear_of_threshold(counts_from_stop, *_PEAK_CLEARANCES[0])[1].min() / eigenvalue))


def _nearest_overshoot(table: tuple[Array, Array], target_square: float) -> tuple[float, float]:
    """Return the overshoot whose squared frequency is nearest to the wanted one, and their distance as a logarithm."""
    overshoots, squares = table
    off = np.abs(np.log(squares / target_square))
    best = int(off.argmin())
    return float(overshoots[best]), float(off[best])


@lru_cache(maxsize=8)
def _overshoots_clear_of_threshold(
    counts_from_stop: bool, min_visible_peak: float, max_invisible_peak: float
) -> tuple[Array, Array]:
    """Return overshoots (k,) that keep clear, and a^2 + w^2 of their laws for a settle time of 1 s, 1/s^2."""
    swings = np.array([visible_swings(one) for one in _CANDIDATES])
    clear = (swings == 0) | (_CANDIDATES**swings >= min_visible_peak)
    clear &= _CANDIDATES ** (swings + 1) <= max_invisible_peak
    overshoots, swings = _CANDIDATES[clear], swings[clear]
    ratio = -np.pi / np.log(overshoots)
    # With a = 1: between the last visible peak and the next zero, |x| falls through REST_FRACTION once.
    low, high = swings * np.pi / ratio, (swings + 1) * np.pi / ratio
    sign = np.where(swings % 2 == 0, 1.0, -1.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        x = np.exp(-middle) * (np.cos(ratio * middle) + np.sin(ratio * middle) / ratio)
        above = sign * x > REST_FRACTION
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    rest = high + (np.arctan2(ratio, 1.0) / ratio if counts_from_stop else 0.0)
    return overshoots, np.asarray(rest**2 * (1.0 + ratio**2))
