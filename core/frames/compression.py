"""A motion as few shapes with weights over time, none of its vertices off by more than a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from ..arrays import Array, Single

# Numbers of the motion looked at in one go: keeps copies in double precision small beside the motion itself.
_CHUNK = 4_000_000
# Of the bound, what rounding to single precision and summing the shapes up may take.
_ROUNDING = 0.98


@dataclass(frozen=True)
class Compressed:
    """move(f, v) = offset(v) + sum over k of weights(f, k) shapes(k, v).

    offset: (v, 3) m.  shapes: (k, v, 3) m.  weights: (f, k), each running from 0 to 1: engines clamp negative ones.
    """

    offset: Single
    shapes: Single
    weights: Array

    def move(self, frame: int) -> Array:
        """(v, 3) m of the frame with this place in the motion."""
        return np.asarray(self.offset + np.tensordot(self.weights[frame], self.shapes, 1), dtype=float)


def compress(moves: Single, bound: float) -> Compressed:
    """The fewest principal shapes that keep every vertex at every frame within the bound (m) of its move.

    moves: (f, v, 3) m, in single precision. Principal shapes by the Gram matrix of the frames (Sirovich 1987, method
    of snapshots): f x f instead of f x 3v. The number is chosen by the largest error, not by the mean one.
    """
    if not bound > 0.0:
        raise ValueError(f"bound is {bound}; it has to be above zero")
    frames, vertices = moves.shape[:2]
    flat = moves.reshape(frames, 3 * vertices)
    mean = flat.mean(axis=0, dtype=float).astype(np.float32)
    parts = _parts(frames, vertices)
    gram = np.zeros((frames, frames))
    for part in parts:
        centred = (flat[:, part] - mean[part]).astype(float)
        gram += centred @ centred.T
    values, vectors = eigh(gram)
    values, modes = np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1], dtype=np.float32)
    limit = _ROUNDING * bound
    # The mean of the squared errors is known; the largest one is not smaller.
    tail = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    low = int(np.argmax(tail <= vertices * frames * limit**2))
    high = frames - 1
    while low < high:
        count = (low + high) // 2
        if all(_worst(flat[:, part] - mean[part], modes[:, :count]) <= limit for part in parts):
            high = count
        else:
            low = count + 1
    return _with_positive_weights(flat, mean, modes[:, :low].astype(float), parts)


def _parts(frames: int, vertices: int) -> list[slice]:
    """The columns of the flat motion in pieces of whole vertices."""
    width = 3 * max(_CHUNK // (3 * frames), 1)
    return [slice(start, min(start + width, 3 * vertices)) for start in range(0, 3 * vertices, width)]


def _worst(centred: Single, modes: Single) -> float:
    """The largest distance of a vertex from its move when only these modes (f, k) are kept."""
    rest = centred - modes @ (modes.T @ centred)
    return float(np.sqrt(np.einsum("fvi,fvi->fv", *2 * [rest.reshape(len(rest), -1, 3)]).max(initial=0.0)))


def _with_positive_weights(flat: Single, mean: Single, modes: Array, parts: list[slice]) -> Compressed:
    """What the weights would take off below zero goes into the offset; their reach goes into the shapes."""
    least = modes.min(axis=0, initial=np.inf) if modes.size else np.zeros(0)
    reach = np.ptp(modes, axis=0) if modes.size else np.zeros(0)
    weights = (modes - least) / reach
    offset = mean.astype(float)
    shapes = np.empty((modes.shape[1], flat.shape[1]), dtype=np.float32)
    for part in parts:
        shape = modes.T @ (flat[:, part] - mean[part]).astype(float)
        offset[part] += least @ shape
        shapes[:, part] = reach[:, None] * shape
    vertices = flat.shape[1] // 3
    return Compressed(offset.astype(np.float32).reshape(vertices, 3), shapes.reshape(len(shapes), vertices, 3), weights)
