"""What keeps the two sides of a thin closed surface apart: a shell is two sheets with struts between them."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Mask
from ..energies.springs import springs
from ..energies.strain_energy import StrainEnergy
from ..geometry.proximity import Triangles, nearest
from ..geometry.surface import is_shell, mean_thickness, open_edges
from .kind import BASE_YOUNG

# What of half a plate's stiffness a side has, so that the two, a thickness apart, bend as the plate does: its bending
# comes from all of its thickness, E t^3/12, theirs from the sides alone, E t^3/4. They stretch three times as easily.
OF_A_SIDE = 1.0 / 3.0
# A strut leads to the other side within so many mean thicknesses.
_REACH = 3.0
# A side looks at another one where their normals are more opposed than this.
_OPPOSED = -0.5
# Struts to corners that have less than this part of the place across are left out.
_LEAST = 0.1


def struts_across(rest: Array, triangles: Index, shares: Array) -> StrainEnergy | None:
    """Springs from each node to the corners of the triangle across; None for what is no shell.

    rest: (n, 3) m.  triangles: (m, 3).  shares: (n,) m^2 that each node stands for. As stiff as a column of the
    material from one side to the other, so that the sides bend as one plate.
    """
    if open_edges(triangles) or not is_shell(rest, triangles):
        return None
    surface = Triangles(rest, triangles)

    def own(point: Index, triangle: Index) -> Mask:
        return np.asarray((triangles[triangle] == point[:, None]).any(axis=1))

    reach = _REACH * mean_thickness(rest, triangles)
    found = nearest(surface, rest, reach, normals=surface.vertex_normals, opposing=_OPPOSED, forbidden=own)
    corners, weights = triangles[found.triangle], found.weights
    node = np.broadcast_to(found.point[:, None], corners.shape)
    kept = (weights > _LEAST) & (corners != node)
    ends = np.stack([node[kept], corners[kept]], axis=1)
    strength = (BASE_YOUNG * shares[found.point][:, None] * weights)[kept]
    pairs, where = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    # What both ends ask for is one strut.
    stiffness = 0.5 * np.bincount(where.reshape(-1), strength, minlength=len(pairs))
    lengths = np.linalg.norm(rest[pairs[:, 0]] - rest[pairs[:, 1]], axis=1)
    there = lengths > 0.0
    if not there.any():
        return None
    return springs(pairs[there].astype(np.int64), lengths[there], stiffness[there])
