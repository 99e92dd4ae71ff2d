"""Air in a closed surface, E = -p V: it pushes along the normals, wherever they turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.assembly import assembled, gathered, positive


@dataclass(frozen=True)
class Pressure:
    """triangles: (m, 3), closed and turned outwards.  pressure: Pa, or (m,) at each."""

    triangles: Index
    pressure: float | Array
    rounding: ClassVar[float] = 0.0

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        # About the mean, so that a far origin costs no digits; of a closed surface it changes nothing.
        a, b, c = (positions - positions.mean(axis=0))[self.triangles].transpose(1, 0, 2)
        part = np.broadcast_to(np.asarray(self.pressure, dtype=float) / 6.0, len(a))
        slopes = np.concatenate([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
        value = -float(part @ (a * np.cross(b, c)).sum(axis=1))
        return value, gathered(-part[:, None] * slopes, self.triangles, len(positions))

    def scaled(self, parts: Array) -> Pressure:
        return replace(self, pressure=self.pressure * parts[self.triangles].mean(axis=1))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        corners = (positions - positions.mean(axis=0))[self.triangles]
        blocks = np.zeros((len(corners), 3, 3, 3, 3))
        part = np.broadcast_to(np.asarray(self.pressure, dtype=float) / 6.0, len(corners))
        for k in range(3):
            # The slope by x_i is that of x_j x x_k, whose change with x_j by v is v x x_k.
            i, j = (k + 1) % 3, (k + 2) % 3
            turned = np.cross(np.eye(3)[None], corners[:, k, None, :]).transpose(0, 2, 1)
            blocks[:, i, :, j, :] -= part[:, None, None] * turned
            blocks[:, j, :, i, :] -= part[:, None, None] * turned.transpose(0, 2, 1)
        flat = blocks.reshape(-1, 9, 9)
        return assembled(positive(flat) if project else flat, self.triangles, len(positions))
