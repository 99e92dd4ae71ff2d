"""Pressure in a closed surface, E = -p V: a follower load along the current normals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .assembly import assemble_matrix, assemble_vector, project_positive


@dataclass(frozen=True)
class Pressure:
    """Pressure energy. triangles: (m, 3), closed and oriented outward.  pressure: Pa, or (m,) per triangle."""

    triangles: Index
    pressure: float | Array
    rounding: ClassVar[float] = 0.0

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        # Relative to the mean, to keep precision far from the origin; the volume of a closed surface does not change.
        a, b, c = (positions - positions.mean(axis=0))[self.triangles].transpose(1, 0, 2)
        part = np.broadcast_to(np.asarray(self.pressure, dtype=float) / 6.0, len(a))
        slopes = np.concatenate([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
        value = -float(part @ (a * np.cross(b, c)).sum(axis=1))
        return value, assemble_vector(-part[:, None] * slopes, self.triangles, len(positions))

    def with_nodal_scale(self, factors: Array) -> Pressure:
        return replace(self, pressure=self.pressure * factors[self.triangles].mean(axis=1))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        corners = (positions - positions.mean(axis=0))[self.triangles]
        blocks = np.zeros((len(corners), 3, 3, 3, 3))
        part = np.broadcast_to(np.asarray(self.pressure, dtype=float) / 6.0, len(corners))
        for k in range(3):
            # The derivative with respect to x_i is x_j x x_k, and its change with x_j by v is v x x_k.
            i, j = (k + 1) % 3, (k + 2) % 3
            turned = np.cross(np.eye(3)[None], corners[:, k, None, :]).transpose(0, 2, 1)
            blocks[:, i, :, j, :] -= part[:, None, None] * turned
            blocks[:, j, :, i, :] -= part[:, None, None] * turned.transpose(0, 2, 1)
        flat = blocks.reshape(-1, 9, 9)
        return assemble_matrix(project_positive(flat) if project else flat, self.triangles, len(positions))
