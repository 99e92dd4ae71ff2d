"""Generalised winding number of a triangle soup: about 1 inside, about 0 outside, graceful at holes.

Jacobson, Kavan, Sorkine-Hornung, *Robust Inside-Outside Segmentation using Generalized Winding Numbers* (2013); far
groups of triangles count as one dipole, the first term of Barill et al., *Fast Winding Numbers for Soups and Clouds*
(2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..arrays import Array, Index

# A group is far when its centre is more than this many of its radii away; a dipole is then good to about 1%, and all of
# them together to 6%, where a half decides.
_FAR = 2.0
_LEAF = 8
# Pairs of points and groups that are looked at together: what fits into the processor's cache.
_PAIRS = 100_000


@dataclass(frozen=True)
class _Level:
    """One level of the tree over ordered triangles: groups first[k]..last[k] with their dipoles."""

    first: Index
    last: Index
    centre: Array
    normal: Array
    radius: Array


class WindingNumber:
    def __init__(self, vertices: Array, triangles: Index) -> None:
        corners = vertices[triangles]
        normals = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        areas, centres = np.linalg.norm(normals, axis=1), corners.mean(axis=1)
        order, splits = _bisect(centres)
        self._corners = corners[order]
        weights = np.maximum(areas[order], np.finfo(float).tiny)
        self._levels = []
        for bounds in splits:
            first, last = bounds[:-1], bounds[1:]
            total = np.add.reduceat(weights, first)
            centre = np.add.reduceat(weights[:, None] * centres[order], first) / total[:, None]
            group = np.repeat(np.arange(len(first)), last - first)
            reach = np.linalg.norm(self._corners - centre[group][:, None], axis=2).max(axis=1)
            normal = np.add.reduceat(normals[order], first)
            self._levels.append(_Level(first, last, centre, normal, np.maximum.reduceat(reach, first)))

    def __call__(self, points: Array) -> Array:
        """Winding numbers (p,) of points (p, 3)."""
        parts = max(len(points) * 64 // _PAIRS, 1)
        return np.concatenate([self._block(block) for block in np.array_split(points, parts)])

    def _block(self, points: Array) -> Array:
        answer = np.zeros(len(points))
        point = np.arange(len(points))
        group = np.zeros(len(points), dtype=np.int64)
        for depth, level in enumerate(self._levels):
            way = level.centre[group] - points[point]
            square = np.einsum("pk,pk->p", way, way)
            far = square > (_FAR * level.radius[group]) ** 2
            flux = np.einsum("pk,pk->p", way[far], level.normal[group[far]]) / square[far] ** 1.5
            answer += np.bincount(point[far], flux, minlength=len(points))
            point, group = point[~far], group[~far]
            if depth + 1 < len(self._levels):
                # A group's children are the groups of the next level that begin within it: one or two.
                point = np.concatenate([point, point])
                group = np.concatenate([2 * group, 2 * group + 1])
        last = self._levels[-1]
        counts = last.last[group] - last.first[group]
        start = np.repeat(last.first[group] - (np.cumsum(counts) - counts), counts)
        triangle = start + np.arange(int(counts.sum()))
        point = np.repeat(point, counts)
        angles = _solid_angle(self._corners[triangle], points[point])
        answer += np.bincount(point, angles, minlength=len(points))
        return answer / (4.0 * np.pi)


def _solid_angle(corners: Array, eyes: Array) -> Array:
    """Signed solid angles (k,) of triangles (k, 3, 3) seen from the eyes (k, 3) (van Oosterom, Strackee 1983)."""
    a, b, c = (np.ascontiguousarray((corners[:, k] - eyes).T) for k in range(3))
    la, lb, lc = (np.sqrt((v * v).sum(axis=0)) for v in (a, b, c))
    top = a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    bottom = la * lb * lc + (a * b).sum(axis=0) * lc + (b * c).sum(axis=0) * la + (c * a).sum(axis=0) * lb
    angles: Array = 2.0 * np.arctan2(top, bottom)
    return angles


def _bisect(centres: Array) -> tuple[Index, list[Index]]:
    """An order of the triangles, and for each level of a balanced tree the bounds of its 2^level groups."""
    order = np.arange(len(centres))
    bounds = np.array([0, len(centres)])
    splits = [bounds]
    while np.diff(bounds).min() > _LEAF:
        middles = []
        for first, last in pairwise(bounds):
            part = order[first:last]
            axis = int(np.ptp(centres[part], axis=0).argmax())
            order[first:last] = part[np.argsort(centres[part, axis], kind="stable")]
            middles.append((first + last) // 2)
        bounds = np.sort(np.concatenate([bounds, middles]))
        splits.append(bounds)
    return order, splits
