"""Finds the vertices of a mesh again in a copy whose vertices were split and put in another order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, Index, Single

# Frames that a vertex is known by.
_SAMPLES = 12


@dataclass(frozen=True)
class Match:
    """places: (w,) which vertex each one of the copy is.  error: m, the largest distance of any at any frame.

    A vertex that the copy lacks counts with the distance to its nearest one.
    """

    places: Index
    error: float


def match(source: Single, copy: Single) -> Match:
    """source: (f, v, 3) m, the moving vertices.  copy: (f, w, 3) m, at the same frames, w >= v, split ones twice."""
    chosen = np.unique(np.linspace(0, len(source) - 1, _SAMPLES).round().astype(int))
    places = cKDTree(_paths(source[chosen])).query(_paths(copy[chosen]))[1]
    error = 0.0
    for moved, again in zip(source, copy, strict=True):
        error = max(error, float(np.linalg.norm(moved[places] - again, axis=1).max(initial=0.0)))
    # Vertices at one place throughout stand for each other.
    missing = np.setdiff1d(np.arange(source.shape[1]), places)
    if len(missing) and len(places):
        nearest = cKDTree(_paths(copy[chosen])).query(_paths(source[chosen][:, missing]))[0]
        error = max(error, float(nearest.max()))
    return Match(places, error if len(places) else np.inf)


def _paths(motion: Single) -> Array:
    return np.asarray(motion.transpose(1, 0, 2).reshape(motion.shape[1], -1), dtype=float)
