"""Bounding discs of triangles, or of parts of long triangles, for lower and upper bounds of distances."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ...base.arrays import Array, Index, Mask
from ..mesh.triangles import Triangles

# Triangles, slivers too, are subdivided while their disc's radius exceeds this multiple of the median triangle width,
# up to this number of parts per triangle and query point.
_MAX_RELATIVE_RADIUS = 2.5
_MAX_PARTS_PER_INPUT = 2.0


@dataclass(frozen=True)
class BoundingDiscs:
    """Bounding discs of triangles or of their parts.

    centres: (3, k) m, in the triangles.  radii: (k,) m.  triangles: (k,) triangle of each disc.
    normals: (3, k) unit.  directions: (3, k) unit, along the longest side.  half_extents: (2, k) m of a bounding
    rectangle of the part, along that side and perpendicular to it.
    """

    centres: Array
    radii: Array
    triangles: Index
    normals: Array
    directions: Array
    half_extents: Array

    def select(self, mask: Mask) -> BoundingDiscs:
        """Return the discs selected by a mask (k,)."""
        return BoundingDiscs(*(getattr(self, one.name)[..., mask] for one in fields(self)))

    def distance_bounds(self, discs: Index, points: Array) -> tuple[Array, Array]:
        """Return lower and upper bounds (k,) m of the distances from points (3, k) to the triangles of discs (k,)."""
        x, y, z = (row - centre.take(discs) for row, centre in zip(points, self.centres, strict=True))
        square = x * x + y * y + z * z
        height, along = (
            x * rows[0].take(discs) + y * rows[1].take(discs) + z * rows[2].take(discs)
            for rows in (self.normals, self.directions)
        )
        height *= height
        across = np.sqrt(np.maximum(square - height - along * along, 0.0))
        excess_along = np.maximum(np.abs(along) - self.half_extents[0].take(discs), 0.0)
        excess_across = np.maximum(across - self.half_extents[1].take(discs), 0.0)
        high = np.sqrt(square)
        # `across` is the root of a difference, so its rounding error is about the square root of machine precision.
        low = np.sqrt(height + excess_along * excess_along + excess_across * excess_across) - 1e-7 * high
        return low, high


def discs_within_reach(surface: Triangles, triangles: Index, points: Array, reach: float) -> BoundingDiscs:
    """Return bounding discs of the triangles (k,), without parts beyond reach (m) of the box of points (3, p)."""
    corners = surface.corners.take(triangles, axis=2)
    centres, radii = _bounding_spheres(corners)
    edge_vectors = corners[[1, 2, 0]] - corners
    longest = np.sqrt((edge_vectors * edge_vectors).sum(axis=1).max(axis=0))
    median_width = float(np.median(2.0 * surface.areas.take(triangles) / np.maximum(longest, 1e-300)))
    small = radii <= _MAX_RELATIVE_RADIUS * median_width
    if small.all():
        return _make_discs(surface, corners, centres, radii, triangles)
    low, high = points.min(axis=1)[:, None] - reach, points.max(axis=1)[:, None] + reach
    short, owners = corners[..., small], triangles[small]
    corners, owner = corners[..., ~small], triangles[~small]
    max_discs = int(_MAX_PARTS_PER_INPUT * (len(triangles) + points.shape[1])) + 64
    while True:
        centres, radii = _bounding_spheres(corners)
        is_near = ((centres - radii <= high) & (centres + radii >= low)).all(axis=0)
        corners, radii, owner = corners[..., is_near], radii[is_near], owner[is_near]
        large = radii > max(_MAX_RELATIVE_RADIUS * median_width, 0.5 * float(radii.max(initial=0.0)))
        if not large.any() or len(radii) + int(large.sum()) > max_discs:
            break
        corners = np.concatenate([corners[..., ~large], _bisect_triangles(corners[..., large])], axis=2)
        owner = np.concatenate([owner[~large], owner[large], owner[large]])
    corners = np.concatenate([short, corners], axis=2)
    return _make_discs(surface, corners, *_bounding_spheres(corners), np.concatenate([owners, owner]))


def one_disc_per_triangle(surface: Triangles, triangles: Index) -> BoundingDiscs:
    """Return one disc per triangle (k,), in order, without subdivision."""
    corners = surface.corners.take(triangles, axis=2)
    return _make_discs(surface, corners, *_bounding_spheres(corners), triangles)


def _make_discs(surface: Triangles, corners: Array, centres: Array, radii: Array, triangles: Index) -> BoundingDiscs:
    edge_vectors = corners[[1, 2, 0]] - corners
    squares = (edge_vectors * edge_vectors).sum(axis=1)
    longest = squares.argmax(axis=0)
    row = np.arange(len(radii))
    along = edge_vectors[longest, :, row].T / np.sqrt(np.maximum(squares[longest, row], 1e-300))
    corner_offsets = corners - centres
    along_components = (corner_offsets * along).sum(axis=1)
    across = np.sqrt(
        np.maximum((corner_offsets * corner_offsets).sum(axis=1) - along_components * along_components, 0.0)
    )
    halves = np.stack([np.abs(along_components).max(axis=0), across.max(axis=0)])
    return BoundingDiscs(centres, radii, triangles, surface.normal_rows.take(triangles, axis=1), along, halves)


def _bounding_spheres(corners: Array) -> tuple[Array, Array]:
    """Return centres (3, k) and radii (k,) of bounding spheres of triangles (3 corners, 3, k)."""
    centres = corners.sum(axis=0) / 3.0
    corner_offsets = corners - centres
    return centres, np.sqrt((corner_offsets * corner_offsets).sum(axis=1).max(axis=0))


def _bisect_triangles(corners: Array) -> Array:
    """Return both halves (3, 3, 2k) of triangles (3, 3, k), split at the midpoint of the longest side."""
    edge_vectors = corners[[1, 2, 0]] - corners
    longest = (edge_vectors * edge_vectors).sum(axis=1).argmax(axis=0)
    row = np.arange(corners.shape[2])
    a, b, c = (corners[(longest + k) % 3, :, row].T for k in range(3))
    middle = 0.5 * (a + b)
    return np.concatenate([np.stack([a, middle, c]), np.stack([middle, b, c])], axis=2)
