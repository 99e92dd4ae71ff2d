"""Noise that is the same on every machine: gradient noise in space, and random variation in time.

The gradient noise is Perlin's improved noise (docs/bibliography.md), with an integer hash instead of a table to choose
the gradients at the corners.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array

_Words = NDArray[np.uint64]
_WORD = 0xFFFFFFFFFFFFFFFF
# Odd multipliers of the hash: the digits of the golden ratio, and two that mix bits well.
_STRIDES = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)
# Midpoints of the twelve edges of a cube, four of them twice.
_GRADIENTS = np.array(
    [(x, y, 0) for x in (1, -1) for y in (1, -1)]
    + [(x, 0, z) for x in (1, -1) for z in (1, -1)]
    + [(0, y, z) for y in (1, -1) for z in (1, -1)]
    + [(1, 1, 0), (-1, 1, 0), (0, -1, 1), (0, -1, -1)],
    dtype=float,
)
_CORNERS = np.array([(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)])
# Octaves of the turbulence, each with half the size and half the strength of the previous one.
_OCTAVES = 3


def _hash(words: _Words) -> _Words:
    """Return hashed words (k,), in which each bit depends on all bits of the input word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def gradient_noise(points: Array, seed: int) -> Array:
    """Return smooth, statistically uniform noise (n,) from -1 to 1 at points (n, 3); it is zero at integer points."""
    low = np.floor(points)
    part = points - low
    whole = low.astype(np.int64).view(np.uint64)
    start = np.uint64((seed * 0xD1342543DE82EF95) & _WORD)
    ease = part**3 * (part * (6.0 * part - 15.0) + 10.0)
    total = np.zeros(len(points))
    for corner in _CORNERS:
        words = start + ((whole + corner.astype(np.uint64)) * _STRIDES).sum(axis=1, dtype=np.uint64)
        gradient = _GRADIENTS[(_hash(words) >> np.uint64(60)).astype(np.int64)]
        weight = np.where(corner == 1, ease, 1.0 - ease).prod(axis=1)
        total += weight * ((part - corner) * gradient).sum(axis=1)
    return total


def turbulence(points: Array, size: float, seed: int) -> Array:
    """Return vector noise (n, 3) from -1 to 1 at points (n, 3) m. size: m, of the largest eddies; 0 means 1 m."""
    scaled = points / size if size != 0.0 else points
    found = np.empty_like(points)
    for axis in range(3):
        octaves = [0.5**k * gradient_noise(2.0**k * scaled, 3 * seed + axis) for k in range(_OCTAVES)]
        found[:, axis] = sum(octaves) / (2.0 - 0.5 ** (_OCTAVES - 1))
    return found


def flicker(frame: float, seed: int) -> float:
    """Return a random number from -1 to 1 that changes each frame, with linear interpolation between frames."""
    low = int(np.floor(frame))
    start = (seed * 0xD1342543DE82EF95) & _WORD
    words = np.array([(start + (low + k) * int(_STRIDES[0])) & _WORD for k in (0, 1)], dtype=np.uint64)
    # A double has 53 bits of precision.
    ends = (_hash(words) >> np.uint64(11)).astype(float) / 2.0**52 - 1.0
    return float(ends[0] + (frame - low) * (ends[1] - ends[0]))
