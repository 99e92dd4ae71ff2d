"""Rotation of each node of a bent body, applied to the preconditioner of a step.

See docs/explanation/physics/01-step-potential.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Mask, nearest_rotations
from ..materials.strains import shape_gradients
from ..materials.tetrahedra import tet_volumes
from ..system.system import System

# A body strained and rotated by less than this against its best-fit rotation is rotated as a whole.
_MAX_RIGID_DEVIATION = 0.02
# Iterations of the polar decomposition. A few suffice: the preconditioner stays positive under any rotation.
_ITERATIONS, _FEW_ITERATIONS, _SMALL_DEVIATION = 4, 2, 0.3


@dataclass(frozen=True)
class NodalRotations:
    """Mean deformation gradients at the free nodes of pinned solids, and their rotations.

    gradient_operator: (3f, n), maps one coordinate of positions (n, 3) m to a row of each F: first all its first
        entries, then all its second ones, then all its third ones.
    rotates_individually: (f,) mask of nodes that rotate individually; the others rotate with their region.

    Unpinned regions rotate as a whole, so that no search direction changes a momentum. So do linked ones: a link is far
    stiffer than the bodies it joins, and couples its ends as at rest.
    """

    gradient_operator: csr_matrix
    rotates_individually: Mask

    @staticmethod
    def from_system(system: System) -> NodalRotations:
        """Return the rotations' operator for a system."""
        free, count = np.flatnonzero(~system.is_fixed), len(system.rest)
        is_pinned = np.zeros(count, dtype=bool)
        for region in system.regions:
            is_pinned[region.free] = not region.rigid_modes
        solid = [
            block.groups[0] + part.start
            for block, part in zip(system.blocks, system.slices, strict=True)
            if block.is_solid
        ]
        if not solid or system.links is not None or any(block.is_sheet for block in system.blocks):
            return NodalRotations(csr_matrix((3 * len(free), count)), np.zeros(len(free), dtype=bool))
        tets = np.concatenate(solid)
        volumes = np.abs(tet_volumes(system.rest, tets))
        nodal_volume = np.bincount(tets.ravel(), volumes.repeat(4), minlength=count)
        shapes = shape_gradients(system.rest, tets) * volumes[:, None, None]
        # Gradient at each corner from each corner, by material coordinate.
        rows = 3 * tets[:, :, None, None] + np.arange(3)
        values = shapes[:, None] / nodal_volume[tets][:, :, None, None]
        shape = np.broadcast_shapes(rows.shape, values.shape)
        columns = np.broadcast_to(tets[:, None, :, None], shape)
        operator = csr_matrix(
            (np.broadcast_to(values, shape).ravel(), (np.broadcast_to(rows, shape).ravel(), columns.ravel())),
            (3 * count, count),
        )
        dof = (3 * free + np.arange(3)[:, None]).ravel()
        return NodalRotations(operator[dof], (is_pinned & (nodal_volume > 0.0))[free])

    def rotations_at(self, x: Array, region_rotations: Array) -> Array:
        """Return rotations (f, 3, 3) at positions x (n, 3) m. region_rotations: (f, 3, 3), of whole regions.

        Evaluate it at the start of a search rather than at the end of the last step: that is nearer to the result.
        """
        if not self.rotates_individually.any():
            return region_rotations
        F = np.stack([self.gradient_operator @ place for place in np.ascontiguousarray(x.T)]).reshape(3, 3, -1)
        # Non-finite values are reported by the step.
        max_deviation = float(np.abs(F - region_rotations.transpose(1, 2, 0))[:, :, self.rotates_individually].max())
        if not max_deviation > _MAX_RIGID_DEVIATION:
            return region_rotations
        rotation, upright = nearest_rotations(F, _FEW_ITERATIONS if max_deviation < _SMALL_DEVIATION else _ITERATIONS)
        nodal = np.ascontiguousarray(rotation.transpose(2, 0, 1))
        is_valid = self.rotates_individually & upright & np.isfinite(nodal).all(axis=(1, 2))
        return np.asarray(np.where(is_valid[:, None, None], nodal, region_rotations))
