"""Mass properties of surfaces: exact integrals over the enclosed volume, or over a shell of constant thickness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.arrays import Array, Index
from .triangles import is_closed


@dataclass(frozen=True)
class MassProperties:
    """Integrals over a body of density 1.

    volume: m^3.
    centre: (3,) m, centre of mass.
    second_moments: (3, 3) m^5, the integral of r r^T with r from the centre. The inertia tensor is trace(S) I - S.
    """

    volume: float
    centre: Array
    second_moments: Array

    @property
    def covariance(self) -> Array:
        """Second moments per volume, (3, 3) m^2."""
        return self.second_moments / self.volume


def mass_properties(vertices: Array, triangles: Index, thickness: float) -> MassProperties:
    """Return the mass properties of a surface: of its volume if it is closed, and of a shell if it is open.

    vertices: (v, 3) m.  triangles: (t, 3), without duplicate vertices.  thickness: m, of the shell.

    The volume is a sum of signed tetrahedra from one point to each triangle, over which the integrals are exact. The
    volume is 0 where the surface encloses nothing.
    """
    used = np.unique(triangles)
    origin = vertices[used].mean(axis=0) if len(used) else np.zeros(3)
    corners = vertices[triangles] - origin
    edges = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normals = np.cross(*edges)
    sums = corners.sum(axis=1)
    # Sum of p p^T over the corners, plus s s^T of their sum s: 20 (12) times the mean of x x^T over a tetrahedron from
    # the origin (over the triangle).
    products = np.einsum("tci,tcj->tij", corners, corners) + sums[:, :, None] * sums[:, None, :]
    if is_closed(triangles):
        sizes = np.einsum("ti,ti->t", corners[:, 0], normals) / 6.0
        if sizes.sum() < 0.0:
            # The triangles face inwards.
            sizes = -sizes
        first, second = sizes @ sums / 4.0, np.einsum("t,tij->ij", sizes, products) / 20.0
    else:
        areas = 0.5 * np.linalg.norm(normals, axis=1)
        sizes, units = thickness * areas, normals / np.maximum(2.0 * areas, 1e-300)[:, None]
        across = thickness**2 / 12.0 * units[:, :, None] * units[:, None, :]
        first, second = sizes @ sums / 3.0, np.einsum("t,tij->ij", sizes, products / 12.0 + across)
    volume = float(sizes.sum())
    if volume <= 0.0:
        return MassProperties(0.0, origin, np.zeros((3, 3)))
    mean = first / volume
    return MassProperties(volume, origin + mean, second - volume * np.outer(mean, mean))
