"""Struts between the two sides of a thin closed surface, which make the two sheets a shell."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.proximity import Triangles, nearest_triangles
from ..geometry.mesh.surface import count_open_edges, is_shell, mean_thickness
from ..materials.springs import spring_energy
from ..materials.strain_energy import StrainEnergy
from .kind import BASE_YOUNG

# Stretch stiffness of a side relative to half a plate, so that both sides together bend like the plate: a plate of
# thickness t has E t^3/12, two sides of half its stiffness at distance t have E t^3/4. The shell stretches three times
# as easily.
SIDE_STIFFNESS_FRACTION = 1.0 / 3.0
# Largest length of a strut, in mean thicknesses.
_MAX_STRUT_LENGTH = 3.0
# Largest cosine between the normals of opposite sides.
_MAX_NORMAL_COSINE = -0.5
# Smallest barycentric weight of a corner for a strut to it.
_MIN_CORNER_WEIGHT = 0.1


def struts_across(rest: Array, triangles: Index, shares: Array) -> StrainEnergy | None:
    """Return springs from each node to the corners of the opposite triangle; None if the surface is not a shell.

    They are as stiff as a column of the material between the sides, so that the sides bend as one plate.

    rest: (n, 3) m.  triangles: (m, 3).  shares: (n,) m^2 represented by each node.
    """
    if count_open_edges(triangles) or not is_shell(rest, triangles):
        return None
    surface = Triangles(rest, triangles)

    def contains_point(point: Index, triangle: Index) -> Mask:
        return np.asarray((triangles[triangle] == point[:, None]).any(axis=1))

    reach = _MAX_STRUT_LENGTH * mean_thickness(rest, triangles)
    found = nearest_triangles(
        surface,
        rest,
        reach,
        normals=surface.vertex_normals,
        max_normal_cosine=_MAX_NORMAL_COSINE,
        is_excluded=contains_point,
    )
    corners, weights = triangles[found.triangle], found.weights
    node = np.broadcast_to(found.point[:, None], corners.shape)
    is_used = (weights > _MIN_CORNER_WEIGHT) & (corners != node)
    ends = np.stack([node[is_used], corners[is_used]], axis=1)
    strength = (BASE_YOUNG * shares[found.point][:, None] * weights)[is_used]
    pairs, where = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    # Merge struts found from both ends.
    stiffness = 0.5 * np.bincount(where.reshape(-1), strength, minlength=len(pairs))
    lengths = np.linalg.norm(rest[pairs[:, 0]] - rest[pairs[:, 1]], axis=1)
    has_length = lengths > 0.0
    if not has_length.any():
        return None
    return spring_energy(pairs[has_length].astype(np.int64), lengths[has_length], stiffness[has_length])
