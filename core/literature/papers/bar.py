"""Validation bar of 1 x 0.25 x 0.25 m, clamped at x = 0."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array, Index
from ...geometry.mesh.box import box_tets
from ...materials import ElasticDensity, ElasticMaterial, StableNeoHookean, TetElasticity
from ...materials.tetrahedra import lumped_mass, tet_volumes
from ...system.system import System, build_system

SIZE = (1.0, 0.25, 0.25)
FINE_CELLS = (24, 6, 6)
COARSE_CELLS = (12, 3, 3)


def bar(
    cells: tuple[int, int, int],
    gravity: Array | None = None,
    clamped: bool = True,
    material: ElasticMaterial = ElasticMaterial(1e5, 0.4, 1000.0),
    model: type[ElasticDensity] = StableNeoHookean,
) -> System:
    """Return the bar as a system.

    cells: along each axis; six tetrahedra per cell.
    gravity: (3,) m/s^2, zero by default.
    """
    rest, tets = box_tets(SIZE, cells)
    volumes = tet_volumes(rest, tets)
    mass = lumped_mass(tets, volumes, material.density, len(rest))
    pinned: Index = np.flatnonzero(rest[:, 0] < 1e-9) if clamped else np.zeros(0, dtype=np.int64)
    elastic = TetElasticity(rest, tets, volumes, model(material))
    pull = np.zeros(3) if gravity is None else gravity
    return build_system(rest, tets, mass, (elastic,), pull, pinned, np.full(len(pinned), np.inf))
