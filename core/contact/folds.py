"""Self-contacts of folded sheets: find all sides that a point touches, not only the nearest.

Detection finds the nearest triangle of each point. In a fold the nearest side alternates, so that a step that started
with one side would tunnel through the other, and a crumpled sheet would never converge. Here every step starts with all
sides of a fold, found from the points' positions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, Index, Mask
from ..geometry.proximity import Forbidden, Nearest, Triangles, nearest
from .corners import HOLLOW, NEAR, SAME
from .meeting import Meeting
from .memory import CORNERS

# Function of point indices (k,) and their nearest triangles that returns the side of each triangle, and its normal.
Sided = Callable[[Index, Nearest], tuple[Array, Array]]


def further_sides(
    known: Meeting, surface: Triangles, areas: Array, distance: float, forbidden: Forbidden, sided: Sided
) -> list[Meeting]:
    """Return the further contacts of points that touch their own sheet, nearest side first.

    nearest_contacts: the first contact of each point; not empty.  areas: (v,) m^2 of the points.  distance: m.
        forbidden: pairs of points and triangles of the sheet to ignore.

    A triangle counts as another side if its normal differs. It is in a fold with the known sides if each touched place
    lies in front of the other sides' planes.
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
