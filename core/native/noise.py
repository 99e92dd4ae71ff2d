"""Compiled gradient noise."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from .arguments import doubles, pointers, require_shape
from .library import KernelLibrary

_WORD = 0xFFFFFFFFFFFFFFFF


def compiled_noise(library: KernelLibrary, points: Array, octaves: int, seed: int) -> Array:
    """Return vector noise (n, 3) from -1 to 1 at points (n, 3), equal to fields.forces.turbulence() to the last bit.

    The points are in units of the largest eddies.  Raises ValueError if they have another shape.
    """
    require_shape(points, (len(points), 3), "points")
    places = doubles(points)
    found = np.empty_like(places)
    divisor = 2.0 - 0.5 ** (octaves - 1)
    library.noise(len(places), octaves, seed & _WORD, divisor, *pointers(places, found))
    return found
