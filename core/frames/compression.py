"""Compression of a motion into few shapes with weights over time, with a bound on the error of every vertex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from ..base.arrays import Array, SinglePrecisionArray

# Numbers processed at once, so that double-precision copies stay small compared with the motion.
_CHUNK = 4_000_000
# Fraction of the bound for truncation; the rest is reserved for single-precision rounding and summation.
_TRUNCATION_FRACTION = 0.98
# Rounds of weighting that reduce the largest error of a limited number of shapes, and the least weight of a vertex.
_WEIGHTING_ROUNDS, _MIN_WEIGHT = 10, 1e-6


@dataclass(frozen=True)
class CompressedMotion:
    """Compressed motion: displacement(f, v) = offset(v) + sum over k of weights(f, k) shapes(k, v).

    offset: (v, 3) m.  shapes: (k, v, 3) m.  weights: (f, k), each ranging from 0 to 1: engines clamp negative ones.
    needed: number of principal shapes that the bound takes. If their number was limited, it exceeds that of shapes.
    error: largest error of a vertex at any frame, m; without a limit, the bound.
    """

    offset: SinglePrecisionArray
    shapes: SinglePrecisionArray
    weights: Array
    needed: int
    error: float

    @property
    def is_limited(self) -> bool:
        """Return whether a limited number of shapes made the error larger than the bound."""
        return len(self.shapes) < self.needed

    def displacements(self, frame: int) -> Array:
        """Return the displacements (v, 3) m at a frame index."""
        return np.asarray(self.offset + np.tensordot(self.weights[frame], self.shapes, 1), dtype=float)


def compress_motion(
    displacements: SinglePrecisionArray, bound: float, max_shapes: int | None = None
) -> CompressedMotion:
    """Return the fewest principal shapes that reproduce every vertex at every frame within the bound (m).

    The principal shapes follow from the Gram matrix of the frames (Sirovich 1987, method of snapshots): f x f instead
    of f x 3v. Their number is determined by the largest error, not the mean. If the bound takes more than max_shapes,
    max_shapes are returned, chosen for a small largest error. Raises ValueError for a bound <= 0.

    displacements: (f, v, 3) m, in single precision.
    """
    if not bound > 0.0:
        raise ValueError(f"bound is {bound}; it has to be above zero")
    frames, vertices = displacements.shape[:2]
    flat = displacements.reshape(frames, 3 * vertices)
    mean = flat.mean(axis=0, dtype=float).astype(np.float32)
    parts = _column_slices(frames, vertices)
    values, modes = _principal_modes(flat, mean, parts)
    limit = _TRUNCATION_FRACTION * bound
    # The eigenvalues give the mean squared error, a lower bound of the largest one.
    tail = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    low = int(np.argmax(tail <= vertices * frames * limit**2))
    high = frames - 1
    while low < high:
        count = (low + high) // 2
        if all(_errors(flat[:, part] - mean[part], modes[:, :count]).max(initial=0.0) <= limit for part in parts):
            high = count
        else:
            low = count + 1
    if max_shapes is None or low <= max_shapes:
        return _scale_weights(flat, mean, modes[:, :low].astype(float), parts, low, bound)
    modes, error = _limited_modes(flat, mean, parts, max_shapes)
    return _scale_weights(flat, mean, modes.astype(float), parts, low, error)


def _principal_modes(
    flat: SinglePrecisionArray, mean: SinglePrecisionArray, parts: list[slice], scales: Array | None = None
) -> tuple[Array, SinglePrecisionArray]:
    """Return all eigenvalues (f,) in m2 and modes (f, f), the largest first. scales: (3 v,), of the coordinates."""
    gram = np.zeros((len(flat), len(flat)))
    for part in parts:
        centred = (flat[:, part] - mean[part]).astype(float)
        if scales is not None:
            centred *= scales[part]
        gram += centred @ centred.T
    values, vectors = eigh(gram)
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1], dtype=np.float32)


def _limited_modes(
    flat: SinglePrecisionArray, mean: SinglePrecisionArray, parts: list[slice], count: int
) -> tuple[SinglePrecisionArray, float]:
    """Return so many modes (f, count) with a small largest error, and that error, m.

    Principal modes minimise the sum of squares. Each round multiplies the weight of a vertex in that sum by its
    largest error, so that the sum approaches the largest error (Lawson 1961).
    """
    weights = np.ones(flat.shape[1] // 3)
    best, least = np.zeros((len(flat), count), dtype=np.float32), np.inf
    for _ in range(_WEIGHTING_ROUNDS):
        modes = _principal_modes(flat, mean, parts, np.repeat(np.sqrt(weights), 3))[1][:, :count]
        errors = np.concatenate([_errors(flat[:, part] - mean[part], modes) for part in parts])
        if errors.max() < least:
            best, least = modes, float(errors.max())
        weights *= errors / errors.max()
        weights = np.maximum(weights / weights.max(), _MIN_WEIGHT)
    return best, least


def _column_slices(frames: int, vertices: int) -> list[slice]:
    """Return slices of the columns of the flat motion, each of whole vertices."""
    width = 3 * max(_CHUNK // (3 * frames), 1)
    return [slice(start, min(start + width, 3 * vertices)) for start in range(0, 3 * vertices, width)]


def _errors(centred: SinglePrecisionArray, modes: SinglePrecisionArray) -> SinglePrecisionArray:
    """Return the largest error (v,) of each vertex over the frames, m, if only these modes (f, k) are kept."""
    rest = centred - modes @ (modes.T @ centred)
    squares = np.einsum("fvi,fvi->fv", *2 * [rest.reshape(len(rest), -1, 3)])
    return np.asarray(np.sqrt(squares.max(axis=0)))


def _scale_weights(
    flat: SinglePrecisionArray, mean: SinglePrecisionArray, modes: Array, parts: list[slice], needed: int, error: float
) -> CompressedMotion:
    """Scale the weights to 0 to 1: move their minimum into the offset and their range into the shapes."""
    minimum = modes.min(axis=0, initial=np.inf) if modes.size else np.zeros(0)
    ranges = np.ptp(modes, axis=0) if modes.size else np.zeros(0)
    weights = (modes - minimum) / ranges
    offset = mean.astype(float)
    shapes = np.empty((modes.shape[1], flat.shape[1]), dtype=np.float32)
    for part in parts:
        shape = modes.T @ (flat[:, part] - mean[part]).astype(float)
        offset[part] += minimum @ shape
        shapes[:, part] = ranges[:, None] * shape
    vertices = flat.shape[1] // 3
    return CompressedMotion(
        offset.astype(np.float32).reshape(vertices, 3), shapes.reshape(len(shapes), vertices, 3), weights, needed, error
    )
