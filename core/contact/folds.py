"""A sheet that lies in folds on itself: its points touch more than the side that is nearest.

Detection knows the nearest triangle of each point. In a fold that is now the one side and now the other; a step that
began with one of them would slip into the other one, and a crumpled sheet hop to and fro for ever. Here every step
begins with all sides of a fold, found from where the points are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, Index, Mask
from ..geometry.proximity import Forbidden, Nearest, Triangles, nearest
from .corners import HOLLOW, NEAR, SAME
from .meeting import Meeting
from .memory import CORNERS

# Of what is near points (k,), numbers of a sheet's: on which side of it they are, and the normals there.
Sided = Callable[[Index, Nearest], tuple[Array, Array]]


def further_sides(
    known: Meeting, surface: Triangles, areas: Array, distance: float, forbidden: Forbidden, sided: Sided
) -> list[Meeting]:
    """Of points that touch their own sheet the other sides, nearest first, that a fold has there.

    known: the nearest ones, one at least.  areas: (v,) m^2 that points stand for.  distance: m.  forbidden: of pairs of
    the sheet's points and triangles.

    A side is another one where its normal is, and lies in a fold with those that are known where each lies in front of
    the others' planes.
    """
    points = surface.vertices
    start = int(known.points[0, 0] - known.feature[0])
    sides, touched, out = (np.zeros((len(points), 1 + len(CORNERS), 3)) for _ in range(3))
    mine = known.feature
    there = points[known.points[:, 1:] - start]
    across = np.cross(there[:, 1] - there[:, 0], there[:, 2] - there[:, 0])
    sides[mine, 0] = across / np.maximum(np.linalg.norm(across, axis=1), 1e-300)[:, None]
    touched[mine, 0], out[mine, 0] = np.einsum("kj,kji->ki", -known.weights[:, 1:], there), known.normal
    found = []
    for count, kind in enumerate(CORNERS, 1):
        asked = mine

        def alike(point: Index, other: Index, asked: Index = asked) -> Mask:
            which = asked[point]
            along = np.abs(np.einsum("ki,kji->kj", surface.normals[other], sides[which]))
            return np.asarray(forbidden(which, other) | (along > 1.0 - 0.5 * SAME**2).any(axis=1))

        near = nearest(surface, points[asked], NEAR * distance, forbidden=alike)
        normal = sided(asked, near)[1]
        corners = surface.triangles[near.triangle]
        place = np.einsum("kj,kji->ki", near.weights, points[corners])
        mine = asked[near.point]
        between = touched[mine, :count] - place[:, None]
        front = np.einsum("ki,kji->kj", normal, between), np.einsum("kji,kji->kj", out[mine, :count], -between)
        kept = np.flatnonzero((np.minimum(*front) >= -HOLLOW * distance).all(axis=1))
        mine = mine[kept]
        sides[mine, count] = surface.normals[near.triangle[kept]]
        touched[mine, count], out[mine, count] = place[kept], normal[kept]
        stack = np.column_stack([mine, corners[kept]]) + start
        weights = np.column_stack([np.ones(len(kept)), -near.weights[kept]])
        found.append(Meeting(known.surfaces[: len(kept)], stack, weights, normal[kept], mine, kind, areas[mine]))
    return found
