"""How each node of a bent body is turned: what the metric of a step is turned by (docs/physics.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Mask
from ..elements.strains import gradients
from ..energies.polar import rotations
from ..energies.tetrahedra import tet_volumes
from ..system.system import System

# A body that is strained and turned by less than this against its best rotation is turned as a whole.
_ALIKE = 0.02
# Steps towards a rotation. No more are needed, as whatever it is, a metric turned by it stays positive.
_TIMES, _SOON, _SLIGHT = 4, 2, 0.3


@dataclass(frozen=True)
class Turns:
    """The mean deformation gradients at the free nodes of solids that something holds, and the rotations in them.

    gradient: (3f, n), which makes the columns of F of positions (n, 3) m, one after the other: each of all nodes.
    own: (f,) nodes that turn on their own; the others do as their region.

    What nothing holds turns as a whole, so that no direction of the search has a momentum; so does what is linked, as a
    link is stiffer by far than what it holds, and ties its ends as they were at rest.
    """

    gradient: csr_matrix
    own: Mask

    @staticmethod
    def of(system: System) -> Turns:
        free, count = np.flatnonzero(~system.fixed), len(system.rest)
        held = np.zeros(count, dtype=bool)
        for region in system.regions:
            held[region.free] = not region.rigid_modes
        solid = [
            block.groups[0] + part.start
            for block, part in zip(system.blocks, system.slices, strict=True)
            if block.is_solid
        ]
        if not solid or system.joints is not None or any(block.is_sheet for block in system.blocks):
            return Turns(csr_matrix((3 * len(free), count)), np.zeros(len(free), dtype=bool))
        tets = np.concatenate(solid)
        volumes = np.abs(tet_volumes(system.rest, tets))
        around = np.bincount(tets.ravel(), volumes.repeat(4), minlength=count)
        shapes = gradients(system.rest, tets) * volumes[:, None, None]
        # Of each corner, from each corner, by each coordinate of the material.
        rows = 3 * tets[:, :, None, None] + np.arange(3)
        values = shapes[:, None] / around[tets][:, :, None, None]
        shape = np.broadcast_shapes(rows.shape, values.shape)
        columns = np.broadcast_to(tets[:, None, :, None], shape)
        made = csr_matrix(
            (np.broadcast_to(values, shape).ravel(), (np.broadcast_to(rows, shape).ravel(), columns.ravel())),
            (3 * count, count),
        )
        dof = (3 * free + np.arange(3)[:, None]).ravel()
        return Turns(made[dof], (held & (around > 0.0))[free])

    def at(self, x: Array, regions: Array) -> Array:
        """Rotations (f, 3, 3) at positions x (n, 3) m.  regions: (f, 3, 3), those of whole regions.

        Where a search begins is a better place to ask than where the last step ended: it is nearer to where it ends.
        """
        if not self.own.any():
            return regions
        F = np.stack([self.gradient @ place for place in np.ascontiguousarray(x.T)]).reshape(3, 3, -1)
        # What is not finite is told by the step.
        most = float(np.abs(F - regions.transpose(1, 2, 0))[:, :, self.own].max())
        if not most > _ALIKE:
            return regions
        turn, upright = rotations(F, _SOON if most < _SLIGHT else _TIMES)
        turned = np.ascontiguousarray(turn.transpose(2, 0, 1))
        there = self.own & upright & np.isfinite(turned).all(axis=(1, 2))
        return np.asarray(np.where(there[:, None, None], turned, regions))
