"""Generalised winding number of a triangle soup: about 1 inside, about 0 outside, graceful at holes.

Jacobson, Kavan, Sorkine-Hornung, *Robust Inside-Outside Segmentation using Generalized Winding Numbers* (2013); far
groups of triangles are approximated by a dipole, the first term of Barill et al., *Fast Winding Numbers for Soups and
Clouds* (2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...base.arrays import Array, Index
from ..mesh.triangles import dot_rows

# A group is far if its centre is farther away than this many of its radii. The error of a dipole is then about 1%, and
# that of the sum up to 6%, small against the threshold of one half.
_FAR_RADII = 2.0
_LEAF_SIZE = 8
# Number of pairs of points and groups per chunk: it fits into the processor's cache.
_CHUNK_PAIRS = 100_000


@dataclass(frozen=True)
class _Level:
    """Level of the tree over ordered triangles: groups first[k]..last[k] with their dipoles.

    centre, normal: (3, g) m, m^2.  far_square: (g,) m^2, squared distance beyond which a group is far.
    """

    first: Index
    last: Index
    centre: Array
    normal: Array
    far_square: Array


class WindingNumber:
    """Generalised winding number of triangles, evaluated by a tree of dipoles."""

    def __init__(self, vertices: Array, triangles: Index) -> None:
        """Build the tree. vertices: (v, 3) m.  triangles: (t, 3)."""
        corners = vertices[triangles]
        normals = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        areas, centres = np.linalg.norm(normals, axis=1), corners.mean(axis=1)
        order, splits = _build_tree(centres)
        ordered = corners[order]
        # Stored by corner and coordinate, so that gathered values are contiguous.
        self._corners = np.ascontiguousarray(ordered.transpose(1, 2, 0))
        weights = np.maximum(areas[order], np.finfo(float).tiny)
        self._levels = []
        for bounds in splits:
            first, last = bounds[:-1], bounds[1:]
            total = np.add.reduceat(weights, first)
            centre = np.add.reduceat(weights[:, None] * centres[order], first) / total[:, None]
            group = np.repeat(np.arange(len(first)), last - first)
            reach = np.linalg.norm(ordered - centre[group][:, None], axis=2).max(axis=1)
            normal = np.add.reduceat(normals[order], first)
            radius = np.maximum.reduceat(reach, first)
            centre_rows, normal_rows = np.ascontiguousarray(centre.T), np.ascontiguousarray(normal.T)
            self._levels.append(_Level(first, last, centre_rows, normal_rows, (_FAR_RADII * radius) ** 2))

    def __call__(self, points: Array) -> Array:
        """Return winding numbers (p,) of points (p, 3)."""
        parts = max(len(points) * 64 // _CHUNK_PAIRS, 1)
        return np.concatenate([self._evaluate_chunk(block) for block in np.array_split(points, parts)])

    def _evaluate_chunk(self, points: Array) -> Array:
        sums = np.zeros(len(points))
        eyes = np.ascontiguousarray(points.T)
        point = np.arange(len(points))
        group = np.zeros(len(points), dtype=np.int64)
        for depth, level in enumerate(self._levels):
            offset = [centre.take(group) - eye.take(point) for centre, eye in zip(level.centre, eyes, strict=True)]
            square = dot_rows(offset, offset)
            far = square > level.far_square.take(group)
            far_pairs = np.flatnonzero(far)
            far_groups, size = group.take(far_pairs), square.take(far_pairs)
            far_offset = [one.take(far_pairs) for one in offset]
            flux = dot_rows(far_offset, [normal.take(far_groups) for normal in level.normal])
            sums += np.bincount(point.take(far_pairs), flux / (size * np.sqrt(size)), minlength=len(points))
            near = np.flatnonzero(~far)
            point, group = point.take(near), group.take(near)
            if depth + 1 < len(self._levels):
                # Each group has two children in the next level of the balanced tree.
                point = np.concatenate([point, point])
                group = np.concatenate([2 * group, 2 * group + 1])
        last = self._levels[-1]
        counts = last.last[group] - last.first[group]
        start = np.repeat(last.first[group] - (np.cumsum(counts) - counts), counts)
        triangle = start + np.arange(int(counts.sum()))
        point = np.repeat(point, counts)
        angles = _solid_angles(self._corners, triangle, eyes.take(point, axis=1))
        sums += np.bincount(point, angles, minlength=len(points))
        return sums / (4.0 * np.pi)


def _solid_angles(corners: Array, triangle: Index, eyes: Array) -> Array:
    """Return signed solid angles (k,) of triangles seen from the eyes (3, k) (van Oosterom, Strackee 1983).

    corners: (3, 3, m) m, by corner and coordinate.  triangle: (k,) indices of the triangles.
    """
    a, b, c = ([one.take(triangle) - eye for one, eye in zip(corner, eyes, strict=True)] for corner in corners)
    la, lb, lc = (np.sqrt(dot_rows(v, v)) for v in (a, b, c))
    top = a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    bottom = la * lb * lc + dot_rows(a, b) * lc + dot_rows(b, c) * la + dot_rows(c, a) * lb
    return np.asarray(2.0 * np.arctan2(top, bottom))


def _build_tree(centres: Array) -> tuple[Index, list[Index]]:
    """Return an order of the triangles, and the bounds of the 2^level groups for each level of a balanced tree."""
    order = np.arange(len(centres))
    bounds = np.array([0, len(centres)])
    splits = [bounds]
    while np.diff(bounds).min() > _LEAF_SIZE:
        middles = []
        for first, last in pairwise(bounds):
            part = order[first:last]
            axis = int(np.ptp(centres[part], axis=0).argmax())
            order[first:last] = part[np.argsort(centres[part, axis], kind="stable")]
            middles.append((first + last) // 2)
        bounds = np.sort(np.concatenate([bounds, middles]))
        splits.append(bounds)
    return order, splits
