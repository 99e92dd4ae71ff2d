"""Bounding discs of triangles, or of parts of long triangles, for lower and upper bounds of distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from .triangles import Triangles

# Triangles, slivers too, are subdivided while their disc's radius exceeds this multiple of the median triangle width,
# up to this number of parts per triangle and query point.
_LARGE = 2.5
_MOST = 2.0


@dataclass(frozen=True)
class Discs:
    """Bounding discs of triangles or of their parts.

    centres: (3, k) m, in the triangles.  radii: (k,) m.  triangles: (k,) triangle of each disc.
    normals: (3, k) unit.  directions: (3, k) unit, along the longest side.  half_extents: (2, k) m of a bounding
    rectangle of the part, along that side and perpendicular to it.
    """

    centres: Array
    radii: Array
    triangles: Index
    normals: Array
    along: Array
    halves: Array

    def some(self, which: Mask) -> Discs:
        """Return the discs selected by a mask (k,)."""
        return Discs(
            self.centres[:, which],
            self.radii[which],
            self.triangles[which],
            self.normals[:, which],
            self.along[:, which],
            self.halves[:, which],
        )

    def bounds(self, which: Index, points: Array) -> tuple[Array, Array]:
        """Return lower and upper bounds (k,) m of the distances from points (3, k) to the triangles of discs (k,)."""
        x, y, z = (row - centre.take(which) for row, centre in zip(points, self.centres, strict=True))
        square = x * x + y * y + z * z
        height, along = (
            x * rows[0].take(which) + y * rows[1].take(which) + z * rows[2].take(which)
            for rows in (self.normals, self.along)
        )
        height *= height
        across = np.sqrt(np.maximum(square - height - along * along, 0.0))
        beside = np.maximum(np.abs(along) - self.halves[0].take(which), 0.0)
        over = np.maximum(across - self.halves[1].take(which), 0.0)
        high = np.sqrt(square)
        # `across` is the root of a difference, so its rounding error is about the square root of machine precision.
        low = np.sqrt(height + beside * beside + over * over) - 1e-7 * high
        return low, high


def discs_of(surface: Triangles, triangles: Index, points: Array, reach: float) -> Discs:
    """Return bounding discs of the triangles (k,), without parts beyond reach (m) of the box of points (3, p)."""
    corners = surface.corners.take(triangles, axis=2)
    centres, radii = _around(corners)
    ways = corners[[1, 2, 0]] - corners
    longest = np.sqrt((ways * ways).sum(axis=1).max(axis=0))
    middle = float(np.median(2.0 * surface.areas.take(triangles) / np.maximum(longest, 1e-300)))
    small = radii <= _LARGE * middle
    if small.all():
        return _discs(surface, corners, centres, radii, triangles)
    low, high = points.min(axis=1)[:, None] - reach, points.max(axis=1)[:, None] + reach
    short, owners = corners[..., small], triangles[small]
    corners, owner = corners[..., ~small], triangles[~small]
    room = int(_MOST * (len(triangles) + points.shape[1])) + 64
    while True:
        centres, radii = _around(corners)
        near = ((centres - radii <= high) & (centres + radii >= low)).all(axis=0)
        corners, radii, owner = corners[..., near], radii[near], owner[near]
        large = radii > max(_LARGE * middle, 0.5 * float(radii.max(initial=0.0)))
        if not large.any() or len(radii) + int(large.sum()) > room:
            break
        corners = np.concatenate([corners[..., ~large], _halved(corners[..., large])], axis=2)
        owner = np.concatenate([owner[~large], owner[large], owner[large]])
    corners = np.concatenate([short, corners], axis=2)
    return _discs(surface, corners, *_around(corners), np.concatenate([owners, owner]))


def whole_discs(surface: Triangles, triangles: Index) -> Discs:
    """Return one disc per triangle (k,), in order, without subdivision."""
    corners = surface.corners.take(triangles, axis=2)
    return _discs(surface, corners, *_around(corners), triangles)


def _discs(surface: Triangles, corners: Array, centres: Array, radii: Array, triangles: Index) -> Discs:
    ways = corners[[1, 2, 0]] - corners
    squares = (ways * ways).sum(axis=1)
    longest = squares.argmax(axis=0)
    row = np.arange(len(radii))
    along = ways[longest, :, row].T / np.sqrt(np.maximum(squares[longest, row], 1e-300))
    spread = corners - centres
    part = (spread * along).sum(axis=1)
    across = np.sqrt(np.maximum((spread * spread).sum(axis=1) - part * part, 0.0))
    halves = np.stack([np.abs(part).max(axis=0), across.max(axis=0)])
    return Discs(centres, radii, triangles, surface.unit_rows.take(triangles, axis=1), along, halves)


def _around(corners: Array) -> tuple[Array, Array]:
    """Return centres (3, k) and radii (k,) of bounding spheres of triangles (3 corners, 3, k)."""
    centres = corners.sum(axis=0) / 3.0
    ways = corners - centres
    return centres, np.sqrt((ways * ways).sum(axis=1).max(axis=0))


def _halved(corners: Array) -> Array:
    """Return both halves (3, 3, 2k) of triangles (3, 3, k), split at the midpoint of the longest side."""
    ways = corners[[1, 2, 0]] - corners
    longest = (ways * ways).sum(axis=1).argmax(axis=0)
    row = np.arange(corners.shape[2])
    a, b, c = (corners[(longest + k) % 3, :, row].T for k in range(3))
    middle = 0.5 * (a + b)
    return np.concatenate([np.stack([a, middle, c]), np.stack([middle, b, c])], axis=2)
