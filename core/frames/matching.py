"""Matching of the vertices of a mesh to a copy in which they were split and reordered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, SinglePrecisionArray

# Number of frames by which vertices are compared.
_SAMPLE_FRAMES = 12


@dataclass(frozen=True)
class VertexMatch:
    """Correspondence between the vertices of a copy and those of the source.

    indices: (w,) source vertex of each vertex of the copy.
    error: m, largest distance of corresponding vertices at any frame. A source vertex that is missing in the copy
        counts with the distance to the nearest vertex of the copy.
    """

    indices: Index
    error: float


def match_vertices(source: SinglePrecisionArray, copy: SinglePrecisionArray) -> VertexMatch:
    """Match the vertices of a copy to those of the source by their motion.

    source: (f, v, 3) m.  copy: (f, w, 3) m, at the same frames, w >= v, with split vertices repeated.
    """
    chosen = np.unique(np.linspace(0, len(source) - 1, _SAMPLE_FRAMES).round().astype(int))
    indices = cKDTree(_trajectories(source[chosen])).query(_trajectories(copy[chosen]))[1]
    error = 0.0
    for moved, copied in zip(source, copy, strict=True):
        error = max(error, float(np.linalg.norm(moved[indices] - copied, axis=1).max(initial=0.0)))
    # Vertices that coincide at all frames are interchangeable, so only count those without a coincident match.
    missing = np.setdiff1d(np.arange(source.shape[1]), indices)
    if len(missing) and len(indices):
        nearest = cKDTree(_trajectories(copy[chosen])).query(_trajectories(source[chosen][:, missing]))[0]
        error = max(error, float(nearest.max()))
    return VertexMatch(indices, error if len(indices) else np.inf)


def _trajectories(motion: SinglePrecisionArray) -> Array:
    return np.asarray(motion.transpose(1, 0, 2).reshape(motion.shape[1], -1), dtype=float)
