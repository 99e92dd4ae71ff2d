"""Self-contacts of folded sheets: find all sides that a point touches, not only the nearest.

Detection finds the nearest triangle of each point. In a fold the nearest side alternates, so that a step that started
with one side would tunnel through the other, and a crumpled sheet would never converge. Here every step starts with all
sides of a fold, found from the points' positions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.proximity import NearestTriangles, PairExclusion, nearest_triangles
from ..geometry.mesh.triangles import Triangles
from .collisions import Collisions, point_collisions
from .contact_history import CORNER_KINDS
from .contact_hysteresis import HOLLOW_TOLERANCE, NEAR_FACTOR, SAME_NORMAL_TOLERANCE
from .contact_model import ContactModel

# Function of point indices (k,) and their nearest triangles that returns the side of each triangle, and its normal.
SideFunction = Callable[[Index, NearestTriangles], tuple[Array, Array]]


def secondary_self_contacts(
    nearest_contacts: Collisions,
    surface: Triangles,
    model: ContactModel,
    distance: float,
    forbidden: PairExclusion,
    side_function: SideFunction,
) -> list[Collisions]:
    """Return the further contacts of points that touch their own sheet, nearest side first.

    nearest_contacts: the first contact of each point; not empty.  distance: m.
        forbidden: pairs of points and triangles of the sheet to ignore.

    A triangle counts as another side if its normal differs. It is in a fold with the known sides if each touched place
    lies in front of the other sides' planes.
    """
    points = surface.vertices
    first_point = int(nearest_contacts.stencil[0, 0] - nearest_contacts.feature[0])
    sides, touched_places, contact_normals = (np.zeros((len(points), 1 + len(CORNER_KINDS), 3)) for _ in range(3))
    active = nearest_contacts.feature
    corner_places = points[nearest_contacts.stencil[:, 1:] - first_point]
    face_normals = np.cross(corner_places[:, 1] - corner_places[:, 0], corner_places[:, 2] - corner_places[:, 0])
    sides[active, 0] = face_normals / np.maximum(np.linalg.norm(face_normals, axis=1), 1e-300)[:, None]
    touched_places[active, 0] = np.einsum("kj,kji->ki", -nearest_contacts.weights[:, 1:], corner_places)
    contact_normals[active, 0] = nearest_contacts.normal
    found = []
    for count, kind in enumerate(CORNER_KINDS, 1):
        candidates = active

        def alike(point: Index, other: Index, asked: Index = candidates) -> Mask:
            which = asked[point]
            along = np.abs(np.einsum("ki,kji->kj", surface.normals[other], sides[which]))
            return np.asarray(forbidden(which, other) | (along > 1.0 - 0.5 * SAME_NORMAL_TOLERANCE**2).any(axis=1))

        hits = nearest_triangles(surface, points[candidates], NEAR_FACTOR * distance, is_excluded=alike)
        normal = side_function(candidates, hits)[1]
        corners = surface.triangles[hits.triangle]
        touch_points = np.einsum("kj,kji->ki", hits.weights, points[corners])
        active = candidates[hits.point]
        separation = touched_places[active, :count] - touch_points[:, None]
        heights = (
            np.einsum("ki,kji->kj", normal, separation),
            np.einsum("kji,kji->kj", contact_normals[active, :count], -separation),
        )
        accepted = np.flatnonzero((np.minimum(*heights) >= -HOLLOW_TOLERANCE * distance).all(axis=1))
        active = active[accepted]
        sides[active, count] = surface.normals[hits.triangle[accepted]]
        touched_places[active, count], contact_normals[active, count] = touch_points[accepted], normal[accepted]
        stencil, surfaces = np.column_stack([active, corners[accepted]]) + first_point, nearest_contacts.surfaces
        weights, normal = hits.weights[accepted], normal[accepted]
        found.append(point_collisions(model, surfaces[: len(accepted)], stencil, weights, normal, kind))
    return found
